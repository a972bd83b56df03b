/* SPDX-License-Identifier: Apache-2.0
 * See outputs.h. */
#include "broker/outputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "broker/log.h"
#include "proto/paths.h"

#define SWEEP_PAUSE_MS 1000u
#define NAMELESS_MAX_MS UINT64_C(3600000) /* an output that got no number, of a client that was killed */

struct ids {
    uint64_t *at;
    size_t used;
    size_t room;
};

static int push(struct ids *ids, uint64_t id)
{
    if (ids->used == ids->room) {
        size_t room = ids->room ? ids->room * 2 : 256;
        uint64_t *at = reallocarray(ids->at, room, sizeof(*at));
        if (!at)
            return -ENOMEM;
        ids->at = at;
        ids->room = room;
    }
    ids->at[ids->used++] = id;
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static DIR *open_folder(const struct tg_broker *b)
{
    char path[TG_PATH_BYTES];
    const char *store = tg_store_path(b->store);
    const char *slash = strrchr(store, '/');
    int n = snprintf(path, sizeof(path), "%.*s/output", (int)(slash ? slash - store : 0), store);
    if (n <= 0 || (size_t)n >= sizeof(path))
        return NULL;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir)
        close(fd);
    return dir;
}

/* Nobody has it as output any more. */
static bool is_quiet(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool quiet = flock(fd, LOCK_SH | LOCK_NB) == 0;
    close(fd);
    return quiet;
}

static void remove_quiet(int folder, const char *name)
{
    if (is_quiet(folder, name))
        unlinkat(folder, name, 0);
}

static void remove_nameless(int folder, const char *name)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return;
    uint64_t now = tg_clock_wall_ms();
    uint64_t then = (uint64_t)st.st_mtim.tv_sec * 1000;
    if (now > then && now - then > NAMELESS_MAX_MS)
        remove_quiet(folder, name);
}

/* The outputs of jobs that have ended. What is not of our making is left alone. */
static void list_ended(struct tg_broker *b, DIR *dir, struct ids *ids)
{
    const struct dirent *e;
    while ((e = readdir(dir)) != NULL) {
        uint64_t id;
        if (strncmp(e->d_name, ".new-", 5) == 0)
            remove_nameless(dirfd(dir), e->d_name);
        else if (tg_parse_u64(e->d_name, 1, INT64_MAX, &id) == 0 && !tg_queue_by_id(&b->queue, id) &&
                 push(ids, id) != 0)
            return;
    }
}

void tg_outputs_sweep(struct tg_broker *b)
{
    struct ids ids = {NULL, 0, 0};
    uint64_t oldest;
    DIR *dir = open_folder(b);
    if (!dir)
        return;
    list_ended(b, dir, &ids);
    if (ids.used > 0 && tg_store_oldest(b->store, &oldest) == 0) {
        qsort(ids.at, ids.used, sizeof(*ids.at), newest_first);
        for (size_t i = 0; i < ids.used; i++) {
            char name[24];
            if (i < b->config.output_keep && ids.at[i] >= oldest)
                continue;
            snprintf(name, sizeof(name), "%llu", (unsigned long long)ids.at[i]);
            remove_quiet(dirfd(dir), name);
        }
    }
    free(ids.at);
    closedir(dir);
    b->swept_ms = tg_broker_now_ms(b);
}

void tg_outputs_ended(struct tg_broker *b)
{
    uint64_t now = tg_broker_now_ms(b);
    if (b->swept_ms == 0 || now - b->swept_ms >= SWEEP_PAUSE_MS)
        tg_outputs_sweep(b);
}

/* ---- how long one may be */

#define CUT_PAUSE_MS 1000u

/* The job appends, and so does the note: what comes after a cut stands behind it until the next one. */
static void cut_file(int folder, uint64_t id, uint64_t max_mb)
{
    char name[24], note[128];
    struct stat st;
    off_t max = (off_t)(max_mb << 20);
    snprintf(name, sizeof(name), "%llu", (unsigned long long)id);
    int n = snprintf(note, sizeof(note),
                     "\ntidegate: cut here: the output is longer than %llu MB (config output-max-mb)\n",
                     (unsigned long long)max_mb);
    int fd = openat(folder, name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > max + n && ftruncate(fd, max) == 0 &&
        write(fd, note, (size_t)n) < 0)
        tg_log("the output of ticket %llu was cut, without a note: %s", (unsigned long long)id,
               strerror(errno));
    close(fd);
}

void tg_outputs_cut(const struct tg_broker *b, const struct tg_ticket *t)
{
    DIR *dir = b->config.output_max_mb > 0 && t->detached ? open_folder(b) : NULL;
    if (!dir)
        return;
    cut_file(dirfd(dir), t->id, b->config.output_max_mb);
    closedir(dir);
}

static bool any_detached(const struct tg_broker *b)
{
    for (size_t i = 0; i < b->queue.n_holders; i++) {
        if (b->queue.holders[i]->detached)
            return true;
    }
    return false;
}

void tg_outputs_mind(struct tg_broker *b)
{
    if (b->config.output_max_mb > 0 && !uv_is_active((uv_handle_t *)&b->outputs_timer) && any_detached(b))
        tg_broker_arm(b, &b->outputs_timer, CUT_PAUSE_MS);
}

void tg_outputs_due(struct tg_broker *b)
{
    for (size_t i = 0; i < b->queue.n_holders; i++)
        tg_outputs_cut(b, b->queue.holders[i]);
    tg_outputs_mind(b);
}
