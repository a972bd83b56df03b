/* SPDX-License-Identifier: Apache-2.0
 * The memory orders of the kernel, in every schedule: who sees DONE sees the results (E7), who sees the epoch
 * sees those of the whole batch (E5), and a worker sees what was published (E1). Steps of the interpreter are
 * sequentially consistent, so the observer keeps what C11 promises: a step has seen a write when it did it,
 * or acquired a word to which somebody released who had seen it. Each order is weakened in turn, and the line
 * that says DONE moved before the work; then the check must refuse some schedule. */
#include "ir_test.h"

/* Bits of what can be seen: the last write to observable word i, and the last publication of slot i. */
enum { WRITES = 8, LANES = 3, STATE = LANES + Q_SLOTS * TG_SLOT_WORDS + Q_CONTROL };

static uint64_t memory[1 << 17];
static struct tg_ir ir;
static struct queue q;
static struct tg_ir_explored found;

/* Words that no node names, so the search keeps them with a state: what each lane has seen, and what whoever
 * acquires a word of ring or control sees with it. */
static uint32_t state[STATE];
static uint32_t *const lane_seen = state, *const word_seen = state + LANES;

/* The last write of that kind is a new one: only the lane that did it has seen it. */
static void wrote(uint32_t bit, uint32_t lane)
{
    for (uint32_t i = 0; i < STATE; i++)
        state[i] &= ~(1u << bit);
    lane_seen[lane] |= 1u << bit;
}

static int look(const struct tg_ir_step *s)
{
    const uint32_t seen = lane_seen[s->lane], i = s->index;
    if (s->buffer == TG_IR_CONTROL && i >= TG_CONTROL_OBSERVABLE_BASE &&
        i < TG_CONTROL_OBSERVABLE_BASE + WRITES) {
        uint32_t bit = i - TG_CONTROL_OBSERVABLE_BASE;
        if (s->read && !s->wrote && !(seen >> bit & 1u))
            return -1;
        if (s->wrote)
            wrote(bit, s->lane);
    }
    /* Arguments; the words before them may be looked at before the claim, which then looks again. */
    if (s->buffer == TG_IR_RING && i % TG_SLOT_WORDS > TG_SLOT_ARG0_WORD) {
        uint32_t bit = WRITES + i / TG_SLOT_WORDS;
        if (s->read && !(seen >> bit & 1u))
            return -2;
        if (s->wrote)
            wrote(bit, s->lane);
    }
    return 0;
}

static int orders(void *context, const struct tg_ir_step *s)
{
    (void)context;
    if (s->buffer != TG_IR_RING && s->buffer != TG_IR_CONTROL)
        return 0;
    int r = look(s);
    uint32_t *with = &word_seen[(s->buffer == TG_IR_CONTROL ? Q_SLOTS * TG_SLOT_WORDS : 0) + s->index];
    if (s->read && (s->order == TG_IR_ACQUIRE || s->order == TG_IR_ACQ_REL))
        lane_seen[s->lane] |= *with;
    if (s->wrote) {
        if (!s->read) /* a plain store ends the release sequence, a step that reads and writes carries it on
                       */
            *with = 0;
        if (s->order == TG_IR_RELEASE || s->order == TG_IR_ACQ_REL)
            *with |= lane_seen[s->lane];
    }
    return r;
}

static void start(uint32_t slots)
{
    queue_init(&q, slots);
    memset(state, 0, sizeof(state));
    /* What is there at the start everybody has seen. */
    for (uint32_t i = 0; i < LANES; i++)
        lane_seen[i] = UINT32_MAX;
    q.memory.words[TG_IR_FIRST_USER_BUFFER] = state;
    q.memory.count[TG_IR_FIRST_USER_BUFFER] = STATE;
}

/* The program with this text for that one, wherever it is behind the label: a body that is shared is printed
 * at each place. */
static struct tg_ir_node edited(struct tg_ir_node root, const char *label, const char *old, const char *new)
{
    static char text[1 << 17], changed[1 << 18];
    char block[64];
    struct tg_ir_node n = {0};
    struct tg_ir_error error = {0};
    CHECK(tg_ir_print(&ir, root, text, sizeof(text)) < sizeof(text));
    snprintf(block, sizeof(block), "(block %s", label);
    char *from = text, *at = strstr(text, block);
    size_t size = 0;
    CHECK(at && strstr(at, old));
    while ((at = strstr(at, old))) {
        size +=
            (size_t)snprintf(changed + size, sizeof(changed) - size, "%.*s%s", (int)(at - from), from, new);
        CHECK(size < sizeof(changed));
        from = at += strlen(old);
    }
    CHECK(size + strlen(from) < sizeof(changed));
    memcpy(changed + size, from, strlen(from) + 1);
    /* The buffers are declared already. */
    char *program = strstr(changed, "(block kernel");
    CHECK(program);
    int r = tg_ir_parse(&ir, program, strlen(program), &n, &error);
    if (r != 0)
        fprintf(stderr, "%s: %s\n", error.path, error.text);
    CHECK_EQ(r, 0);
    return n;
}

struct change {
    const char *label, *old, *new;
};

/* Lane 0 runs the host's text, the others the kernel with those changes. */
static int explore(uint32_t slots, uint32_t lanes, const char *host_text, const struct change *changes,
                   uint32_t count, int (*at_end)(void *))
{
    static const struct tg_ir_word watched[] = {{TG_IR_CONTROL, TG_CONTROL_EPOCH}};
    struct tg_ir_kernel k = {.slots = slots, .rounds = 6, .flags = TG_IR_UNTIL_IDLE};
    struct tg_ir_machine *m = NULL;
    struct tg_ir_node host;
    struct tg_ir_error error;
    struct tg_ir_machine_options mo = {.lanes = lanes, .memory = &q.memory, .observer = orders};
    struct tg_ir_explore_options o = {.at_end = at_end, .watched = watched, .watched_count = 1};
    tg_ir_init(&ir, memory, sizeof(memory));
    CHECK_EQ(tg_ir_buffer(&ir, "seen", 0), TG_IR_FIRST_USER_BUFFER);
    struct tg_ir_node worker = tg_ir_kernel(&ir, &k);
    for (uint32_t i = 0; i < count; i++)
        worker = edited(worker, changes[i].label, changes[i].old, changes[i].new);
    CHECK_EQ(tg_ir_parse(&ir, host_text, strlen(host_text), &host, NULL), 0);
    struct tg_ir_node root =
        tg_ir_if(&ir, tg_ir_eq(&ir, tg_ir_place(&ir, TG_IR_LANE), tg_ir_u32(&ir, 0)), host, worker);
    int valid = tg_ir_validate(&ir, root, 0, &error);
    if (valid != 0)
        fprintf(stderr, "%s: %s\n", error.path, error.text);
    CHECK_EQ(valid, 0);
    CHECK_EQ(tg_ir_machine_open(&ir, root, &mo, &m), 0);
    int r = tg_ir_explore(m, &o, &found);
    fprintf(stderr, "  %d: %llu states, %llu ends, %u restarts %s\n", r, (unsigned long long)found.states,
            (unsigned long long)found.ends, found.restarts, r ? found.schedule : "");
    tg_ir_machine_close(m);
    CHECK(r < 0 || (found.complete && found.ends > 0));
    return r;
}

/* ---- E7: a host that finds DONE looks at the result ---- */

static const char waits[] =
    "(block host"
    " (atomic_load first ring 0 acquire) (if (eq first 3) (let x (load observable 0)))"
    " (atomic_load second ring 16 acquire) (if (eq second 3) (let y (load observable 1))))";

static void two_items(void)
{
    start(2);
    PUBLISH(&q, 0, 0, 1, TG_OP_ATOMIC_ADD, 1, 160);
    PUBLISH(&q, 1, 1, 3, TG_OP_STORE_U32, 1, 161);
}

static int both_ran(void *context)
{
    (void)context;
    return observable(&q, 0) == 1 && observable(&q, 1) == 1 ? 0 : -3;
}

static void e7_done_after_results(void)
{
    static const char cas[] = "(atomic_cas _ ring claimed_slot_base 2 status acq_rel)";
    static const struct change weaker[] = {
        {"finish.status", cas, "(atomic_cas _ ring claimed_slot_base 2 status relaxed)"},
        {"finish.status", cas, "(atomic_cas _ ring claimed_slot_base 2 status acquire)"},
        /* DONE first, then the work. */
        {"round", "(block run", "(atomic_cas _ ring claimed_slot_base 2 3 acq_rel) (block run"},
    };
    static const struct change enough = {"finish.status", cas,
                                         "(atomic_cas _ ring claimed_slot_base 2 status release)"};
    two_items();
    CHECK_EQ(explore(2, 3, waits, NULL, 0, both_ran), 0);
    two_items();
    CHECK_EQ(explore(2, 3, waits, &enough, 1, both_ran), 0);
    for (size_t i = 0; i < sizeof(weaker) / sizeof(weaker[0]); i++) {
        two_items();
        CHECK_EQ(explore(2, 3, waits, &weaker[i], 1, both_ran), -1);
    }
}

/* ---- E5, E7: a host that finds the epoch of a batch looks at all its results ---- */

static const char waits_for_epoch[] = "(block host (atomic_load epoch control 128 acquire)"
                                      " (if (eq epoch 1) (block _ (let tag (load observable 0))"
                                      "  (let x (load observable 1)) (let y (load observable 2)))))";

static void fence_over_two(void)
{
    const struct tg_batch_item items[] = {
        {.opcode = TG_OP_ATOMIC_ADD, .args = (uint32_t[]){1, 161}, .arg_count = 2},
        {.opcode = TG_OP_ATOMIC_ADD, .args = (uint32_t[]){1, 162}, .arg_count = 2}};
    start(3);
    CHECK_EQ(tg_batch_publish(q.ring, sizeof(struct tg_slot) * 3, 0, 0, items, 2, 99, &(uint32_t){0}), 0);
}

static int fence_over(void *context)
{
    (void)context;
    return q.control[TG_CONTROL_EPOCH] == 1 && observable(&q, 0) == 99 ? 0 : -3;
}

static void e5_epoch_after_results(void)
{
    static const char acquired[] = "(atomic_load item_status ring (mul item 16) acquire)";
    static const char looked[] = "(atomic_load item_status ring (mul item 16) relaxed)";
    static const struct change weaker[][2] = {
        {{"fence.wait", acquired, looked}, {"fence.skip", acquired, looked}},
        {{"BATCH_FENCE", "(atomic_add _ control 128 1 acq_rel)", "(atomic_add _ control 128 1 relaxed)"}},
    };
    fence_over_two();
    CHECK_EQ(explore(3, 3, waits_for_epoch, NULL, 0, fence_over), 0);
    fence_over_two();
    CHECK_EQ(explore(3, 3, waits_for_epoch, weaker[0], 2, fence_over), -1);
    fence_over_two();
    CHECK_EQ(explore(3, 3, waits_for_epoch, weaker[1], 1, fence_over), -1);
}

/* ---- E1: what runs is what was published ---- */

/* The host publishes slot 0; or takes it back first, when a worker may have looked at it already. */
static const char publishes[] = "(block host (store ring 5 161) (store ring 4 1) (store ring 1 2)"
                                " (atomic_store ring 0 1 release))";
static const char publishes_anew[] = "(block host (atomic_cas was ring 0 1 0 acq_rel)"
                                     " (if (eq was 1) (block _ (store ring 5 161) (store ring 4 1)"
                                     "  (atomic_store ring 0 1 release))))";

static void nothing_yet(void)
{
    start(1);
    q.ring[0].priority = 1;
}

static void one_item(void)
{
    start(1);
    PUBLISH(&q, 0, 0, 1, TG_OP_ATOMIC_ADD, 1, 160);
}

static void e1_payload_before_claim(void)
{
    static const char claim[] = "(atomic_cas found ring base status 2 acquire)";
    static const char weak_claim[] = "(atomic_cas found ring base status 2 relaxed)";
    static const struct change both[] = {
        {"claim", claim, weak_claim},
        {"scan", "(atomic_load status ring base acquire)", "(atomic_load status ring base relaxed)"},
    };
    nothing_yet();
    CHECK_EQ(explore(1, 2, publishes, NULL, 0, NULL), 0);
    one_item();
    CHECK_EQ(explore(1, 2, publishes_anew, NULL, 0, NULL), 0);
    nothing_yet();
    CHECK_EQ(explore(1, 2, publishes, both, 2, NULL), -2);
    /* The look alone is not enough: what it saw may have been taken back since. */
    one_item();
    CHECK_EQ(explore(1, 2, publishes_anew, both, 1, NULL), -2);
}

int main(void)
{
    RUN(e7_done_after_results);
    RUN(e5_epoch_after_results);
    RUN(e1_payload_before_claim);
    return 0;
}
