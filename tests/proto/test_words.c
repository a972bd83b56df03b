/* SPDX-License-Identifier: Apache-2.0
 * A8: the words of wrappers on how commands ended: kept, found again, and no damage makes a wrong one. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "proto/words.h"

#define UUID "01234567-89ab-cdef-0123-456789abcdef"
#define OTHER "11234567-89ab-cdef-0123-456789abcdef"

static char base[64], new_path[80], old_path[80];

static void begin(void)
{
    snprintf(base, sizeof(base), "/tmp/tidegate-test-XXXXXX");
    CHECK(mkdtemp(base) != NULL);
    snprintf(new_path, sizeof(new_path), "%s/words", base);
    snprintf(old_path, sizeof(old_path), "%s/words.old", base);
}

static void end(void)
{
    unlink(new_path);
    unlink(old_path);
    CHECK(rmdir(base) == 0);
}

static struct tg_word word(int32_t status)
{
    return (struct tg_word){
        .status = status, .peak_mb = 12, .oom = status == 9, .ended_boot_ms = 1000, .ended_wall_ms = 2000};
}

static int append(uint64_t ticket, const char *uuid, int32_t status)
{
    char mark[TG_WORD_MARK_BYTES];
    struct tg_word w = word(status);
    snprintf(mark, sizeof(mark), "%" PRIu64 ":%s", ticket, uuid);
    return tg_words_append(base, mark, &w);
}

static size_t read_all(struct tg_word **ret)
{
    size_t n = 0;
    CHECK_EQ(tg_words_read(base, UUID, ret, &n), 0);
    return n;
}

static size_t count(void)
{
    struct tg_word *w;
    size_t n = read_all(&w);
    free(w);
    return n;
}

static void what_was_said_is_read_in_order_of_tickets(void)
{
    struct tg_word *w;
    begin();
    CHECK_EQ(count(), 0);
    CHECK_EQ(append(7, UUID, 256), -ENOENT); /* nobody reads here */
    CHECK_EQ(tg_words_make(base), 0);
    CHECK_EQ(tg_words_make(base), 0);
    struct stat st;
    CHECK(stat(new_path, &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK_EQ(append(7, UUID, 256), 0);
    CHECK_EQ(append(8, OTHER, 256), 0);
    CHECK_EQ(append(3, UUID, 9), 0);
    CHECK_EQ(append(4, UUID, -1), -EINVAL);
    struct tg_word good = word(0);
    CHECK_EQ(tg_words_append(base, "", &good), -EINVAL);
    CHECK_EQ(tg_words_append(base, "5:a b", &good), -EINVAL);
    CHECK_EQ(tg_words_append(base, "5:a\nb", &good), -EINVAL);
    CHECK_EQ(read_all(&w), 2);
    CHECK(w[0].ticket == 3 && w[0].status == 9 && w[0].oom);
    CHECK(w[1].ticket == 7 && w[1].status == 256 && !w[1].oom && w[1].peak_mb == 12);
    CHECK(w[1].ended_boot_ms == 1000 && w[1].ended_wall_ms == 2000);
    free(w);
    end();
}

/* Each byte in turn gets another value: the word is gone or unharmed, never another one; those behind it are
 * found. Likewise behind what a full disk has cut off. */
static void a_damaged_line_is_no_word(void)
{
    char text[1024];
    begin();
    CHECK_EQ(tg_words_make(base), 0);
    for (uint64_t id = 1; id <= 3; id++)
        CHECK_EQ(append(id, UUID, (int32_t)id * 256), 0);
    int fd = open(new_path, O_RDWR | O_CLOEXEC);
    ssize_t n = pread(fd, text, sizeof(text), 0);
    CHECK(n > 100 && n < (ssize_t)sizeof(text));
    const char values[] = {0, '0', '9', ' ', '\n', ':', 'x', (char)255};
    for (ssize_t i = 0; i < n / 3; i++) {
        for (size_t v = 0; v < sizeof(values); v++) {
            struct tg_word *w;
            CHECK(pwrite(fd, &values[v], 1, i) == 1);
            size_t found = read_all(&w);
            CHECK(found >= (values[v] == text[i] ? 3 : 2) && found <= 3);
            for (size_t k = 0; k < found; k++)
                CHECK(w[k].ticket >= 1 && w[k].ticket <= 3 && w[k].status == (int32_t)w[k].ticket * 256);
            CHECK(w[found - 2].ticket == 2 && w[found - 1].ticket == 3);
            free(w);
        }
        CHECK(pwrite(fd, text + i, 1, i) == 1);
    }
    for (ssize_t cut = 0; cut < n; cut++) { /* and cut off, then appended to */
        CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)cut, 0) == cut);
        CHECK_EQ(count(), (size_t)(cut / (n / 3)));
        CHECK_EQ(append(4, UUID, 1024), 0);
        struct tg_word *w;
        size_t found = read_all(&w); /* a line that lacks its end alone is whole again */
        CHECK_EQ(found, (size_t)((cut + 1) / (n / 3)) + 1);
        CHECK(w[found - 1].ticket == 4 && w[found - 1].status == 1024);
        free(w);
    }
    close(fd);
    end();
}

static void what_is_no_file_is_no_word(void)
{
    struct tg_word *w;
    size_t n;
    begin();
    CHECK(symlink("/etc/passwd", new_path) == 0);
    CHECK(append(1, UUID, 0) != 0);
    CHECK(tg_words_make(base) != 0);
    CHECK(tg_words_read(base, UUID, &w, &n) != 0);
    CHECK(unlink(new_path) == 0 && mkfifo(new_path, 0600) == 0);
    CHECK(append(1, UUID, 0) != 0); /* and does not wait for a reader */
    CHECK(tg_words_make(base) != 0);
    CHECK(tg_words_read(base, UUID, &w, &n) != 0);
    /* Nor does a broker that lets a long file change places with one. */
    CHECK(unlink(new_path) == 0 && tg_words_make(base) == 0 && truncate(new_path, TG_WORDS_MAX_BYTES) == 0);
    CHECK(mkfifo(old_path, 0600) == 0);
    CHECK(tg_words_turn(base) != 0);
    end();
}

/* Long files change places; each word is found for as many others as a file holds. */
static void a_long_file_is_changed_and_nothing_near_is_lost(void)
{
    struct stat st;
    begin();
    CHECK_EQ(tg_words_turn(base), 0); /* makes it */
    for (uint64_t id = 1; id <= 5000; id++) {
        CHECK_EQ(append(id, UUID, 256), 0);
        CHECK_EQ(tg_words_turn(base), 0);
        if (id % 500 != 0)
            continue;
        struct tg_word *w;
        size_t n = read_all(&w);
        CHECK(w[n - 1].ticket == id && n >= (id < 500 ? id : 500));
        for (size_t i = 1; i < n; i++)
            CHECK_EQ(w[i].ticket, w[i - 1].ticket + 1);
        free(w);
        CHECK(stat(new_path, &st) == 0 && st.st_size <= TG_WORDS_MAX_BYTES);
    }
    CHECK(stat(old_path, &st) == 0 && st.st_size >= TG_WORDS_MAX_BYTES && (st.st_mode & 0777) == 0600);
    end();
}

/* Many wrappers at once, and a broker that changes the files meanwhile. */
static void words_of_many_do_not_mix(void)
{
    enum { PROCESSES = 4, EACH = 100 };
    pid_t pids[PROCESSES];
    begin();
    CHECK_EQ(tg_words_make(base), 0);
    for (uint64_t p = 0; p < PROCESSES; p++) {
        pids[p] = fork();
        CHECK(pids[p] >= 0);
        if (pids[p] > 0)
            continue;
        int bad = 0;
        for (uint64_t i = 1; i <= EACH; i++)
            bad |= append(p * EACH + i, UUID, (int32_t)i) != 0;
        _exit(bad);
    }
    for (size_t p = 0; p < PROCESSES; p++) {
        int status;
        CHECK(waitpid(pids[p], &status, 0) == pids[p] && status == 0);
        CHECK_EQ(tg_words_turn(base), 0);
    }
    CHECK_EQ(count(), PROCESSES * EACH);
    end();
}

/* `ulimit -f`: the signal that tells of it would end the wrapper. */
static void a_limit_on_files_ends_nobody(void)
{
    struct rlimit limit, none;
    begin();
    CHECK_EQ(tg_words_make(base), 0);
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    int r = append(1, UUID, 7);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(r, -EFBIG);
    CHECK_EQ(count(), 0);
    CHECK_EQ(append(1, UUID, 7), 0);
    CHECK_EQ(count(), 1);
    end();
}

int main(void)
{
    RUN(what_was_said_is_read_in_order_of_tickets);
    RUN(a_damaged_line_is_no_word);
    RUN(what_is_no_file_is_no_word);
    RUN(a_long_file_is_changed_and_nothing_near_is_lost);
    RUN(words_of_many_do_not_mix);
    RUN(a_limit_on_files_ends_nobody);
    return 0;
}
