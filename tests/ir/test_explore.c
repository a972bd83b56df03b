/* SPDX-License-Identifier: Apache-2.0
 * Every schedule of 2 lanes over 3 slots of 2 levels: E1, E3, E4, E5 hold in all of them, and each fails in
 * some schedule when the one line of the kernel it hangs on is taken out. Also the search itself: it finds
 * the classic lost update, and misses no outcome of small programs that is known by counting. */
#include <errno.h>

#include "ir_test.h"

static uint64_t memory[1 << 17];
static struct tg_ir ir;
static struct queue q, start;
static struct tg_ir_explored found;

static struct tg_ir_node kernel_without(uint32_t slots, const char *label)
{
    struct tg_ir_kernel k = {.slots = slots, .rounds = 12, .flags = TG_IR_UNTIL_IDLE};
    tg_ir_init(&ir, memory, sizeof(memory));
    struct tg_ir_node kernel = tg_ir_kernel(&ir, &k);
    if (label)
        kernel = tg_ir_without(&ir, kernel, label);
    CHECK(kernel.id != 0);
    return kernel;
}

/* Explores; a check that refused returns its number. */
static int explore(struct tg_ir_node root, uint32_t lanes, int (*at_end)(void *), tg_ir_observer observer,
                   const struct tg_ir_word *watched, uint32_t count)
{
    struct tg_ir_machine *m = NULL;
    struct tg_ir_error error;
    struct tg_ir_explore_options o = {.at_end = at_end, .watched = watched, .watched_count = count};
    struct tg_ir_machine_options mo = {.lanes = lanes, .memory = &q.memory, .observer = observer};
    int valid = tg_ir_validate(&ir, root, 0, &error);
    if (valid != 0)
        fprintf(stderr, "%s: %s\n", error.path, error.text);
    CHECK_EQ(valid, 0);
    CHECK_EQ(tg_ir_machine_open(&ir, root, &mo, &m), 0);
    start = q;
    int r = tg_ir_explore(m, &o, &found);
    fprintf(stderr, "  %d: %llu states, %llu ends, %llu steps, %u restarts %s\n", r,
            (unsigned long long)found.states, (unsigned long long)found.ends, (unsigned long long)found.steps,
            found.restarts, r ? found.schedule : "");
    tg_ir_machine_close(m);
    if (r == 0) {
        CHECK(found.complete);
        CHECK(found.ends > 0);
        CHECK(memcmp(&q, &start, sizeof(q)) == 0);
    }
    return r;
}

/* The rule holds with the whole kernel and fails without the line. */
static void rule(void (*set_up)(void), uint32_t lanes, const char *line, int (*at_end)(void *),
                 tg_ir_observer observer, const struct tg_ir_word *watched, uint32_t count)
{
    set_up();
    CHECK_EQ(explore(kernel_without(q.slots, NULL), lanes, at_end, observer, watched, count), 0);
    set_up();
    int r = explore(kernel_without(q.slots, line), lanes, at_end, observer, watched, count);
    if (r >= 0)
        fprintf(stderr, "nothing depends on %s\n", line);
    CHECK(r < 0);
    CHECK(found.schedule[0] != 0 || found.states <= 1);
}

/* ---- E1: three items at two levels, each run exactly once ---- */

static void three_items(void)
{
    queue_init(&q, 3);
    PUBLISH(&q, 0, 0, 1, TG_OP_ATOMIC_ADD, 1, 160);
    PUBLISH(&q, 1, 1, 3, TG_OP_ATOMIC_ADD, 1, 161);
    PUBLISH(&q, 2, 0, 3, TG_OP_ATOMIC_ADD, 1, 162);
}

static int each_once(void *context)
{
    (void)context;
    for (uint32_t i = 0; i < 3; i++)
        if (observable(&q, i) != 1 || q.ring[i].status != TG_SLOT_DONE)
            return -1;
    return q.control[TG_CONTROL_DONE_COUNT] == 3 && q.control[TG_CONTROL_PRIORITY_FAIRNESS_BASE + 1] == 1 &&
                   q.control[TG_CONTROL_PRIORITY_FAIRNESS_BASE + 3] == 2
               ? 0
               : -2;
}

static int one_once(void *context)
{
    (void)context;
    return observable(&q, 0) == 1 && q.control[TG_CONTROL_DONE_COUNT] == 1 ? 0 : -1;
}

static int two_once(void *context)
{
    (void)context;
    return observable(&q, 0) == 1 && observable(&q, 1) == 1 && q.control[TG_CONTROL_DONE_COUNT] == 2 ? 0 : -1;
}

static void e1_once(void)
{
    rule(three_items, 2, "claim.won", each_once, NULL, NULL, 0);
    rule(three_items, 2, "finish.status", each_once, NULL, NULL, 0);
    rule(three_items, 2, "count.done", each_once, NULL, NULL, 0);
}

/* With a stride, and with a third lane. */
static void e1_strides_and_lanes(void)
{
    struct tg_ir_kernel k = {.slots = 3, .stride = 2, .rounds = 12, .flags = TG_IR_UNTIL_IDLE};
    three_items();
    tg_ir_init(&ir, memory, sizeof(memory));
    CHECK_EQ(explore(tg_ir_kernel(&ir, &k), 2, each_once, NULL, NULL, 0), 0);
    queue_init(&q, 1);
    PUBLISH(&q, 0, 0, 1, TG_OP_ATOMIC_ADD, 1, 160);
    CHECK_EQ(explore(kernel_without(1, NULL), 3, one_once, NULL, NULL, 0), 0);
}

/* The same with a place to switch before every write to ring and control: no final state more, none less. */
static void e1_every_write_is_a_switch(void)
{
    static struct tg_ir_word all[2 * TG_SLOT_WORDS + Q_CONTROL];
    uint32_t count = 0;
    uint64_t ends;
    queue_init(&q, 2);
    PUBLISH(&q, 0, 0, 1, TG_OP_ATOMIC_ADD, 1, 160);
    PUBLISH(&q, 1, 1, 3, TG_OP_ATOMIC_ADD, 1, 160);
    for (uint32_t i = 0; i < 2 * TG_SLOT_WORDS; i++)
        all[count++] = (struct tg_ir_word){TG_IR_RING, i};
    for (uint32_t i = 0; i < Q_CONTROL; i++)
        all[count++] = (struct tg_ir_word){TG_IR_CONTROL, i};
    CHECK_EQ(explore(kernel_without(2, NULL), 2, NULL, NULL, NULL, 0), 0);
    ends = found.ends;
    uint64_t states = found.states;
    CHECK_EQ(explore(kernel_without(2, NULL), 2, NULL, NULL, all, count), 0);
    CHECK_EQ(found.ends, ends);
    CHECK(found.states > states);
}

/* ---- E2: the urgent item waits from the start, so it is claimed first ---- */

static int urgent_first(void *context, const struct tg_ir_step *step)
{
    (void)context;
    bool claim = step->buffer == TG_IR_RING && step->index % TG_SLOT_WORDS == 0 && step->wrote &&
                 step->after == TG_SLOT_CLAIMED;
    return claim && step->index != 0 && q.ring[0].status == TG_SLOT_PUBLISHED ? -13 : 0;
}

static void e2_priority(void)
{
    rule(three_items, 2, "levels.choose", each_once, urgent_first, NULL, 0);
}

/* ---- E3: the less urgent level was overtaken 15 times already ---- */

/* Slots 0 and 1 are urgent, slot 2 is not. One overtaking more makes it overdue: then it is next. */
static void almost_overdue(void)
{
    queue_init(&q, 3);
    for (uint32_t i = 0; i < 3; i++)
        PUBLISH(&q, i, 0, i == 2 ? 4 : 0, TG_OP_ATOMIC_ADD, 1, 160);
    q.control[TG_CONTROL_LEVELS] = (TG_STARVATION_THRESHOLD - 1) << 24;
}

/* Urgent claims before somebody has decided for the other level: the 16th overtaking alone. A decision is the
 * change of LEVELS; the claim follows when that lane goes on, which is the "one for each worker already
 * claiming". */
static int one_overtaking_more(void *context, const struct tg_ir_step *step)
{
    (void)context;
    uint32_t *decided = &q.control[Q_CONTROL - 1]; /* an observable word that remembers */
    if (step->buffer == TG_IR_CONTROL && step->index == TG_CONTROL_LEVELS && step->wrote &&
        step->after >> 24 < step->before >> 24)
        *decided = 1;
    bool claim = step->buffer == TG_IR_RING && step->index % TG_SLOT_WORDS == 0 && step->wrote &&
                 step->after == TG_SLOT_CLAIMED;
    if (!claim || *decided)
        return 0;
    return q.ring[0].status != TG_SLOT_PUBLISHED && q.ring[1].status != TG_SLOT_PUBLISHED ? -3 : 0;
}

static void e3_bounded_overtaking(void)
{
    rule(almost_overdue, 2, "levels.advance", NULL, one_overtaking_more, NULL, 0);
}

/* ---- E4 ---- */

/* A tenant with one claim left and two items. */
static void one_claim_left(void)
{
    queue_init(&q, 3);
    q.control[TG_CONTROL_TENANT_QUOTA_BASE + 1] = 1;
    PUBLISH(&q, 0, 1, 1, TG_OP_ATOMIC_ADD, 1, 160);
    PUBLISH(&q, 1, 1, 3, TG_OP_ATOMIC_ADD, 1, 160);
    PUBLISH(&q, 2, 0, 3, TG_OP_ATOMIC_ADD, 1, 161);
}

static int one_claim_taken(void *context)
{
    (void)context;
    int waits = (q.ring[0].status == TG_SLOT_PUBLISHED) + (q.ring[1].status == TG_SLOT_PUBLISHED);
    return observable(&q, 0) == 1 && observable(&q, 1) == 1 && waits == 1 &&
                   q.control[TG_CONTROL_TENANT_QUOTA_BASE + 1] == 0
               ? 0
               : -4;
}

static void e4_quota_is_counted(void)
{
    rule(one_claim_left, 2, "authority.count", one_claim_taken, NULL, NULL, 0);
}

/* One lane is the host: it takes slot 0 back and publishes it anew for tenant 1, which is switched off. */
static struct tg_ir_node with_host(struct tg_ir_node worker)
{
    static const char text[] = "(block host"
                               " (atomic_cas was ring 0 1 0 acq_rel)"
                               " (if (eq was 1) (block _"
                               "  (store ring 2 1)"
                               "  (atomic_store ring 0 1 release))))";
    struct tg_ir_node host;
    CHECK_EQ(tg_ir_parse(&ir, text, sizeof(text) - 1, &host, NULL), 0);
    return tg_ir_if(&ir, tg_ir_eq(&ir, tg_ir_place(&ir, TG_IR_LANE), tg_ir_u32(&ir, 0)), host, worker);
}

static void one_of_tenant_0(void)
{
    queue_init(&q, 3);
    q.control[TG_CONTROL_TENANT_MASKS + 1] = 0;
    PUBLISH(&q, 0, 0, 1, TG_OP_ATOMIC_ADD, 1, 160);
    PUBLISH(&q, 1, 0, 3, TG_OP_ATOMIC_ADD, 1, 161);
}

/* Whoever is switched off is never run, and its slot stays PUBLISHED. */
static int switched_off_waits(void *context)
{
    (void)context;
    bool changed = q.ring[0].tenant == 1;
    if (changed && (q.ring[0].status != TG_SLOT_PUBLISHED || observable(&q, 0) != 0))
        return -5;
    if (q.control[TG_CONTROL_TENANT_FAIRNESS_BASE + 1] != 0 || observable(&q, 1) != 1)
        return -6;
    return !changed && observable(&q, 0) != 1 ? -7 : 0;
}

static void e4_authority_of_the_claimed_slot(void)
{
    one_of_tenant_0();
    CHECK_EQ(explore(with_host(kernel_without(3, NULL)), 3, switched_off_waits, NULL, NULL, 0), 0);
    one_of_tenant_0();
    CHECK(explore(with_host(kernel_without(3, "claim.settle")), 3, switched_off_waits, NULL, NULL, 0) < 0);
}

/* The host switches tenant 1 off, once. A claim that took its authority before is in time, a later one is
 * not. */
static struct tg_ir_node with_switch(struct tg_ir_node worker)
{
    static const char text[] = "(atomic_store control 4 0 release)";
    struct tg_ir_node host;
    CHECK_EQ(tg_ir_parse(&ir, text, sizeof(text) - 1, &host, NULL), 0);
    return tg_ir_if(&ir, tg_ir_eq(&ir, tg_ir_place(&ir, TG_IR_LANE), tg_ir_u32(&ir, 0)), host, worker);
}

static void two_of_tenant_1(void)
{
    queue_init(&q, 3);
    q.control[TG_CONTROL_TENANT_QUOTA_BASE + 1] = 5;
    PUBLISH(&q, 0, 1, 1, TG_OP_NOP, 0);
    PUBLISH(&q, 1, 1, 3, TG_OP_NOP, 0);
}

/* The last look at the mask is right before the quota is counted down, so a lane that looks after the switch
 * does not count; one that looked before it may, once. */
static int one_claim_a_lane(void *context, const struct tg_ir_step *step)
{
    (void)context;
    const uint32_t mask = TG_CONTROL_TENANT_MASKS + 1, quota = TG_CONTROL_TENANT_QUOTA_BASE + 1;
    uint32_t *lanes = &q.control[Q_CONTROL - 1]; /* an observable word that remembers who counted after it */
    if (step->buffer != TG_IR_CONTROL || q.control[mask] != 0 || step->index != quota || !step->wrote ||
        step->after >= step->before)
        return 0;
    if (*lanes >> step->lane & 1u)
        return -8;
    *lanes |= 1u << step->lane;
    return 0;
}

static void e4_switched_off(void)
{
    two_of_tenant_1();
    CHECK_EQ(explore(with_switch(kernel_without(3, NULL)), 3, NULL, one_claim_a_lane, NULL, 0), 0);
    /* And the check sees a host that only says so: the mask is off, and lanes claim as if it were not. */
    two_of_tenant_1();
    q.control[TG_CONTROL_TENANT_MASKS + 1] = 0;
    static const char text[] = "(loop i 0 2 2 (atomic_add _ control 33 0xffffffff relaxed))";
    struct tg_ir_node n;
    tg_ir_init(&ir, memory, sizeof(memory));
    CHECK_EQ(tg_ir_parse(&ir, text, sizeof(text) - 1, &n, NULL), 0);
    CHECK_EQ(explore(n, 1, NULL, one_claim_a_lane, NULL, 0), -8);
}

/* ---- E5 ---- */

static void fence_over_two(void)
{
    queue_init(&q, 3);
    const struct tg_batch_item items[] = {
        {.opcode = TG_OP_ATOMIC_ADD, .args = (uint32_t[]){1, 161}, .arg_count = 2},
        {.opcode = TG_OP_ATOMIC_ADD, .args = (uint32_t[]){1, 161}, .arg_count = 2}};
    CHECK_EQ(tg_batch_publish(q.ring, sizeof(struct tg_slot) * 3, 0, 0, items, 2, 99, &(uint32_t){0}), 0);
    q.ring[2].priority = 0; /* it is looked at first */
    q.ring[1].priority = 3;
    q.ring[0].priority = 3;
}

static int fence_is_last(void *context, const struct tg_ir_step *step)
{
    (void)context;
    if (step->buffer == TG_IR_CONTROL && step->index == TG_CONTROL_EPOCH && step->wrote)
        return q.ring[0].status == TG_SLOT_DONE && q.ring[1].status == TG_SLOT_DONE &&
                       observable(&q, 1) == 2 && observable(&q, 0) == 99
                   ? 0
                   : -9;
    return 0;
}

static int fence_is_done(void *context)
{
    (void)context;
    return q.control[TG_CONTROL_EPOCH] == 1 && q.ring[2].status == TG_SLOT_DONE ? 0 : -10;
}

static void e5_fence(void)
{
    static const struct tg_ir_word epoch = {TG_IR_CONTROL, TG_CONTROL_EPOCH};
    rule(fence_over_two, 2, "fence.wait", fence_is_done, fence_is_last, &epoch, 1);
}

/* ---- E6, E7, E8 ---- */

static void forbidden_word(void)
{
    queue_init(&q, 3);
    PUBLISH(&q, 0, 0, 1, TG_OP_STORE_U32, 7, 151);
    PUBLISH(&q, 1, 0, 3, TG_OP_ATOMIC_ADD, 7, 0);
    PUBLISH(&q, 2, 0, 3, TG_OP_MEMCPY, 1, 160, 1);
}

static int all_faulted(void *context)
{
    (void)context;
    for (uint32_t i = 0; i < 3; i++)
        if (q.ring[i].status != TG_SLOT_FAULT)
            return -14;
    return q.control[TG_CONTROL_SHUTDOWN] == 0 && q.control[TG_CONTROL_FAULT_COUNT] == 3 &&
                   q.control[TG_CONTROL_FAULT_REASON] == TG_FAULT_CONTROL_DENIED
               ? 0
               : -15;
}

static void e6_isolation(void)
{
    rule(forbidden_word, 2, "reach", all_faulted, NULL, NULL, 0);
}

static void strangers(void)
{
    queue_init(&q, 3);
    PUBLISH(&q, 0, 29, 1, TG_OP_NOP, 0);
    PUBLISH(&q, 1, 0, 3, TG_OP_NOP, 0);
    PUBLISH(&q, 2, 0xFFFFFFFF, 3, TG_OP_NOP, 0);
}

static int strangers_faulted(void *context)
{
    (void)context;
    return q.ring[0].status == TG_SLOT_FAULT && q.ring[1].status == TG_SLOT_DONE &&
                   q.ring[2].status == TG_SLOT_FAULT && q.control[TG_CONTROL_FAULT_COUNT] == 2
               ? 0
               : -16;
}

static void e4_strangers_fault_once(void)
{
    rule(strangers, 2, "refuse", strangers_faulted, NULL, NULL, 0);
}

/* The kernel with this text for that one, at its first place. */
static struct tg_ir_node edited(struct tg_ir_node root, const char *old, const char *new)
{
    static char text[1 << 17], changed[1 << 17];
    struct tg_ir_node n = {0};
    CHECK(tg_ir_print(&ir, root, text, sizeof(text)) < sizeof(text));
    char *at = strstr(text, old);
    CHECK(at);
    *at = 0;
    CHECK((size_t)snprintf(changed, sizeof(changed), "%s%s%s", text, new, at + strlen(old)) <
          sizeof(changed));
    CHECK_EQ(tg_ir_parse(&ir, changed, strlen(changed), &n, NULL), 0);
    return n;
}

/* Lane 0 publishes one item more and then says SHUTDOWN; the worker leaves only when both are done. */
static struct tg_ir_node host_says_shutdown(bool word_before_look)
{
    static const char text[] =
        "(block host (store ring 17 2) (store ring 18 0) (store ring 19 3) (store ring 20 1)"
        " (store ring 21 161) (atomic_store ring 16 1 release)"
        " (atomic_store control 0 1 release))";
    static const char load[] = "(atomic_load stop control 0 acquire)";
    struct tg_ir_kernel k = {.slots = 2, .rounds = 12};
    struct tg_ir_node host;
    queue_init(&q, 2);
    PUBLISH(&q, 0, 0, 1, TG_OP_ATOMIC_ADD, 1, 160);
    tg_ir_init(&ir, memory, sizeof(memory));
    CHECK_EQ(tg_ir_parse(&ir, text, sizeof(text) - 1, &host, NULL), 0);
    struct tg_ir_node worker = tg_ir_kernel(&ir, &k);
    if (!word_before_look)
        worker = edited(edited(worker, load, ""), "(block idle",
                        "(block idle (atomic_load stop control 0 acquire)");
    struct tg_ir_expr is_host = tg_ir_eq(&ir, tg_ir_place(&ir, TG_IR_LANE), tg_ir_u32(&ir, 0));
    return tg_ir_if(&ir, is_host, host, worker);
}

static void e8_nothing_is_abandoned(void)
{
    CHECK_EQ(explore(host_says_shutdown(true), 2, two_once, NULL, NULL, 0), 0);
    CHECK(explore(host_says_shutdown(false), 2, two_once, NULL, NULL, 0) < 0);
}

static int results_before_done(void *context, const struct tg_ir_step *step)
{
    (void)context;
    if (step->buffer == TG_IR_RING && step->wrote && step->after == TG_SLOT_DONE)
        return observable(&q, step->index / TG_SLOT_WORDS) == 1 ? 0 : -11;
    return 0;
}

static void e7_results_before_done(void)
{
    three_items();
    CHECK_EQ(explore(kernel_without(3, NULL), 2, each_once, results_before_done, NULL, 0), 0);
}

/* ---- The search ---- */

static struct tg_ir_node parsed(const char *text)
{
    struct tg_ir_node n = {0};
    struct tg_ir_error error;
    tg_ir_init(&ir, memory, sizeof(memory));
    int r = tg_ir_parse(&ir, text, strlen(text), &n, &error);
    if (r != 0)
        fprintf(stderr, "%u: %s: %s\n", error.line, error.path, error.text);
    CHECK_EQ(r, 0);
    return n;
}

static uint32_t outcomes;
static int note_outcome(void *context)
{
    (void)context;
    outcomes |= 1u << observable(&q, 0);
    return 0;
}

static void lost_update(void)
{
    queue_init(&q, 1);
    outcomes = 0;
    struct tg_ir_node n = parsed("(loop i 0 3 3 (store observable 0 (add (load observable 0) 1)))");
    CHECK_EQ(explore(n, 2, note_outcome, NULL, NULL, 0), 0);
    CHECK_EQ(outcomes, 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6);
    outcomes = 0;
    n = parsed("(loop i 0 3 3 (atomic_add _ observable 0 1 relaxed))");
    CHECK_EQ(explore(n, 3, note_outcome, NULL, NULL, 0), 0);
    CHECK_EQ(outcomes, 1u << 9);
    CHECK_EQ(found.states, 1); /* they commute */
    n = parsed("(loop i 0 3 3 (atomic_add x observable 0 1 relaxed))");
    CHECK_EQ(explore(n, 2, note_outcome, NULL, NULL, 0), 0);
    CHECK(found.states >= 16);
}

/* Store buffering: with sequential consistency not both read 0. */
static void store_buffering(void)
{
    queue_init(&q, 1);
    outcomes = 0;
    struct tg_ir_node n = parsed("(block _ (store observable (add 1 (lane)) 1)"
                                 " (let x (load observable (sub 2 (lane))))"
                                 " (atomic_add _ observable 0 (select x 1 4) relaxed))");
    CHECK_EQ(explore(n, 2, note_outcome, NULL, NULL, 0), 0);
    CHECK_EQ(outcomes, 1u << 2 | 1u << 5);
}

/* A word that looks private to one lane until a rare path is taken: the search starts anew and misses
 * nothing. */
static void rare_sharing(void)
{
    queue_init(&q, 1);
    outcomes = 0;
    struct tg_ir_node n = parsed("(if (eq (lane) 0)"
                                 " (loop i 0 4 4 (store observable 0 (add (load observable 0) 1)))"
                                 " (block _ (let a (load observable 0)) (let b (load observable 0))"
                                 "  (if (and (eq a 2) (eq b 3)) (store observable 0 9))))");
    CHECK_EQ(explore(n, 2, note_outcome, NULL, NULL, 0), 0);
    CHECK_EQ(outcomes, 1u << 4 | 1u << 9 | 1u << 10);
}

static void spin_lock(void)
{
    queue_init(&q, 1);
    outcomes = 0;
    static const char text[] =
        "(block _"
        " (forever (block _ (atomic_cas was observable 1 0 1 acquire) (if (eq was 0) (break)) (pause)))"
        " (store observable 0 (add (load observable 0) 1))"
        " (atomic_store observable 1 0 release))";
    CHECK_EQ(explore(parsed(text), 3, note_outcome, NULL, NULL, 0), 0);
    CHECK_EQ(outcomes, 1u << 3);
}

static int always(void *context)
{
    (void)context;
    return -12;
}

static void limits(void)
{
    queue_init(&q, 1);
    struct tg_ir_node n = parsed("(loop i 0 100 100 (store observable 0 (add (load observable 0) 1)))");
    struct tg_ir_machine *m = machine_of(&ir, n, &q, 2);
    struct tg_ir_explore_options o = {.max_states = 50};
    CHECK_EQ(tg_ir_explore(m, &o, &found), 0);
    CHECK(!found.complete && found.states == 50);
    o = (struct tg_ir_explore_options){.at_end = always};
    CHECK_EQ(tg_ir_explore(m, &o, &found), -12);
    tg_ir_machine_close(m);
    m = machine_of(&ir, n, &q, 31);
    CHECK_EQ(tg_ir_explore(m, NULL, &found), -EINVAL);
    tg_ir_machine_close(m);
}

int main(void)
{
    RUN(lost_update);
    RUN(store_buffering);
    RUN(rare_sharing);
    RUN(spin_lock);
    RUN(limits);
    RUN(e1_once);
    RUN(e1_strides_and_lanes);
    RUN(e1_every_write_is_a_switch);
    RUN(e2_priority);
    RUN(e3_bounded_overtaking);
    RUN(e4_strangers_fault_once);
    RUN(e6_isolation);
    RUN(e8_nothing_is_abandoned);
    RUN(e4_quota_is_counted);
    RUN(e4_authority_of_the_claimed_slot);
    RUN(e4_switched_off);
    RUN(e5_fence);
    RUN(e7_results_before_done);
    return 0;
}
