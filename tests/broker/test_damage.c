/* SPDX-License-Identifier: Apache-2.0
 * U7: each block of the store and of its log is cut off, zeroed or flipped, and a real broker started on it:
 * it serves, says what it moved aside, and gives nobody's slot away (A8). */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs.h"

#define ROWS 60
#define BLOCK 4096

enum damage { ZERO, FLIP, CUT };

static void damage_block(const char *path, off_t at, enum damage how)
{
    char block[BLOCK];
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    ssize_t n = pread(fd, block, sizeof(block), at);
    CHECK(n > 0);
    for (ssize_t i = 0; i < n; i++)
        block[i] = how == ZERO ? 0 : (char)~block[i];
    CHECK(how == CUT ? ftruncate(fd, at + 100) == 0 : pwrite(fd, block, (size_t)n, at) == n);
    close(fd);
}

static void copy(const char *from, const char *to)
{
    char buf[65536];
    ssize_t n;
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(in >= 0 && out >= 0);
    while ((n = read(in, buf, sizeof(buf))) > 0)
        CHECK(write(out, buf, (size_t)n) == n);
    close(in);
    close(out);
}

struct files {
    char good[2][260]; /* the store and its log as the killed broker left them */
    char live[2][260];
};

static void restore(const struct files *f)
{
    for (int i = 0; i < 2; i++)
        copy(f->good[i], f->live[i]);
}

/* A killed broker's files: many that have ended, one that runs. Its log is what the second half wrote. */
static void leave_files(struct place *p, struct tree_job *j, struct files *f)
{
    struct client c;
    place_make(p);
    place_ready(p, 1000);
    for (int half = 0; half < 2; half++) {
        client_open(&c, p);
        for (int i = 0; i < ROWS; i++) {
            pid_t pid = owner_make();
            CHECK_TEXT(admit(&c, "run", pid, 0, 1, NULL), "HOLD");
            owner_kill(pid);
        }
        client_close(&c);
        EVENTUALLY(holders_of(p) == 0);
        if (half == 0) {
            place_stop(p, SIGTERM);
            CHECK_TEXT(place_start(p), "ready");
        }
    }
    tree_job_make(j, p, "exec sleep 600 >$D/out 2>&1");
    CHECK_TEXT(tree_job_ask(j), "HOLD");
    CHECK(write(j->go, j->env, strlen(j->env)) > 0);
    EVENTUALLY(({
        char path[64], name[16] = "";
        snprintf(path, sizeof(path), "/proc/%d/comm", (int)j->pid);
        FILE *comm = fopen(path, "r");
        bool there = comm && fscanf(comm, "%15s", name) == 1 && strcmp(name, "sleep") == 0;
        if (comm)
            fclose(comm);
        there;
    }));
    client_close(&j->c);
    place_stop(p, SIGKILL);
    for (int i = 0; i < 2; i++) {
        snprintf(f->live[i], sizeof(f->live[i]), "%s%s", p->store, i ? "-wal" : "");
        snprintf(f->good[i], sizeof(f->good[i]), "%s/good%d", p->dir, i);
        copy(f->live[i], f->good[i]);
    }
}

/* Starts a broker there: whatever was lost, the one that runs holds. Whether the store was moved aside. */
static bool start_and_look(struct place *p, const struct tree_job *j, bool *ret_recognised)
{
    CHECK_TEXT(place_start(p), "ready");
    json_t *s = status_of(p);
    json_t *q = at(s, "store.quarantined");
    bool moved = json_is_string(q);
    CHECK_EQ(json_array_size(at(s, "holders")), 1);
    CHECK_EQ(number_at(s, "holders.0.pid"), j->pid);
    CHECK_EQ(number_at(s, "holders.0.ticket"), (int64_t)j->ticket);
    *ret_recognised = number_at(s, "store.recognised") == 1;
    if (moved) {
        char path[400];
        CHECK(*ret_recognised);
        CHECK(access(json_string_value(q), F_OK) == 0);
        CHECK(unlink(json_string_value(q)) == 0);
        snprintf(path, sizeof(path), "%s-wal", json_string_value(q));
        unlink(path);
    }
    json_decref(s);
    set_config(p, "slots", "1");
    set_config(p, "load", "off");
    struct client c;
    client_open(&c, p);
    pid_t late = owner_make();
    uint64_t ticket;
    CHECK_TEXT(admit(&c, "run", late, 0, 1, &ticket), "WAIT");
    CHECK(ticket > j->ticket);
    owner_kill(late);
    client_close(&c);
    place_stop(p, SIGKILL);
    return moved;
}

static void u7_each_damaged_block_is_survived_and_gives_no_slot_away(void)
{
    struct place p;
    struct tree_job j;
    struct files f;
    struct stat st;
    unsigned moved = 0, recognised = 0, log_recognised = 0;
    leave_files(&p, &j, &f);
    for (int i = 0; i < 2; i++) {
        CHECK(stat(f.good[i], &st) == 0 && st.st_size > 0);
        /* Of a long log the first blocks, the last, and some between. */
        off_t step = st.st_size > 24 * BLOCK ? (st.st_size / BLOCK / 10) * BLOCK : BLOCK;
        for (off_t at = 0; at < st.st_size; at += at < 4 * BLOCK ? BLOCK : step) {
            for (enum damage how = ZERO; how <= CUT; how++) {
                bool seen = false;
                restore(&f);
                damage_block(f.live[i], at, how);
                moved += start_and_look(&p, &j, &seen);
                recognised += seen;
                log_recognised += i == 1 && seen;
            }
        }
    }
    printf("moved aside %u times, recognised %u times, of these %u by a damaged log\n", moved, recognised,
           log_recognised);
    CHECK(moved > 3 && recognised > moved && log_recognised > 3);
    owner_kill(j.pid);
    restore(&f);
    CHECK_TEXT(place_start(&p), "ready");
    CHECK_EQ(holders_of(&p), 0);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(u7_each_damaged_block_is_survived_and_gives_no_slot_away);
    return 0;
}
