/* SPDX-License-Identifier: Apache-2.0
 * See oom.h. Version 2 of control groups counts in memory.events, version 1 in memory.oom_control, the
 * machine in /proc/vmstat, all in a line "oom_kill N". */
#include "machine/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "machine/cgroup.h"
#include "machine/text.h"

#define SCORE_PATH "/proc/self/oom_score_adj"
#define SCORE_MAX 1000

static int read_count(const char *text, uint64_t *ret)
{
    const char *p = tg_text_line(text, "oom_kill ");
    uint64_t v;
    if (!p)
        return -ENOENT;
    if (tg_text_u64(&p, &v) || (*p != '\n' && *p != '\0'))
        return -EBADMSG;
    *ret = v;
    return 0;
}

int tg_oom_kills(const struct tg_root *root, uint64_t *ret)
{
    static const char *const files[] = {"memory.oom_control", "memory.events"};
    char buf[32768];
    struct tg_cgroup group;
    int err = tg_cgroup_find(root, "memory", &group);
    if (!err)
        err = tg_cgroup_read(root, &group, files[group.version - 1], buf, sizeof(buf));
    if (!err)
        err = read_count(buf, ret);
    if (err != -ENOENT) /* the topmost group has no such file, older kernels no such line */
        return err;
    err = tg_text_read(root, "/proc/vmstat", buf, sizeof(buf));
    return err ? err : read_count(buf, ret);
}

void tg_oom_volunteer(const struct tg_root *root, int step)
{
    char buf[PATH_MAX], text[16];
    const char *path = SCORE_PATH;
    uint64_t v;
    if (root->prefix[0]) {
        if (tg_root_path(root, SCORE_PATH, buf, sizeof(buf)))
            return;
        path = buf;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    bool negative = text[0] == '-';
    const char *p = text + negative;
    if (tg_text_u64(&p, &v) == 0 && v <= SCORE_MAX) {
        int score = (negative ? -(int)v : (int)v) + step;
        int m = snprintf(text, sizeof(text), "%d", score < SCORE_MAX ? score : SCORE_MAX);
        if (pwrite(fd, text, (size_t)m, 0) < 0)
            errno = 0; /* not allowed here: then it stays as it was */
    }
    close(fd);
}
