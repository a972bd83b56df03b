/* SPDX-License-Identifier: Apache-2.0
 * The life of tickets as a whole (row O13 of the cases): whatever is asked for in whatever order, through a
 * real broker that is killed now and then, a ticket goes along the arrows of ticket.h alone, nothing is
 * granted that a setting forbids, and what has ended stands in the history once. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define OWNERS 12
#define STEPS 600
#define RESTART_EVERY 150
#define IDS 2000

enum state { NEVER, WAITS, PARKED, HOLDS, GONE };

/* A ticket as status shows it. */
struct seen {
    enum state state;
    bool on_hold;
    bool is_run;
    bool acked; /* we have said so */
    int64_t slots;
};

struct owner {
    pid_t pid;
    bool connected;
    struct client c;
};

static struct place p;
static struct owner owners[OWNERS];
static struct seen before[IDS], now[IDS];
static uint64_t n_ids;
static uint64_t seed = 13;
static bool draining;
static int64_t slots_limit;

static uint64_t up_to(uint64_t n)
{
    return check_random(&seed) % n;
}

static void note(const json_t *list, bool holder)
{
    size_t i;
    json_t *t;
    json_array_foreach((json_t *)(uintptr_t)list, i, t)
    {
        uint64_t id = (uint64_t)number_at(t, "ticket");
        CHECK(id < IDS);
        CHECK_EQ(now[id].state, NEVER); /* listed once */
        now[id].state = holder ? HOLDS : strcmp(text_at(t, "state"), "WAIT") == 0 ? WAITS : PARKED;
        now[id].on_hold = !holder && json_is_true(at(t, "on_hold"));
        now[id].is_run = strcmp(text_at(t, "kind"), "run") == 0;
        now[id].slots = number_at(t, "slots");
        now[id].acked = before[id].acked;
        n_ids = id >= n_ids ? id + 1 : n_ids;
    }
}

static bool is_arrow(const struct seen *from, const struct seen *to)
{
    bool heard_of = from->is_run || from->acked;
    switch (from->state) {
    case NEVER:
        return true;
    case WAITS:
    case PARKED: /* it may have been asked for again and granted since */
        return to->state != HOLDS || !(from->on_hold && to->on_hold);
    case HOLDS: /* nobody heard of it: parked, and perhaps asked for again */
        return to->state == HOLDS || to->state == GONE || !heard_of;
    case GONE:
        return to->state == GONE;
    }
    return false;
}

/* What status says now, against what it said before. */
static void look(int step)
{
    json_t *s = status_of(&p);
    bool was_draining = draining;
    memset(now, 0, sizeof(now));
    note(at(s, "holders"), true);
    note(at(s, "waiters"), false);
    draining = json_is_true(at(s, "gates.draining"));
    bool granted = false, took_slots = false;
    for (uint64_t id = 1; id < n_ids; id++) {
        if (now[id].state == NEVER && before[id].state != NEVER)
            now[id].state = GONE;
        if (!is_arrow(&before[id], &now[id])) {
            fprintf(stderr, "step %d: ticket %llu went from %d to %d\n", step, (unsigned long long)id,
                    before[id].state, now[id].state);
            exit(1);
        }
        bool new_holder = now[id].state == HOLDS && before[id].state != HOLDS;
        granted |= new_holder;
        took_slots |= new_holder && now[id].slots > 0;
        before[id] = now[id];
    }
    CHECK(!granted || !(was_draining && draining));
    /* A death between the last look and the last step may have let somebody in under the former limit. */
    int64_t limit = number_at(s, "gates.slots.limit");
    int64_t largest = limit > slots_limit ? limit : slots_limit;
    CHECK(!took_slots || number_at(s, "gates.slots.held") <= largest);
    slots_limit = limit;
    json_decref(s);
}

static void drain_answers(struct owner *o)
{
    while (o->connected && !client_quiet(&o->c, 0))
        json_decref(client_recv(&o->c));
}

static void disconnect(struct owner *o)
{
    if (o->connected)
        client_close(&o->c);
    o->connected = false;
}

/* A new process when the old one has ended. */
static void revive(struct owner *o)
{
    if (o->pid > 0 && waitpid(o->pid, NULL, WNOHANG) != o->pid)
        return;
    disconnect(o);
    o->pid = owner_make();
}

static void ask(struct owner *o)
{
    if (!o->connected)
        client_open(&o->c, &p);
    o->connected = true;
    drain_answers(o);
    json_t *m =
        admit_message(up_to(2) ? "run" : "wait-admit", o->pid, (int64_t)up_to(5) - 2, (int64_t)up_to(30), -1);
    json_object_set_new(m, "slots", json_integer((json_int_t)up_to(3)));
    json_decref(client_ask(&o->c, m));
}

/* An order about some ticket, living or not; refused or not. */
static void order(const char *op, uint64_t ticket)
{
    struct client c;
    client_open(&c, &p);
    json_t *m = json_pack("{s:s,s:I}", "op", op, "ticket", (json_int_t)ticket);
    if (strcmp(op, "prio") == 0)
        json_object_set_new(m, "prio", json_integer((json_int_t)up_to(5)));
    if (strcmp(op, "done") == 0)
        json_object_set_new(m, "status", json_integer(0));
    client_send(&c, m);
    if (strcmp(op, "ack") != 0)
        json_decref(client_recv(&c));
    client_close(&c);
    if (strcmp(op, "ack") == 0 && before[ticket].state == HOLDS)
        before[ticket].acked = true;
}

static void restart(void)
{
    place_stop(&p, SIGKILL);
    CHECK_TEXT(place_start(&p), "ready");
    for (int i = 0; i < OWNERS; i++)
        disconnect(&owners[i]);
}

static void step(int i)
{
    static const char *const orders[] = {"park", "ack",    "cancel", "hold", "hold",
                                         "hold", "resume", "resume", "prio", "done"};
    struct owner *o = &owners[up_to(OWNERS)];
    char slots[8];
    revive(o);
    drain_answers(o);
    if (i % RESTART_EVERY == RESTART_EVERY - 1) {
        restart();
        return;
    }
    switch (up_to(12)) {
    case 0:
        disconnect(o);
        break;
    case 1:
        kill(o->pid, SIGKILL);
        break;
    case 2:
        tell(&p, json_pack("{s:s,s:i}", "op", "release", "pid", (int)o->pid));
        break;
    case 3:
        set_config(&p, "drain", up_to(3) ? "off" : "on");
        break;
    case 4:
        snprintf(slots, sizeof(slots), "%u", (unsigned)up_to(5));
        set_config(&p, "slots", slots);
        break;
    case 5:
    case 6:
    case 7:
        order(orders[up_to(sizeof(orders) / sizeof(orders[0]))], n_ids > 1 ? 1 + up_to(n_ids - 1) : 1);
        break;
    default:
        ask(o);
    }
}

/* Every ticket that was seen stands in the history, once; so does one that came and went between two looks.
 */
static void check_history(void)
{
    static unsigned times[IDS];
    struct client c;
    json_int_t next = 0;
    client_open(&c, &p);
    do {
        json_t *m = json_pack("{s:s}", "op", "history");
        json_object_set_new(m, "before", next ? json_integer(next) : json_null());
        json_t *r = client_ask(&c, m), *row;
        size_t i;
        json_array_foreach(at(r, "rows"), i, row) times[number_at(row, "ticket")]++;
        next = json_integer_value(at(r, "next"));
        json_decref(r);
    } while (next > 0);
    for (uint64_t id = 1; id < n_ids; id++)
        CHECK(times[id] == 1 || (times[id] == 0 && before[id].state == NEVER));
    client_close(&c);
}

static void o13_tickets_go_along_the_arrows_alone(void)
{
    const char *other = getenv("TG_TEST_SEED");
    if (other)
        seed = strtoull(other, NULL, 10);
    place_make(&p);
    place_ready(&p, 2);
    for (int i = 0; i < STEPS; i++) {
        step(i);
        look(i);
    }
    set_config(&p, "drain", "off");
    for (int i = 0; i < OWNERS; i++) {
        disconnect(&owners[i]);
        if (owners[i].pid > 0)
            kill(owners[i].pid, SIGKILL);
    }
    EVENTUALLY(holders_of(&p) == 0 && waiters_of(&p) == 0);
    look(STEPS);
    CHECK(n_ids > 50);
    check_history();
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(o13_tickets_go_along_the_arrows_alone);
    return 0;
}
