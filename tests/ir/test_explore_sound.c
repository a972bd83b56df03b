/* SPDX-License-Identifier: Apache-2.0
 * The search leaves out switches that make no difference, and no others: for random small programs it finds
 * exactly the final states that trying every schedule one by one finds. */
#include "ir_test.h"

enum { WORDS = 3, PROGRAMS = 150, MAX_OUTCOMES = 4096 };

static uint64_t memory[1 << 14];
static struct tg_ir ir;
static struct queue q;
static uint64_t seed;
static char text[4096];

struct outcomes {
    uint32_t value[MAX_OUTCOMES];
    uint32_t count;
};
static struct outcomes searched, tried;

static uint32_t outcome(void)
{
    return observable(&q, 0) | observable(&q, 1) << 8 | observable(&q, 2) << 16;
}

static void add_outcome(struct outcomes *o)
{
    uint32_t value = outcome();
    for (uint32_t i = 0; i < o->count; i++)
        if (o->value[i] == value)
            return;
    CHECK(o->count < MAX_OUTCOMES);
    o->value[o->count++] = value;
}

static int at_end(void *context)
{
    (void)context;
    add_outcome(&searched);
    return 0;
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)(check_random(&seed) >> 33) % n;
}

static void random_statement(uint32_t depth)
{
    size_t have = strlen(text);
    char *at = text + have;
    size_t size = sizeof(text) - have;
    uint32_t w = below(WORDS), v = below(3), other = below(WORDS);
    switch (below(depth ? 6 : 5)) {
    case 0:
        snprintf(at, size, "(store observable %u %u)", w, v);
        break;
    case 1:
        snprintf(at, size, "(atomic_add _ observable %u %u relaxed)", w, v + 1);
        break;
    case 2:
        if (below(2))
            snprintf(at, size, "(atomic_cas _ observable %u %u %u acq_rel)", w, v, below(3));
        else
            snprintf(at, size, "(atomic_%s _ observable %u %u acq_rel)", below(2) ? "and" : "or", w, v);
        break;
    case 3:
        snprintf(at, size, "(store observable %u (add (load observable %u) 1))", w, other);
        break;
    case 4:
        snprintf(at, size, "(if (load observable %u) (atomic_exchange _ observable %u %u acq_rel))", w, other,
                 v);
        break;
    default:
        snprintf(at, size, "(if (eq (load observable %u) %u) ", w, v);
        random_statement(depth - 1);
        strncat(text, ")", sizeof(text) - strlen(text) - 1);
        break;
    }
}

static struct tg_ir_node random_program(uint32_t lanes)
{
    struct tg_ir_node n = {0};
    struct tg_ir_error error;
    snprintf(text, sizeof(text), "(block _ ");
    for (uint32_t l = 0; l < lanes; l++) {
        size_t have = strlen(text);
        snprintf(text + have, sizeof(text) - have, "(if (eq (lane) %u) (block _ ", l);
        for (uint32_t i = 0; i < 1 + below(lanes == 2 ? 3 : 2); i++)
            random_statement(2);
        strncat(text, "))", sizeof(text) - strlen(text) - 1);
    }
    strncat(text, ")", sizeof(text) - strlen(text) - 1);
    tg_ir_init(&ir, memory, sizeof(memory));
    int r = tg_ir_parse(&ir, text, strlen(text), &n, &error);
    if (r != 0)
        fprintf(stderr, "%s\n%s: %s\n", text, error.path, error.text);
    CHECK_EQ(r, 0);
    return n;
}

static uint32_t schedule[64];

/* Runs the first depth steps of the schedule, then every way to go on. */
static void every_schedule(struct tg_ir_machine *m, uint32_t lanes, uint32_t depth)
{
    uint32_t value;
    CHECK(depth < 60);
    for (uint32_t next = 0; next < lanes; next++) {
        memset(q.control + TG_CONTROL_OBSERVABLE_BASE, 0, WORDS * 4);
        tg_ir_machine_reset(m);
        for (uint32_t i = 0; i < depth; i++)
            (void)tg_ir_machine_step(m, schedule[i]);
        uint32_t ended = 0;
        for (uint32_t l = 0; l < lanes; l++)
            ended += tg_ir_machine_value(m, l, &value) == 0;
        if (ended == lanes) {
            add_outcome(&tried);
            return;
        }
        if (tg_ir_machine_value(m, next, &value) == 0)
            continue;
        schedule[depth] = next;
        every_schedule(m, lanes, depth + 1);
    }
}

static void same_outcomes(void)
{
    uint64_t states = 0, most = 0;
    seed = 20;
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        uint32_t lanes = 2 + i % 2;
        struct tg_ir_explored found;
        struct tg_ir_explore_options o = {.at_end = at_end};
        queue_init(&q, 1);
        struct tg_ir_machine *m = machine_of(&ir, random_program(lanes), &q, lanes);
        searched.count = tried.count = 0;
        CHECK_EQ(tg_ir_explore(m, &o, &found), 0);
        CHECK(found.complete);
        every_schedule(m, lanes, 0);
        if (searched.count != tried.count)
            fprintf(stderr, "%u and %u outcomes of %s\n", searched.count, tried.count, text);
        CHECK_EQ(searched.count, tried.count);
        for (uint32_t k = 0; k < tried.count; k++) {
            uint32_t at = 0;
            while (at < searched.count && searched.value[at] != tried.value[k])
                at++;
            CHECK(at < searched.count);
        }
        states += found.states;
        most = tried.count > most ? tried.count : most;
        tg_ir_machine_close(m);
    }
    fprintf(stderr, "%llu states, up to %llu outcomes\n", (unsigned long long)states,
            (unsigned long long)most);
    CHECK(most >= 5);
}

int main(void)
{
    RUN(same_outcomes);
    return 0;
}
