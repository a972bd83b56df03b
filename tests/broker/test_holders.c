/* SPDX-License-Identifier: Apache-2.0
 * P7: no table of a fixed size anywhere. Ten thousand hold at a time on a machine of 1024 cores, each is
 * shown and counted, one more waits; all of them die at once. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "broker/config.h"
#include "harness.h"

#define N (SANITIZED ? 2000 : 10000)

#define OWNERS (N / 100) /* each holds a hundred steps */

static pid_t owners[OWNERS];

static void p7_slots_are_the_cores_however_many(void)
{
    struct tg_config c;
    tg_config_defaults(&c);
    struct tg_gates g = tg_config_gates(&c, 1024);
    CHECK_EQ(g.slots, 1024);
    CHECK_EQ(g.load_limit_milli, 1024000);
}

static void hold_step(struct client *c, int i)
{
    json_t *m = admit_message("wait-admit", owners[i % OWNERS], 0, 0, -1);
    json_object_set_new(m, "step", json_integer(i + 1));
    m = client_ask(c, m);
    CHECK_TEXT(text_at(m, "state"), "HOLD");
    client_send(c, json_pack("{s:s,s:I}", "op", "ack", "ticket", (json_int_t)number_at(m, "ticket")));
    json_decref(m);
}

static bool nobody_is_left(const struct place *p)
{
    json_t *s = status_of(p);
    size_t left = json_array_size(at(s, "holders")) + json_array_size(at(s, "waiters"));
    json_decref(s);
    return left == 0;
}

static void p7_ten_thousand_holders(void)
{
    struct place p;
    struct client c, last;
    char slots[16];
    place_make(&p);
    place_ready(&p, 1);
    snprintf(slots, sizeof(slots), "%d", N);
    set_config(&p, "slots", slots);
    pid_t parent = owners_make_many(owners, OWNERS);
    client_open(&c, &p);
    for (int i = 0; i < N; i++)
        hold_step(&c, i);
    pid_t other = owner_make();
    client_open(&last, &p);
    CHECK_TEXT(admit(&last, "run", other, 0, 0, NULL), "WAIT");
    json_t *s = status_of(&p), *h;
    size_t i;
    int64_t sum = 0, expect = 0;
    CHECK_EQ(json_array_size(at(s, "holders")), N);
    CHECK_EQ(number_at(s, "gates.slots.held"), N);
    CHECK_TEXT(text_at(s, "waiters.0.why"), "slots");
    json_array_foreach(at(s, "holders"), i, h) sum += number_at(h, "pid");
    for (i = 0; i < N; i++)
        expect += owners[i % OWNERS];
    CHECK_EQ(sum, expect);
    json_decref(s);
    kill(parent, SIGKILL);
    CHECK_EQ(waitpid(parent, NULL, 0), parent);
    json_decref(client_recv(&last)); /* its turn */
    owner_kill(other);
    EVENTUALLY(nobody_is_left(&p));
    client_close(&c);
    client_close(&last);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

int main(void)
{
    struct rlimit files;
    RUN(p7_slots_are_the_cores_however_many);
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max < N + 100)
        SKIP("P7 with %d holders needs %d descriptors", N, N + 100);
    RUN(p7_ten_thousand_holders);
    return 0;
}
