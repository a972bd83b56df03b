/* SPDX-License-Identifier: Apache-2.0
 * The kernel that finds work by an index: it leaves what the scanning one leaves (E1 to E6), a look costs the
 * same in every ring (E11), fences that wait are woken, and no schedule of few lanes loses or doubles an
 * item; with one of the steps that keep a bit from being lost taken out, some schedule does. */
#include <errno.h>
#include <stdlib.h>

#include "ir_test.h"

static uint64_t memory[1 << 18];
static struct tg_ir ir;
static struct queue q;
static uint32_t *words;
static struct tg_ir_index index_of_q;

/* The index of q's ring, of what it holds. */
static void index_init(void)
{
    size_t count = tg_ir_index_words(q.slots);
    CHECK(count > 0);
    free(words);
    words = malloc(count * sizeof(*words));
    CHECK(words);
    index_of_q = (struct tg_ir_index){.words = words, .ring = q.ring, .slots = q.slots};
    CHECK_EQ(tg_ir_index_build(&index_of_q), 0);
}

static struct tg_ir_node kernel_of(uint32_t rounds, uint32_t flags, const char *without)
{
    struct tg_ir_error error;
    struct tg_ir_kernel k = {.slots = q.slots, .rounds = rounds, .flags = flags};
    tg_ir_init(&ir, memory, sizeof(memory));
    struct tg_ir_node kernel = tg_ir_kernel(&ir, &k);
    if (without)
        kernel = tg_ir_without(&ir, kernel, without);
    int r = tg_ir_validate(&ir, kernel, 0, &error);
    if (r != 0)
        fprintf(stderr, "%s: %s\n", error.path, error.text);
    CHECK_EQ(r, 0);
    if (flags & TG_IR_INDEXED) {
        int at = tg_ir_buffer_find(&ir, TG_IR_INDEX_BUFFER);
        CHECK(at >= TG_IR_FIRST_USER_BUFFER);
        q.memory.words[at] = index_of_q.words;
        q.memory.count[at] = (uint32_t)tg_ir_index_words(q.slots);
    }
    return kernel;
}

/* Until all lanes found nothing; returns the node steps. */
static uint64_t run(uint32_t lanes, uint32_t flags, uint64_t seed)
{
    struct tg_ir_machine *m = machine_of(&ir, kernel_of(0, flags | TG_IR_UNTIL_IDLE, NULL), &q, lanes);
    CHECK_EQ(tg_ir_machine_run(m, seed, 100000000), 0);
    uint64_t steps = tg_ir_machine_steps(m);
    for (uint32_t i = 0; i < lanes; i++) {
        uint32_t value = 1;
        CHECK_EQ(tg_ir_machine_value(m, i, &value), 0);
        CHECK_EQ(value, 0);
    }
    tg_ir_machine_close(m);
    return steps;
}

static uint64_t seed = 5;
static uint32_t below(uint32_t n)
{
    return (uint32_t)(check_random(&seed) >> 33) % n;
}

/* Items whose order makes no difference to what they leave behind. */
static void random_ring(uint32_t slots)
{
    queue_init(&q, slots);
    for (uint32_t i = 0; i < slots; i++) {
        struct tg_slot *s = &q.ring[i];
        *s = (struct tg_slot){.tenant = below(10) ? below(29) : 29 + below(3),
                              .priority = below(10) ? below(5) : 5 + below(2)};
        s->status = below(8) ? TG_SLOT_PUBLISHED : below(8);
        s->opcode = TG_OP_ATOMIC_ADD;
        s->args[0] = below(100);
        s->args[1] = below(6) ? 160 + below(Q_OBSERVABLES) : below(400);
        if (below(6) == 0) {
            s->opcode = TG_OP_BATCH_FENCE;
            s->args[0] = below(i + 2);
            s->args[1] = 0; /* tags differ by order */
        } else if (below(6) == 0) {
            s->opcode = below(3) ? TG_OP_NOP : below(2) ? TG_OP_LOAD_MISS : 8 + below(9);
        }
        if (s->opcode == TG_OP_ATOMIC_ADD && s->args[1] == 160)
            s->args[1]++; /* the fences' word */
    }
    for (uint32_t t = 0; t < 29; t++) {
        q.control[TG_CONTROL_TENANT_QUOTA_BASE + t] = below(5) ? UINT32_MAX : below(2) * 1000;
        q.control[TG_CONTROL_TENANT_MASKS + t] = below(12) ? TG_TENANT_MASK_ALL : 0;
    }
}

static void leaves_what_the_scan_leaves(void)
{
    static struct queue start, scanned;
    uint64_t done = 0, faults = 0, waits = 0;
    for (uint32_t n = 0; n < 300; n++) {
        random_ring(1 + below(n % 2 ? 64 : 12));
        start = q;
        run(1, 0, n);
        scanned = q;
        q = start;
        index_init();
        run(1 + n % 3, TG_IR_INDEXED, n);
        CHECK(memcmp(q.ring, scanned.ring, sizeof(q.ring)) == 0);
        for (uint32_t i = 0; i < Q_CONTROL; i++) {
            /* What order decides. */
            if (i == TG_CONTROL_LEVELS || i == TG_CONTROL_FAULT_SLOT || i == TG_CONTROL_FAULT_REASON ||
                i == TG_CONTROL_PRIORITY_STARVATION_COUNTER)
                continue;
            /* Looks at a fence that waits are claims too, and an index makes fewer. */
            bool claims = i >= TG_CONTROL_TENANT_FAIRNESS_BASE && i < TG_CONTROL_METRICS_BASE;
            claims |= i >= TG_CONTROL_TENANT_QUOTA_BASE && i < TG_CONTROL_TENANT_FAIRNESS_BASE;
            claims |= i >= TG_CONTROL_PRIORITY_FAIRNESS_BASE && i < TG_CONTROL_PRIORITY_FAIRNESS_BASE + 5;
            if (!claims && q.control[i] != scanned.control[i])
                fprintf(stderr, "ring %u: control word %u: %u, scanned %u\n", n, i, q.control[i],
                        scanned.control[i]);
            CHECK(claims || q.control[i] == scanned.control[i]);
        }
        done += q.control[TG_CONTROL_DONE_COUNT];
        faults += q.control[TG_CONTROL_FAULT_COUNT];
        for (uint32_t i = 0; i < q.slots; i++)
            waits += q.ring[i].status == TG_SLOT_YIELD || q.ring[i].status == TG_SLOT_PUBLISHED;
    }
    fprintf(stderr, "  %llu done, %llu faults, %llu left waiting\n", (unsigned long long)done,
            (unsigned long long)faults, (unsigned long long)waits);
    CHECK(done > 1000 && faults > 100 && waits > 100);
}

/* Steps for one item in an otherwise empty ring. */
static uint64_t steps_of_one(uint32_t slots, uint32_t flags)
{
    static struct tg_slot *ring;
    struct queue kept;
    queue_init(&q, 1);
    kept = q;
    ring = calloc(slots, sizeof(*ring));
    CHECK(ring);
    q.slots = slots;
    q.memory.words[TG_IR_RING] = &ring[0].status;
    q.memory.count[TG_IR_RING] = slots * TG_SLOT_WORDS;
    ring[slots - 1] =
        (struct tg_slot){.status = TG_SLOT_PUBLISHED, .opcode = TG_OP_NOP, .tenant = 28, .priority = 4};
    size_t count = tg_ir_index_words(slots);
    index_of_q = (struct tg_ir_index){calloc(count, sizeof(uint32_t)), ring, slots};
    CHECK(index_of_q.words);
    CHECK_EQ(tg_ir_index_publish(&index_of_q, slots - 1), 0);
    uint64_t steps = run(1, flags, 1);
    CHECK_EQ(ring[slots - 1].status, TG_SLOT_DONE);
    free(ring);
    free(index_of_q.words);
    q = kept;
    return steps;
}

static void e11_flat(void)
{
    uint64_t small = steps_of_one(16, TG_IR_INDEXED),
             large = steps_of_one(TG_MAX_ENCODED_RING_SLOTS, TG_IR_INDEXED);
    uint64_t scan = steps_of_one(16384, 0);
    fprintf(stderr, "  16 slots: %llu steps, 1048576: %llu; the scan of 16384: %llu\n",
            (unsigned long long)small, (unsigned long long)large, (unsigned long long)scan);
    CHECK(large < 2 * small);
    CHECK(scan > 50 * large);
}

/* A ring whose items are published again as soon as they are done: every level is overtaken by at most 19
 * claims and one for each other lane (E3), the tenants of a level share it (E4), and each slot has its turn
 * among its own. */
static void e3_e4_under_a_flood(void)
{
    enum { SLOTS = 40, TENANTS = 3, LANES = 2, CLAIMS = 6000 };
    uint32_t last[TG_PRIORITY_LEVELS] = {0}, worst = 0, claims = 0, of_slot[SLOTS] = {0},
             of_tenant[5][TENANTS] = {{0}};
    uint32_t claimed[SLOTS] = {0};
    queue_init(&q, SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++)
        PUBLISH(&q, i, i / 5 % TENANTS, i % 5, TG_OP_NOP, 0);
    index_init();
    struct tg_ir_machine *m = machine_of(&ir, kernel_of(0, TG_IR_INDEXED, NULL), &q, LANES);
    while (claims < CLAIMS) {
        CHECK_EQ(tg_ir_machine_step(m, below(LANES)), 1);
        for (uint32_t i = 0; i < SLOTS; i++) {
            uint32_t level = q.ring[i].priority;
            if (q.ring[i].status == TG_SLOT_CLAIMED && !claimed[i]) {
                claimed[i] = 1;
                claims++;
                of_slot[i]++;
                of_tenant[level][q.ring[i].tenant]++;
                /* Claims of others since this level had one. */
                uint32_t overtaken = claims - last[level] - 1;
                worst = overtaken > worst ? overtaken : worst;
                last[level] = claims;
            } else if (q.ring[i].status == TG_SLOT_DONE) {
                claimed[i] = 0;
                PUBLISH(&q, i, i / 5 % TENANTS, level, TG_OP_NOP, 0);
                CHECK_EQ(tg_ir_index_publish(&index_of_q, i), 0);
            }
        }
    }
    tg_ir_machine_close(m);
    fprintf(stderr, "  overtaken by at most %u\n", worst);
    CHECK(worst <= TG_STARVATION_THRESHOLD + TG_PRIORITY_LEVELS - 2 + LANES);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        for (uint32_t t = 1; t < TENANTS; t++) {
            int apart = (int)of_tenant[l][t] - (int)of_tenant[l][0];
            CHECK(apart <= 2 * 64 && apart >= -2 * 64);
        }
    for (uint32_t i = 0; i < SLOTS; i++)
        for (uint32_t k = i + 15; k < SLOTS; k += 15) /* slots of one level and tenant */
            CHECK(of_slot[i] <= 2 * of_slot[k] + 8 && of_slot[k] <= 2 * of_slot[i] + 8);
}

/* ---- Every schedule ---- */

static struct tg_ir_explored found;

/* Lane 0 runs the host's text when there is one. */
static int explore(struct tg_ir_node root, uint32_t lanes, const char *host_text, int (*at_end)(void *))
{
    struct tg_ir_machine *m = NULL;
    struct tg_ir_node host;
    struct tg_ir_explore_options o = {.at_end = at_end, .max_states = 1000000};
    struct tg_ir_machine_options mo = {.lanes = lanes, .memory = &q.memory};
    if (host_text) {
        CHECK_EQ(tg_ir_parse(&ir, host_text, strlen(host_text), &host, NULL), 0);
        root = tg_ir_if(&ir, tg_ir_eq(&ir, tg_ir_place(&ir, TG_IR_LANE), tg_ir_u32(&ir, 0)), host, root);
    }
    CHECK_EQ(tg_ir_validate(&ir, root, 0, NULL), 0);
    CHECK_EQ(tg_ir_machine_open(&ir, root, &mo, &m), 0);
    int r = tg_ir_explore(m, &o, &found);
    fprintf(stderr, "  %d: %llu states, %llu ends, %u restarts, %s %s\n", r, (unsigned long long)found.states,
            (unsigned long long)found.ends, found.restarts, found.complete ? "complete" : "cut",
            r ? found.schedule : "");
    tg_ir_machine_close(m);
    return r;
}

/* What the host does when it has published a slot of level 1, tenant 0 (queue 29) whose tree has words leaf
 * .. root. */
#define MARK(slot_bit, leaf, above)                                                                          \
    " (atomic_or _ worker_index " leaf " " slot_bit " acq_rel)" above                                        \
    " (atomic_or _ worker_index 1 1 acq_rel)"
#define STOP " (atomic_store control 0 1 release)"
#define ADD_AT(word, observable)                                                                             \
    " (store ring (add 1 " word ") 2) (store ring (add 3 " word ") 1) (store ring (add 4 " word ") 1)"       \
    " (store ring (add 5 " word ") " observable ") (atomic_store ring " word " 1 release)"

static int two_once(void *context)
{
    (void)context;
    return observable(&q, 0) == 1 && observable(&q, 1) == 1 && q.control[TG_CONTROL_DONE_COUNT] == 2 ? 0 : -1;
}

static void items(uint32_t slots, uint32_t count)
{
    queue_init(&q, slots);
    for (uint32_t i = 0; i < count; i++)
        PUBLISH(&q, i, 0, 1, TG_OP_ATOMIC_ADD, 1, 160 + i);
    index_init();
}

/* Two lanes, and a third that is the host: it publishes one more item while the first is taken, at a place of
 * the same leaf, or of another one of the same tree. */
static void e1_nothing_is_lost(void)
{
    static const char same_leaf[] = "(block host" ADD_AT("16", "161") MARK("2", "45", "") STOP ")";
    static const char other_leaf[] = "(block host" ADD_AT("528", "161")
        MARK("2", "104", " (atomic_or _ worker_index 105 2 acq_rel)") STOP ")";
    const uint32_t flags = TG_IR_INDEXED;
    items(2, 2);
    CHECK_EQ(explore(kernel_of(12, flags | TG_IR_UNTIL_IDLE, NULL), 2, NULL, two_once), 0);
    CHECK(found.complete);
    items(2, 1);
    CHECK_EQ(explore(kernel_of(12, flags, NULL), 2, same_leaf, two_once), 0);
    CHECK(found.complete);
    items(2, 1);
    CHECK(explore(kernel_of(12, flags, "index.again"), 2, same_leaf, two_once) < 0);
    items(34, 1);
    CHECK_EQ(explore(kernel_of(12, flags, NULL), 2, other_leaf, two_once), 0);
    CHECK(found.complete);
    items(34, 1);
    CHECK(explore(kernel_of(12, flags, "index.again"), 2, other_leaf, two_once) < 0);
}

/* The host takes the item back and publishes another in its place, while a lane may be on its way to it. */
static int second_once(void *context)
{
    (void)context;
    bool taken_back = q.ring[0].args[1] == 161;
    return observable(&q, taken_back) == 1 && observable(&q, !taken_back) == 0 &&
                   q.ring[0].status == TG_SLOT_DONE
               ? 0
               : -2;
}

static void e1_published_anew(void)
{
    static const char anew[] =
        "(block host (atomic_cas was ring 0 1 0 acq_rel) (if (eq was 1) (block _" ADD_AT("0", "161")
            MARK("1", "45", "") "))" STOP ")";
    items(1, 1);
    CHECK_EQ(explore(kernel_of(12, TG_IR_INDEXED, NULL), 2, anew, second_once), 0);
    CHECK(found.complete);
}

/* ---- Fences ---- */

static void item_and_fence(void)
{
    const struct tg_batch_item item = {
        .opcode = TG_OP_ATOMIC_ADD, .args = (uint32_t[]){1, 161}, .arg_count = 2};
    queue_init(&q, 2);
    CHECK_EQ(tg_batch_publish(q.ring, sizeof(struct tg_slot) * 2, 0, 0, &item, 1, 99, &(uint32_t){0}), 0);
    index_init();
}

static int fence_is_done(void *context)
{
    (void)context;
    return q.control[TG_CONTROL_EPOCH] == 1 && q.ring[1].status == TG_SLOT_DONE && observable(&q, 0) == 99 &&
                   observable(&q, 1) == 1
               ? 0
               : -3;
}

static void e5_fences_are_woken(void)
{
    static const char *const needed[] = {"index.ended", "index.after"};
    item_and_fence();
    CHECK_EQ(explore(kernel_of(12, TG_IR_INDEXED | TG_IR_UNTIL_IDLE, NULL), 2, NULL, fence_is_done), 0);
    CHECK(found.complete);
    for (uint32_t i = 0; i < 2; i++) {
        item_and_fence();
        CHECK(explore(kernel_of(12, TG_IR_INDEXED | TG_IR_UNTIL_IDLE, needed[i]), 2, NULL, fence_is_done) <
              0);
    }
}

/* Several fences wait for one item, which the host faults; then for the IO of another. */
static void e5_the_host_ends_items(void)
{
    queue_init(&q, 6);
    PUBLISH(&q, 0, 0, 2, TG_OP_ATOMIC_ADD, 1, 161);
    q.ring[1] = (struct tg_slot){.status = TG_SLOT_PUBLISHED, .opcode = TG_OP_LOAD_MISS, .priority = 2};
    for (uint32_t i = 2; i < 6; i++)
        PUBLISH(&q, i, 0, i - 2, TG_OP_BATCH_FENCE, i, 50 + i);
    q.control[TG_CONTROL_TENANT_MASKS + 1] = 0;
    q.ring[0].tenant = 1; /* switched off: it waits */
    index_init();
    run(2, TG_IR_INDEXED, 3);
    CHECK_EQ(q.control[TG_CONTROL_EPOCH], 0);
    CHECK_EQ(q.ring[1].status, TG_SLOT_WAIT_IO);
    CHECK_EQ(tg_transition_slot_status(q.ring, 6 * TG_SLOT_BYTES, 0, TG_TRANSITION_FAULT, &(uint32_t){0}), 0);
    CHECK_EQ(tg_ir_index_over(&index_of_q, 0), 0);
    run(2, TG_IR_INDEXED, 4);
    CHECK_EQ(q.control[TG_CONTROL_EPOCH], 0);
    q.ring[1].status = TG_SLOT_REQUEUE;
    CHECK_EQ(tg_ir_index_publish(&index_of_q, 1), 0);
    run(2, TG_IR_INDEXED, 5);
    CHECK_EQ(q.control[TG_CONTROL_EPOCH], 4);
    for (uint32_t i = 1; i < 6; i++)
        CHECK_EQ(q.ring[i].status, TG_SLOT_DONE);
    for (size_t i = tg_ir_index_words(6) - 12; i < tg_ir_index_words(6) - 6; i++)
        CHECK_EQ(words[i], 0); /* nobody waits */
}

/* ---- Wrong input ---- */

static void limits(void)
{
    struct tg_ir_error error;
    CHECK_EQ(tg_ir_index_words(0), 0);
    CHECK_EQ(tg_ir_index_words(TG_MAX_ENCODED_RING_SLOTS + 1), 0);
    CHECK(tg_ir_index_words(1) > 0);
    items(4, 1);
    CHECK_EQ(tg_ir_index_publish(&index_of_q, 4), -EINVAL);
    CHECK_EQ(tg_ir_index_over(&index_of_q, UINT32_MAX), -EINVAL);
    CHECK_EQ(tg_ir_index_build(&(struct tg_ir_index){NULL, q.ring, 4}), -EINVAL);
    CHECK_EQ(tg_ir_index_build(&(struct tg_ir_index){words, q.ring, 0}), -EINVAL);
    static const struct tg_ir_kernel bad[] = {{.slots = 0, .flags = TG_IR_INDEXED},
                                              {.slots = 1u << 21, .flags = TG_IR_INDEXED},
                                              {.slots = 8, .stride = 2, .flags = TG_IR_INDEXED}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tg_ir_init(&ir, memory, sizeof(memory));
        CHECK_EQ(tg_ir_validate(&ir, tg_ir_kernel(&ir, &bad[i]), 0, &error), -EINVAL);
    }
    /* An index of garbage: no word outside is touched and every look ends, whatever becomes of the items. */
    for (uint32_t n = 0; n < 50; n++) {
        random_ring(40);
        index_init();
        for (size_t i = 0; i < tg_ir_index_words(40); i++)
            words[i] = below(3) ? below(64) : (uint32_t)check_random(&seed);
        struct tg_ir_machine *m = machine_of(&ir, kernel_of(20, TG_IR_INDEXED, NULL), &q, 2);
        CHECK_EQ(tg_ir_machine_run(m, n, 100000000), 0);
        tg_ir_machine_close(m);
    }
    /* One that is too short: a fault of the lane. */
    items(40, 3);
    struct tg_ir_node kernel = kernel_of(0, TG_IR_INDEXED | TG_IR_UNTIL_IDLE, NULL);
    q.memory.count[tg_ir_buffer_find(&ir, TG_IR_INDEX_BUFFER)] = 3;
    struct tg_ir_machine *m = machine_of(&ir, kernel, &q, 1);
    uint32_t value = 0;
    CHECK_EQ(tg_ir_machine_run(m, 1, 1000000), 0);
    CHECK_EQ(tg_ir_machine_value(m, 0, &value), 0);
    CHECK_EQ(value, TG_IR_FAULT | 2u);
    tg_ir_machine_close(m);
}

int main(void)
{
    RUN(leaves_what_the_scan_leaves);
    RUN(e11_flat);
    RUN(e3_e4_under_a_flood);
    RUN(e1_nothing_is_lost);
    RUN(e1_published_anew);
    RUN(e5_fences_are_woken);
    RUN(e5_the_host_ends_items);
    RUN(limits);
    free(words);
    return 0;
}
