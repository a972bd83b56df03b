/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading marks: see mark.h. The environment of a process is memory that the process itself may overwrite: a
 * mark says where it wants to belong. */
#include "machine/mark.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine/stat.h"
#include "machine/text.h"
#include "machine/tree.h"

#define ENVIRON_MAX_BYTES ((size_t)16 << 20)

/* Finds the mark in a stream of NUL-terminated strings that comes in pieces. */
struct mark_reader {
    size_t at; /* bytes of the current string that matched "NAME="; or SKIPPING */
    size_t n;
    char value[TG_MARK_BYTES];
    bool found;
};
#define SKIPPING SIZE_MAX

static void feed_mark(struct mark_reader *m, const char *bytes, size_t n)
{
    static const char key[] = TG_TREE_MARK "=";
    const size_t length = sizeof(key) - 1;
    for (size_t i = 0; i < n && !m->found; i++) {
        if (bytes[i] == '\0') {
            m->found = m->at == length;
            m->at = 0;
        } else if (m->at == length) {
            if (m->n == sizeof(m->value) - 1)
                m->at = SKIPPING; /* too long to be one */
            else
                m->value[m->n++] = bytes[i];
        } else if (m->at != SKIPPING) {
            m->at = bytes[i] == key[m->at] ? m->at + 1 : SKIPPING;
        }
    }
    m->value[m->n] = '\0';
}

bool tg_mark_of(int proc_fd, const char *name, char ret[TG_MARK_BYTES], uid_t *ret_uid, bool *ret_empty)
{
    struct mark_reader m = {0};
    char path[300], chunk[16384];
    struct stat st;
    snprintf(path, sizeof(path), "%s/environ", name);
    int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return false;
    size_t left = ENVIRON_MAX_BYTES;
    *ret_empty = false;
    while (!m.found && left > 0) {
        ssize_t n = read(fd, chunk, sizeof(chunk) < left ? sizeof(chunk) : left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            *ret_empty = n == 0 && left == ENVIRON_MAX_BYTES;
            break;
        }
        feed_mark(&m, chunk, (size_t)n);
        left -= (size_t)n;
    }
    bool known = m.found && fstat(fd, &st) == 0;
    *ret_uid = known ? st.st_uid : 0;
    close(fd);
    if (known)
        memcpy(ret, m.value, sizeof(m.value));
    return known;
}

/* ---- all of them */

/* "ID:UUID" with an id above 0 and a uuid of the store's form. */
static bool split(char *value, struct tg_marked *ret)
{
    const char *p = value;
    if (tg_text_u64(&p, &ret->id) || *p != ':' || ret->id == 0 || ret->id > INT64_MAX)
        return false;
    if (strlen(p + 1) != sizeof(ret->uuid) - 1 || strspn(p + 1, "0123456789abcdef-") != sizeof(ret->uuid) - 1)
        return false;
    memcpy(ret->uuid, p + 1, sizeof(ret->uuid));
    return true;
}

static bool read_one(int proc_fd, const char *name, struct tg_marked *ret)
{
    char path[300], buf[2048], value[TG_MARK_BYTES];
    struct tg_stat_line s;
    bool empty;
    pid_t pid = tg_stat_pid(name);
    if (pid == 0 || !tg_mark_of(proc_fd, name, value, &ret->uid, &empty) || !split(value, ret))
        return false;
    snprintf(path, sizeof(path), "%s/stat", name);
    if (tg_text_read_at(proc_fd, path, buf, sizeof(buf)) < 0 || tg_stat_parse(buf, pid, &s) ||
        tg_stat_has_ended(&s))
        return false;
    ret->pid = pid;
    ret->session = s.session;
    ret->start_ticks = s.start_ticks;
    return true;
}

static int by_age(const void *a, const void *b)
{
    const struct tg_marked *x = a, *y = b;
    if (x->start_ticks != y->start_ticks)
        return x->start_ticks < y->start_ticks ? -1 : 1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

int tg_marks_read(const struct tg_root *root, struct tg_marked **ret, size_t *ret_n)
{
    struct tg_marked *list = NULL;
    struct tg_marked one = {0};
    size_t n = 0, room = 0;
    DIR *dir;
    int err = tg_root_opendir(root, "/proc", &dir);
    if (err)
        return err;
    const struct dirent *e;
    while (!err && (errno = 0, e = readdir(dir)) != NULL) {
        if (!read_one(dirfd(dir), e->d_name, &one))
            continue;
        if (n == room) {
            room = room ? room * 2 : 16;
            struct tg_marked *grown = reallocarray(list, room, sizeof(*list));
            if (!grown) {
                err = -ENOMEM;
                break;
            }
            list = grown;
        }
        list[n++] = one;
    }
    if (!err)
        err = -errno;
    closedir(dir);
    if (err) {
        free(list);
        return err;
    }
    if (n > 0)
        qsort(list, n, sizeof(*list), by_age);
    *ret = list;
    *ret_n = n;
    return 0;
}
