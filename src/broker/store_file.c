/* SPDX-License-Identifier: Apache-2.0
 * See store_file.h. */
#include "broker/store_file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUARANTINES_MAX 1000u

const char *tg_outcome_name(enum tg_outcome outcome)
{
    switch (outcome) {
    case TG_OUTCOME_DONE:
        return "done";
    case TG_OUTCOME_OWNER_DIED:
        return "owner died";
    case TG_OUTCOME_RELEASED:
        return "released";
    case TG_OUTCOME_CANCELLED:
        return "cancelled";
    case TG_OUTCOME_LOST:
        return "lost";
    case TG_OUTCOME_UNKNOWN:
        return "liveness unknown";
    case TG_OUTCOME_SIGNALLED:
        return "signalled";
    case TG_OUTCOME_KILLED:
        return "killed";
    case TG_OUTCOME_OOM:
        return "oom";
    case TG_OUTCOMES:
        break;
    }
    return "?";
}

enum tg_outcome tg_outcome_of_status(int64_t status, bool oom)
{
    int s = (int)status;
    if (!WIFSIGNALED(s))
        return TG_OUTCOME_DONE;
    if (WTERMSIG(s) != SIGKILL)
        return TG_OUTCOME_SIGNALLED;
    return oom ? TG_OUTCOME_OOM : TG_OUTCOME_KILLED;
}

int tg_store_new_uuid(char ret[TG_STORE_UUID_BYTES])
{
    uint8_t r[16];
    if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
        return -EIO;
    r[6] = (uint8_t)((r[6] & 0x0f) | 0x40);
    r[8] = (uint8_t)((r[8] & 0x3f) | 0x80);
    static const char hex[] = "0123456789abcdef";
    size_t at = 0;
    for (size_t i = 0; i < sizeof(r); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            ret[at++] = '-';
        ret[at++] = hex[r[i] >> 4];
        ret[at++] = hex[r[i] & 15];
    }
    ret[at] = '\0';
    return 0;
}

bool tg_store_has_log(const char *path)
{
    char log[4096 + 8];
    struct stat st;
    int n = snprintf(log, sizeof(log), "%s-wal", path);
    return n > 0 && (size_t)n < sizeof(log) && stat(log, &st) == 0 && st.st_size > 0;
}

bool tg_store_is_link(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

int tg_store_quarantine(const char *path, char *ret, size_t size)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    char from[4096 + 8];
    char to[4096 + 32];
    for (unsigned n = 1; n <= QUARANTINES_MAX; n++) {
        snprintf(to, sizeof(to), "%s.corrupt-%u", path, n);
        if (access(to, F_OK) == 0)
            continue;
        snprintf(ret, size, "%s", to);
        for (size_t i = 0; i < 3; i++) {
            snprintf(from, sizeof(from), "%s%s", path, parts[i]);
            snprintf(to, sizeof(to), "%s.corrupt-%u%s", path, n, parts[i]);
            if (rename(from, to) != 0 && errno != ENOENT)
                return -errno;
        }
        return 0;
    }
    return -EEXIST;
}
