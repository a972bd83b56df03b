/* SPDX-License-Identifier: Apache-2.0
 * See words.h. A line: "ID:UUID STATUS OOM PEAK BOOT WALL SUM", SUM over all before it. Lines are appended in
 * one write to a file opened with O_APPEND, so those of several wrappers do not mix. Each begins with the end
 * of a line, too: what a full disk let another write of his in part ends there, and takes nobody's along. */
#include "proto/words.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"
#include "proto/paths.h"

#define LINE_BYTES 256u
#define READ_MAX_BYTES (64u << 20) /* of a file that grew while no broker came */

static const char NEW[] = "words";
static const char OLD[] = "words.old";

static int path_of(const char *state_dir, const char *name, char path[TG_PATH_BYTES])
{
    int n = snprintf(path, TG_PATH_BYTES, "%s/%s", state_dir, name);
    return n > 0 && (size_t)n < TG_PATH_BYTES ? 0 : -ENAMETOOLONG;
}

/* FNV-1a: against damage, not against people. */
static uint32_t sum_of(const char *text, size_t n)
{
    uint32_t sum = 2166136261u;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (unsigned char)text[i]) * 16777619u;
    return sum;
}

/* By hand: a command says one word at its end, and printf alone would be half of what that costs. */
static char *put(char *to, const char *text, size_t n)
{
    memcpy(to, text, n);
    return to + n;
}

static char *put_number(char *to, uint64_t n)
{
    char text[24];
    size_t at = sizeof(text);
    do
        text[--at] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    text[--at] = ' ';
    return put(to, text + at, sizeof(text) - at);
}

static void put_sum(uint32_t sum, char to[8])
{
    for (int i = 7; i >= 0; i--, sum >>= 4)
        to[i] = "0123456789abcdef"[sum & 15];
}

int tg_words_open(const char *state_dir)
{
    char path[TG_STORE_PATH_BYTES + sizeof(NEW) + 1];
    size_t folder = strnlen(state_dir, TG_STORE_PATH_BYTES);
    if (folder == TG_STORE_PATH_BYTES)
        return -ENAMETOOLONG;
    char *end = put(path, state_dir, folder);
    *end++ = '/';
    put(end, NEW, sizeof(NEW));
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* A limit on the size of files (`ulimit -f`) is an error here, and not the signal that ends a process: that
 * is sent to the thread which writes, so it can be held back and taken by it. */
static int write_whole(int fd, const char *line, size_t n)
{
    sigset_t limit, before;
    const struct timespec at_once = {0, 0};
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    int err = pthread_sigmask(SIG_BLOCK, &limit, &before);
    if (err)
        return -err;
    ssize_t written = write(fd, line, n);
    err = written == (ssize_t)n ? 0 : written < 0 ? errno : ENOSPC;
    if (err == EFBIG && !sigismember(&before, SIGXFSZ))
        while (sigtimedwait(&limit, NULL, &at_once) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -err;
}

int tg_words_write(int fd, const char *mark, const struct tg_word *w)
{
    char line[LINE_BYTES];
    size_t length = strnlen(mark, TG_WORD_MARK_BYTES);
    if (length == 0 || length == TG_WORD_MARK_BYTES || mark[strcspn(mark, " \n")] != '\0' || w->status < 0)
        return -EINVAL;
    line[0] = '\n';
    char *const begin = line + 1;
    char *end = put(begin, mark, length);
    end = put_number(end, (uint64_t)w->status);
    end = put_number(end, w->oom);
    end = put_number(end, w->peak_mb);
    end = put_number(end, w->ended_boot_ms);
    end = put_number(end, w->ended_wall_ms);
    uint32_t sum = sum_of(begin, (size_t)(end - begin));
    *end++ = ' ';
    put_sum(sum, end);
    end[8] = '\n';
    return write_whole(fd, line, (size_t)(end + 9 - line));
}

int tg_words_append(const char *state_dir, const char *mark, const struct tg_word *w)
{
    int fd = tg_words_open(state_dir);
    if (fd < 0)
        return fd;
    int err = tg_words_write(fd, mark, w);
    close(fd);
    return err;
}

static int make(const char *state_dir, const char *name, int flags)
{
    char path[TG_PATH_BYTES];
    int err = path_of(state_dir, name, path);
    int fd =
        err ? -1
            : open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | flags, 0600);
    if (fd >= 0)
        close(fd);
    return err ? err : fd < 0 ? -errno : 0;
}

int tg_words_make(const char *state_dir)
{
    return make(state_dir, NEW, 0);
}

/* Takes the next word of the line; "" when there is none. */
static char *next_word(char **at)
{
    char *word = *at;
    char *end = word + strcspn(word, " ");
    *at = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

/* A line without its end. */
static bool read_line(char *line, const char *uuid, struct tg_word *ret)
{
    struct tg_word w = {0};
    char sum[8];
    uint64_t status, oom;
    char *last = strrchr(line, ' ');
    if (!last)
        return false;
    put_sum(sum_of(line, (size_t)(last - line)), sum);
    if (strlen(last + 1) != sizeof(sum) || memcmp(last + 1, sum, sizeof(sum)) != 0)
        return false;
    *last = '\0';
    char *mark = next_word(&line);
    char *colon = strchr(mark, ':');
    if (!colon || strcmp(colon + 1, uuid) != 0)
        return false;
    *colon = '\0';
    if (tg_parse_u64(mark, 1, INT64_MAX, &w.ticket) ||
        tg_parse_u64(next_word(&line), 0, INT32_MAX, &status) || tg_parse_u64(next_word(&line), 0, 1, &oom) ||
        tg_parse_u64(next_word(&line), 0, INT64_MAX, &w.peak_mb) ||
        tg_parse_u64(next_word(&line), 0, INT64_MAX, &w.ended_boot_ms) ||
        tg_parse_u64(next_word(&line), 0, INT64_MAX, &w.ended_wall_ms) || *line)
        return false;
    w.status = (int32_t)status;
    w.oom = oom != 0;
    *ret = w;
    return true;
}

struct list {
    struct tg_word *at;
    size_t used;
    size_t room;
};

static int push(struct list *list, const struct tg_word *w)
{
    if (list->used == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        struct tg_word *grown = realloc(list->at, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        list->at = grown;
        list->room = room;
    }
    list->at[list->used++] = *w;
    return 0;
}

static int read_file(const char *state_dir, const char *name, const char *uuid, struct list *list)
{
    char path[TG_PATH_BYTES];
    char line[LINE_BYTES];
    struct stat st;
    int err = path_of(state_dir, name, path);
    int fd = err ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return err ? err : errno == ENOENT ? 0 : -errno;
    bool file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    FILE *f = file ? fdopen(fd, "r") : NULL;
    if (!f) {
        close(fd);
        return -EINVAL;
    }
    size_t n = 0;
    size_t all = 0;
    int c;
    while (!err && (c = getc_unlocked(f)) != EOF && all++ < READ_MAX_BYTES) {
        struct tg_word w;
        if (c != '\n') { /* what is longer than any word is none, to its end */
            line[n] = (char)c;
            n += n < sizeof(line) - 1;
            continue;
        }
        line[n] = '\0';
        if (read_line(line, uuid, &w))
            err = push(list, &w);
        n = 0;
    }
    fclose(f);
    return err;
}

/* Of two on one ticket the later one comes last. */
static int by_ticket(const void *a, const void *b)
{
    const struct tg_word *x = a, *y = b;
    if (x->ticket != y->ticket)
        return x->ticket < y->ticket ? -1 : 1;
    return (x->ended_boot_ms > y->ended_boot_ms) - (x->ended_boot_ms < y->ended_boot_ms);
}

int tg_words_read(const char *state_dir, const char *uuid, struct tg_word **ret, size_t *ret_n)
{
    struct list list = {NULL, 0, 0};
    int err = read_file(state_dir, OLD, uuid, &list);
    if (!err)
        err = read_file(state_dir, NEW, uuid, &list);
    if (err) {
        free(list.at);
        return err;
    }
    if (list.used > 0)
        qsort(list.at, list.used, sizeof(*list.at), by_ticket);
    *ret = list.at;
    *ret_n = list.used;
    return 0;
}

int tg_words_turn(const char *state_dir)
{
    char new_path[TG_PATH_BYTES], old_path[TG_PATH_BYTES];
    struct stat st;
    int err = path_of(state_dir, NEW, new_path);
    if (!err)
        err = path_of(state_dir, OLD, old_path);
    if (!err && lstat(new_path, &st) != 0)
        return errno == ENOENT ? tg_words_make(state_dir) : -errno;
    if (err || (uint64_t)st.st_size < TG_WORDS_MAX_BYTES)
        return err;
    err = make(state_dir, OLD, O_TRUNC);
    if (!err && renameat2(AT_FDCWD, new_path, AT_FDCWD, old_path, RENAME_EXCHANGE) != 0)
        err = -errno;
    if (err == -EINVAL || err == -ENOSYS) { /* a file system that cannot: for a moment there is none */
        err = rename(new_path, old_path) ? -errno : tg_words_make(state_dir);
    }
    return err;
}
