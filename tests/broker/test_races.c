/* SPDX-License-Identifier: Apache-2.0
 * R8: everything that ends a ticket races with everything else that does. */
#include "jobs.h"

enum { CONNECTIONS = 4, BATCH = 40, RACES = 10000, RACE_LIMIT_MS = SANITIZED ? 15000 : 60000 };
enum { FEWEST = SANITIZED ? 20 : 200 };

static unsigned random_below(unsigned n)
{
    static uint32_t x = 2463534242u;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return x % n;
}

static pid_t make_quick_owner(const int go[2])
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        char c;
        close(go[1]);
        ssize_t n = read(go[0], &c, 1); /* a byte or the end: go */
        _exit(n > 0);
    }
    return pid;
}

/* One way to end a ticket, on some connection; how many answers will come. */
static int end_somehow(struct client *c, pid_t pid, uint64_t ticket)
{
    switch (random_below(8)) {
    case 0:
        client_send(c, cancel_message(ticket, random_below(2) * 1000));
        return 1;
    case 1:
    case 2:
        client_send(c, json_pack("{s:s,s:i}", "op", "release", "pid", (int)pid));
        return 1;
    case 3:
    case 4:
        client_send(c, json_pack("{s:s,s:I}", "op", "park", "ticket", (json_int_t)ticket));
        return 1;
    case 5:
    case 6:
        client_send(c, json_pack("{s:s,s:I,s:i,s:i}", "op", "done", "ticket", (json_int_t)ticket, "status", 0,
                                 "left", (int)random_below(2)));
        return 1;
    default:
        return 0;
    }
}

/* How many requests met the end of their owner. */
static unsigned race_once(const struct place *p, struct client *c)
{
    unsigned races = 0;
    pid_t pid[BATCH];
    uint64_t ticket[BATCH];
    int due[CONNECTIONS] = {0};
    int go[2];
    struct client own;
    CHECK(pipe2(go, O_CLOEXEC) == 0);
    client_open(&own, p);
    for (int i = 0; i < BATCH; i++) {
        pid[i] = make_quick_owner(go);
        admit(&own, i % 4 ? "run" : "wait-admit", pid[i], 0, 1, &ticket[i]);
    }
    /* Each ends by itself, by a signal, or by its own will some time while the requests are under way. */
    for (int i = 0; i < BATCH; i++) {
        if (random_below(3) == 0)
            kill(pid[i], SIGKILL);
        for (int k = 0; k < 2; k++) {
            unsigned on = random_below(CONNECTIONS);
            int answers = end_somehow(&c[on], pid[i], ticket[i]);
            due[on] += answers;
            races += (unsigned)answers;
        }
        if (random_below(3) == 0)
            CHECK(write(go[1], "x", 1) == 1);
    }
    close(go[1]);
    close(go[0]);
    client_close(&own);
    for (int i = 0; i < BATCH; i++)
        CHECK_EQ(waitpid(pid[i], NULL, 0), pid[i]);
    for (int k = 0; k < CONNECTIONS; k++) {
        while (due[k]-- > 0)
            json_decref(client_recv(&c[k]));
    }
    return races;
}

/* R8: cancel, release, park and done meet the end of their owners in every order; whatever the order, no
 * ticket stays and everybody gets his answers. RACES of them, or as many as RACE_LIMIT_MS allow, but FEWEST,
 * on a machine that is busy with other things. */
static void r8_no_ticket_stays_whatever_the_order(void)
{
    struct place p;
    struct client c[CONNECTIONS];
    unsigned n = 0;
    place_make(&p);
    place_ready(&p, BATCH / 2);
    for (int i = 0; i < CONNECTIONS; i++)
        client_open(&c[i], &p);
    uint64_t end = now_ms() + RACE_LIMIT_MS;
    while (n < FEWEST || (n < RACES && now_ms() < end)) {
        n += race_once(&p, c);
        EVENTUALLY(holders_of(&p) == 0 && waiters_of(&p) == 0);
    }
    fprintf(stderr, "  %u races\n", n);
    for (int i = 0; i < CONNECTIONS; i++)
        client_close(&c[i]);
    CHECK_TEXT(p.word, "ready");
    int status = place_stop(&p, SIGTERM);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    RUN(r8_no_ticket_stays_whatever_the_order);
    return 0;
}
