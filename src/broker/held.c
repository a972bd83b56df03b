/* SPDX-License-Identifier: Apache-2.0
 * See held.h. A file: "UUID PID START BOOT STEP UID EST SLOTS PRIO SUM", SUM over all before it. */
#include "broker/held.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "broker/log.h"
#include "proto/paths.h"

#define FILE_BYTES 400u

void tg_held_open(struct tg_broker *b)
{
    char path[TG_PATH_BYTES];
    const char *store = tg_store_path(b->store);
    const char *slash = strrchr(store, '/');
    int n = snprintf(path, sizeof(path), "%.*s/held", (int)(slash ? slash - store : 0), store);
    b->held_fd = -1;
    if (n > 0 && (size_t)n < sizeof(path) && (mkdir(path, 0700) == 0 || errno == EEXIST))
        b->held_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (b->held_fd < 0)
        tg_log("%s: %s: should the store be lost, what wait-admit granted would not be recognised", path,
               strerror(errno));
}

void tg_held_close(struct tg_broker *b)
{
    if (b->held_fd >= 0)
        close(b->held_fd);
    b->held_fd = -1;
}

static void name_of(uint64_t id, char ret[24])
{
    snprintf(ret, 24, "%" PRIu64, id);
}

/* FNV-1a: against damage, not against people. */
static size_t render(const struct tg_held *h, char text[FILE_BYTES])
{
    int n = snprintf(text, FILE_BYTES, "%s %d %" PRIu64 " %s %" PRIu64 " %u %" PRIu64 " %u %" PRId64, h->uuid,
                     (int)h->owner.pid, h->owner.start_ticks, h->owner.boot_id, h->step, (unsigned)h->uid,
                     h->est_mb, (unsigned)h->slots, h->prio);
    if (n <= 0 || (size_t)n >= FILE_BYTES - 16)
        return 0;
    uint32_t sum = 2166136261u;
    for (int i = 0; i < n; i++)
        sum = (sum ^ (unsigned char)text[i]) * 16777619u;
    return (size_t)n + (size_t)snprintf(text + n, 16, " %08x\n", (unsigned)sum);
}

/* What it says must be what would be written of that: nothing else is taken. */
static bool parse(const char *text, size_t length, uint64_t id, struct tg_held *ret)
{
    struct tg_held h = {.id = id};
    char again[FILE_BYTES];
    int pid;
    unsigned uid, slots;
    if (sscanf(text, "%36s %d %" SCNu64 " %36s %" SCNu64 " %u %" SCNu64 " %u %" SCNd64, h.uuid, &pid,
               &h.owner.start_ticks, h.owner.boot_id, &h.step, &uid, &h.est_mb, &slots, &h.prio) != 9)
        return false;
    h.owner.pid = pid;
    h.uid = uid;
    h.slots = slots;
    if (pid <= 1 || h.owner.start_ticks > INT64_MAX || h.step > INT64_MAX || h.est_mb > TG_EST_MAX_MB ||
        slots > TG_SLOTS_MAX || strlen(h.uuid) != 36 || strlen(h.owner.boot_id) != 36)
        return false;
    if (render(&h, again) != length || memcmp(text, again, length) != 0)
        return false;
    *ret = h;
    return true;
}

void tg_held_write(struct tg_broker *b, const struct tg_ticket *t)
{
    if (t->kind != TG_KIND_WAIT_ADMIT || b->held_fd < 0)
        return;
    struct tg_held h = {.id = t->id,
                        .owner = t->owner,
                        .step = t->step,
                        .uid = t->uid,
                        .est_mb = t->est_mb,
                        .slots = t->slots,
                        .prio = t->prio};
    char name[24], text[FILE_BYTES];
    snprintf(h.uuid, sizeof(h.uuid), "%s", tg_store_uuid(b->store));
    size_t n = render(&h, text);
    name_of(t->id, name);
    int fd =
        openat(b->held_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    /* One that is not whole is none, and harms nobody: the store has the ticket. */
    if (fd >= 0 && (n == 0 || write(fd, text, n) != (ssize_t)n))
        unlinkat(b->held_fd, name, 0);
    if (fd >= 0)
        close(fd);
}

void tg_held_gone(struct tg_broker *b, const struct tg_ticket *t)
{
    char name[24];
    if (t->kind != TG_KIND_WAIT_ADMIT || b->held_fd < 0)
        return;
    name_of(t->id, name);
    unlinkat(b->held_fd, name, 0);
}

/* Calls visit for each file that is named as one of ours. */
static int each(struct tg_broker *b,
                int (*visit)(struct tg_broker *b, const char *name, uint64_t id, void *ctx), void *ctx)
{
    int fd = b->held_fd < 0 ? -1 : openat(b->held_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;
    int err = 0;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    while (!err && (e = readdir(dir)) != NULL) {
        uint64_t id;
        if (tg_parse_u64(e->d_name, 1, INT64_MAX, &id) == 0)
            err = visit(b, e->d_name, id, ctx);
    }
    closedir(dir);
    return err;
}

struct list {
    struct tg_held *at;
    size_t used;
    size_t room;
};

static int read_one(struct tg_broker *b, const char *name, uint64_t id, void *ctx)
{
    struct list *list = ctx;
    struct tg_held h;
    char text[FILE_BYTES + 1];
    int fd = openat(b->held_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, FILE_BYTES) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    if (!parse(text, (size_t)n, id, &h))
        return 0;
    if (list->used == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        struct tg_held *grown = reallocarray(list->at, room, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        list->at = grown;
        list->room = room;
    }
    list->at[list->used++] = h;
    return 0;
}

int tg_held_read(struct tg_broker *b, struct tg_held **ret, size_t *ret_n)
{
    struct list list = {NULL, 0, 0};
    int err = each(b, read_one, &list);
    if (err) {
        free(list.at);
        return err;
    }
    *ret = list.at;
    *ret_n = list.used;
    return 0;
}

static int sweep_one(struct tg_broker *b, const char *name, uint64_t id, void *ctx)
{
    (void)ctx;
    const struct tg_ticket *t = tg_queue_by_id(&b->queue, id);
    if (!t || t->state != TG_HOLD || t->kind != TG_KIND_WAIT_ADMIT)
        unlinkat(b->held_fd, name, 0);
    return 0;
}

void tg_held_sweep(struct tg_broker *b)
{
    const struct tg_queue *q = &b->queue;
    each(b, sweep_one, NULL);
    for (size_t i = 0; i < q->n_holders; i++)
        tg_held_write(b, q->holders[i]);
}
