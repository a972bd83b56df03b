/* SPDX-License-Identifier: Apache-2.0
 *
 * The look for work with an index: level and tenant are decided as in look.c, but what waits where is read
 * from the bits of index.h, and a slot is found by walking down a tree. So a look costs the same in every
 * ring (E11).
 *
 * How a bit goes. Who makes a slot claimable sets its leaf and then every word above ("index.mark"). A lane
 * that wants the slot first takes the leaf's bit away ("index.take"): then the slot is its to see to. It
 * claims it, or sets the bit again, or leaves it when it is not claimable; who makes it claimable afterwards
 * sets the bit anew. When the leaf's word became 0, the bit above it goes too, and then the word is looked at
 * once more ("index.clear"): a mark that came between has either set the bit above after that, or is seen
 * now. A bit above an empty word may be left over; who meets it clears it in the same way.
 *
 * A fence that waits for an item has no bit: it lies in the list of that item ("index.park"), and who ends
 * the item marks the fences of the list ("index.wake"). Both change the head of the list in one step and look
 * at STATUS on the right side of it, so one of them sees the other.
 *
 * Rules kept: E1 (the claim is still one compare-exchange on STATUS; no bit is lost), E2 to E5 as in look.c,
 * E11.
 */
#include "ir/index.h"
#include "ir/look.h"

#define PARK_TRIES 1024u

struct index {
    struct tg_ir *ir;
    struct tg_index_shape shape;
    N mark, wake, take, find, park;
};

static E word_at(struct tg_ir *ir, E at)
{
    return tg_ir_load(ir, TG_IR_INDEX_BUFFER, at);
}

/* ---- The tree of queue, along the way to slot ---- */

/* The word of that height on the way; the root's above all others. */
static E way_word(const struct index *x, uint32_t h)
{
    struct tg_ir *ir = x->ir;
    if (h == x->shape.height)
        return tg_ir_div(ir, var(ir, "queue"), num(ir, TG_CONTROL_TENANT_MASK_SLOTS));
    E tree = tg_ir_mul(ir, var(ir, "queue"), num(ir, x->shape.tree));
    return tg_ir_add(ir, add(ir, tree, TG_INDEX_TREES_AT + x->shape.at[h]),
                     tg_ir_shr(ir, var(ir, "slot"), num(ir, 5 * h + 5)));
}

static E way_bit(const struct index *x, uint32_t h)
{
    struct tg_ir *ir = x->ir;
    if (h == x->shape.height)
        return bit(ir, tg_ir_rem(ir, var(ir, "queue"), num(ir, TG_CONTROL_TENANT_MASK_SLOTS)));
    return bit(ir, tg_ir_bit_and(ir, tg_ir_shr(ir, var(ir, "slot"), num(ir, 5 * h)), num(ir, 31)));
}

/* Sets the bits from that height on. acq_rel: each before the one above (X1 in index_host.c). */
static N raise_from(const struct index *x, uint32_t h)
{
    N n[TG_INDEX_MAX_HEIGHT + 1];
    uint32_t count = 0;
    for (; h <= x->shape.height; h++)
        n[count++] =
            tg_ir_atomic_or(x->ir, NULL, TG_IR_INDEX_BUFFER, way_word(x, h), way_bit(x, h), TG_IR_ACQ_REL);
    return tg_ir_block(x->ir, NULL, n, count);
}

/* The word below height h is 0: takes its bit away there, unless something came meanwhile. */
static N clear_from(const struct index *x, uint32_t h)
{
    static const char *const was_names[] = {"", "was1", "was2", "was3", "was4"};
    static const char *const now_names[] = {"", "now1", "now2", "now3", "now4"};
    struct tg_ir *ir = x->ir;
    E others = tg_ir_unary(ir, TG_IR_BIT_NOT, way_bit(x, h));
    N n[3];
    n[0] = tg_ir_atomic_and(ir, was_names[h], TG_IR_INDEX_BUFFER, way_word(x, h), others, TG_IR_ACQ_REL);
    n[1] = BLOCK(ir, "index.again",
                 tg_ir_atomic_load(ir, now_names[h], TG_IR_INDEX_BUFFER, way_word(x, h - 1), TG_IR_ACQUIRE),
                 when(ir, var(ir, now_names[h]), raise_from(x, h)));
    if (h < x->shape.height)
        n[2] = when(ir, is(ir, tg_ir_bit_and(ir, var(ir, was_names[h]), others), 0), clear_from(x, h + 1));
    return tg_ir_block(ir, "index.clear", n, h < x->shape.height ? 3 : 2);
}

/* A body with parameter slot: it has become claimable. */
static N mark(const struct index *x)
{
    struct tg_ir *ir = x->ir;
    E base = tg_ir_mul(ir, var(ir, "slot"), num(ir, TG_SLOT_WORDS));
    E known = tg_ir_and(ir, tg_ir_lt(ir, var(ir, "tenant"), num(ir, TG_CONTROL_TENANT_MASK_SLOTS)),
                        tg_ir_lt(ir, var(ir, "level"), num(ir, TG_PRIORITY_LEVELS)));
    E own = tg_ir_add(ir, tg_ir_mul(ir, var(ir, "level"), num(ir, TG_CONTROL_TENANT_MASK_SLOTS)),
                      var(ir, "tenant"));
    return BLOCK(
        ir, NULL, tg_ir_let(ir, "tenant", tg_ir_load(ir, "ring", add(ir, base, TG_SLOT_TENANT_WORD))),
        tg_ir_let(ir, "level", tg_ir_load(ir, "ring", add(ir, base, TG_SLOT_PRIORITY_WORD))),
        tg_ir_let(ir, "queue", tg_ir_select(ir, known, own, num(ir, TG_INDEX_STRANGERS))), raise_from(x, 0));
}

/* A body with parameters queue and slot: 1 when the bit was there, and is gone now. */
static N take(const struct index *x)
{
    struct tg_ir *ir = x->ir;
    E others = tg_ir_unary(ir, TG_IR_BIT_NOT, way_bit(x, 0));
    return BLOCK(ir, NULL,
                 /* acq_rel: takes what the mark handed over. */
                 tg_ir_atomic_and(ir, "was", TG_IR_INDEX_BUFFER, way_word(x, 0), others, TG_IR_ACQ_REL),
                 when(ir, tg_ir_not(ir, tg_ir_bit_and(ir, var(ir, "was"), way_bit(x, 0))), give(ir, 0)),
                 when(ir, is(ir, tg_ir_bit_and(ir, var(ir, "was"), others), 0), clear_from(x, 1)),
                 give(ir, 1));
}

/* Goes down from word number at of height h to a slot, and returns it. */
static N descend(const struct index *x, uint32_t h, E at)
{
    static const char *const names[] = {"bits0", "bits1", "bits2", "bits3"};
    struct tg_ir *ir = x->ir;
    E tree = tg_ir_mul(ir, var(ir, "queue"), num(ir, x->shape.tree));
    E first = add(ir, tree, TG_INDEX_TREES_AT + x->shape.at[h]);
    E below = tg_ir_add(ir, tg_ir_mul(ir, at, num(ir, 32)), tg_ir_unary(ir, TG_IR_CTZ, var(ir, names[h])));
    /* Somebody emptied it after he looked above, or left the bit there. */
    N left_over = BLOCK(ir, NULL, tg_ir_let(ir, "slot", tg_ir_shl(ir, at, num(ir, 5 * h + 5))),
                        clear_from(x, h + 1), give(ir, TG_IR_NOTHING));
    N found = h == 0 ? tg_ir_return(ir, tg_ir_select(ir, tg_ir_lt(ir, below, num(ir, x->shape.slots)), below,
                                                     num(ir, TG_IR_NOTHING)))
                     : BLOCK(ir, NULL,
                             tg_ir_let(ir,
                                       h == 1   ? "at0"
                                       : h == 2 ? "at1"
                                                : "at2",
                                       below),
                             descend(x, h - 1,
                                     var(ir, h == 1   ? "at0"
                                             : h == 2 ? "at1"
                                                      : "at2")));
    return BLOCK(ir, NULL, tg_ir_let(ir, names[h], word_at(ir, tg_ir_add(ir, first, at))),
                 when(ir, is(ir, var(ir, names[h]), 0), left_over), found);
}

/* A body with parameters queue and from: the first slot from there on whose bit is set, then the first of
 * all; TG_IR_NOTHING: it was taken meanwhile. */
static N find(const struct index *x)
{
    struct tg_ir *ir = x->ir;
    N n[TG_INDEX_MAX_HEIGHT + 1];
    uint32_t h = 0;
    for (; h < x->shape.height; h++) {
        /* Bits of this height above the word that was looked at below. */
        E next = h == 0 ? var(ir, "from") : add(ir, tg_ir_shr(ir, var(ir, "from"), num(ir, 5 * h)), 1);
        E at = tg_ir_shr(ir, var(ir, "next"), num(ir, 5));
        E tree = tg_ir_mul(ir, var(ir, "queue"), num(ir, x->shape.tree));
        E word = word_at(ir, tg_ir_add(ir, add(ir, tree, TG_INDEX_TREES_AT + x->shape.at[h]), at));
        E ahead = tg_ir_bit_and(
            ir, word, tg_ir_shl(ir, num(ir, UINT32_MAX), tg_ir_bit_and(ir, var(ir, "next"), num(ir, 31))));
        E first = tg_ir_add(ir, tg_ir_bit_and(ir, var(ir, "next"), num(ir, ~31u)),
                            tg_ir_unary(ir, TG_IR_CTZ, var(ir, "ahead")));
        N down = h == 0 ? when(ir, tg_ir_lt(ir, first, num(ir, x->shape.slots)), tg_ir_return(ir, first))
                        : BLOCK(ir, NULL, tg_ir_let(ir, "first", first), descend(x, h - 1, var(ir, "first")));
        N look = BLOCK(ir, NULL, tg_ir_let(ir, "ahead", ahead), when(ir, var(ir, "ahead"), down));
        /* A branch, so that its variables end with it. */
        n[h] = tg_ir_if(ir, num(ir, 1),
                        BLOCK(ir, NULL, tg_ir_let(ir, "next", next),
                              when(ir, tg_ir_lt(ir, at, num(ir, x->shape.count[h])), look)),
                        (N){0});
    }
    n[h] = descend(x, h - 1, num(ir, 0));
    return tg_ir_block(ir, NULL, n, h + 1);
}

/* ---- Fences ---- */

static N call_slot(struct tg_ir *ir, const char *result, const char *label, E slot, N body)
{
    return tg_ir_call(ir, result, label, &(struct tg_ir_param){"slot", slot}, 1, body);
}

/* A body with parameter slot, which is over: the fences that wait for it are looked at again. */
static N wake(const struct index *x)
{
    struct tg_ir *ir = x->ir;
    E next = word_at(ir, add(ir, var(ir, "this"), x->shape.nexts));
    E end =
        tg_ir_or(ir, is(ir, var(ir, "fence"), 0), tg_ir_gt(ir, var(ir, "fence"), num(ir, x->shape.slots)));
    N turn = BLOCK(ir, NULL, when(ir, end, tg_ir_break(ir)),
                   tg_ir_let(ir, "this", tg_ir_sub(ir, var(ir, "fence"), num(ir, 1))),
                   tg_ir_assign(ir, "fence", next),
                   call_slot(ir, "marked", "index.mark", var(ir, "this"), x->mark));
    return BLOCK(
        ir, NULL,
        /* acq_rel: STATUS before it, the list after it (X2 in index_host.c). */
        tg_ir_atomic_exchange(ir, "fence", TG_IR_INDEX_BUFFER, add(ir, var(ir, "slot"), x->shape.fences),
                              num(ir, 0), TG_IR_ACQ_REL),
        when(ir, var(ir, "fence"),
             tg_ir_loop(ir, "wake_turn", num(ir, 0), num(ir, x->shape.slots), x->shape.slots, turn)));
}

/* A body with parameters slot, a fence whose bit was taken, and item, for which it waits. */
static N park(const struct index *x)
{
    const uint32_t over = 1u << TG_SLOT_EMPTY | 1u << TG_SLOT_DONE | 1u << TG_SLOT_FAULT;
    struct tg_ir *ir = x->ir;
    E head = add(ir, var(ir, "item"), x->shape.fences);
    N ended = BLOCK(ir, "index.ended",
                    tg_ir_atomic_load(ir, "item_status", "ring",
                                      tg_ir_mul(ir, var(ir, "item"), num(ir, TG_SLOT_WORDS)), TG_IR_ACQUIRE),
                    when(ir, in_mask(ir, over, var(ir, "item_status")),
                         call_slot(ir, "woken", "index.wake", var(ir, "item"), x->wake)));
    N try_once = BLOCK(
        ir, NULL, tg_ir_let(ir, "first", word_at(ir, head)),
        tg_ir_store(ir, TG_IR_INDEX_BUFFER, add(ir, var(ir, "slot"), x->shape.nexts), var(ir, "first")),
        /* acq_rel: the list before it, STATUS after it. */
        tg_ir_atomic_cas(ir, "found", TG_IR_INDEX_BUFFER, head, var(ir, "first"), add(ir, var(ir, "slot"), 1),
                         TG_IR_ACQ_REL),
        when(ir, tg_ir_eq(ir, var(ir, "found"), var(ir, "first")), BLOCK(ir, NULL, ended, give(ir, 0))));
    return BLOCK(ir, NULL, tg_ir_loop(ir, "park_try", num(ir, 0), num(ir, PARK_TRIES), PARK_TRIES, try_once),
                 call_slot(ir, "marked", "index.mark", var(ir, "slot"), x->mark));
}

/* ---- The look ---- */

static E cursor(struct tg_ir *ir)
{
    return tg_look_word(ir, TG_IR_NEXT, var(ir, "queue"));
}

static N call_find(const struct index *x, const char *result, E queue, E from)
{
    const struct tg_ir_param p[2] = {{"queue", queue}, {"from", from}};
    return tg_ir_call(x->ir, result, "index.find", p, 2, x->find);
}

static N call_take(const struct index *x, const char *result, E queue, E slot)
{
    const struct tg_ir_param p[2] = {{"queue", queue}, {"slot", slot}};
    return tg_ir_call(x->ir, result, "index.take", p, 2, x->take);
}

/* One slot of no tenant or level, if there is one: hint makes it FAULT. */
static N strangers(const struct index *x, const struct tg_look *s)
{
    struct tg_ir *ir = x->ir;
    E queue = num(ir, TG_INDEX_STRANGERS);
    N look = BLOCK(ir, NULL, tg_look_call_hint(s, "stranger_seen", "stranger"),
                   /* It is none any more. */
                   when(ir, var(ir, "stranger_seen"),
                        call_slot(ir, "stranger_marked", "index.mark", var(ir, "stranger"), x->mark)));
    N found = BLOCK(ir, NULL, call_take(x, "stranger_taken", queue, var(ir, "stranger")),
                    when(ir, var(ir, "stranger_taken"), look));
    return BLOCK(ir, "index.strangers", tg_ir_let(ir, "strangers", word_at(ir, num(ir, TG_PRIORITY_LEVELS))),
                 when(ir, var(ir, "strangers"),
                      BLOCK(ir, NULL, call_find(x, "stranger", queue, num(ir, 0)),
                            when(ir, tg_ir_ne(ir, var(ir, "stranger"), num(ir, TG_IR_NOTHING)), found))));
}

/* What waits where: as in look.c, from the roots. */
static N survey(const struct index *x)
{
    struct tg_ir *ir = x->ir;
    N n[TG_PRIORITY_LEVELS + 5];
    uint32_t count = 0;
    E any = word_at(ir, num(ir, 0));
    for (uint32_t l = 1; l < TG_PRIORITY_LEVELS; l++)
        any = tg_ir_bit_or(ir, any, word_at(ir, num(ir, l)));
    E low = tg_ir_sub(ir, var(ir, "unsure"), num(ir, 1));
    N may = tg_ir_assign(ir, "allowed", tg_ir_bit_or(ir, var(ir, "allowed"), bit(ir, var(ir, "asked"))));
    N turn = BLOCK(ir, NULL, when(ir, is(ir, var(ir, "unsure"), 0), tg_ir_break(ir)),
                   tg_ir_let(ir, "asked", tg_ir_unary(ir, TG_IR_CTZ, var(ir, "unsure"))),
                   tg_ir_assign(ir, "unsure", tg_ir_bit_and(ir, var(ir, "unsure"), low)),
                   when(ir, tg_check_tenant_fairness(ir, var(ir, "asked")), may));
    n[count++] = tg_ir_let(ir, "unsure", any);
    n[count++] = tg_ir_let(ir, "allowed", num(ir, 0));
    n[count++] = tg_ir_loop(ir, "survey_tenant", num(ir, 0), num(ir, 32), 32, turn);
    n[count++] = tg_ir_let(ir, "work", num(ir, 0));
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        E waiting = tg_ir_bit_and(ir, word_at(ir, num(ir, l)), var(ir, "allowed"));
        N note = tg_ir_assign(ir, "work", tg_ir_bit_or(ir, var(ir, "work"), num(ir, 1u << l)));
        n[count++] = BLOCK(ir, NULL, tg_look_set_word(ir, TG_IR_WAITING, num(ir, l), waiting),
                           when(ir, tg_look_word(ir, TG_IR_WAITING, num(ir, l)), note));
    }
    return tg_ir_block(ir, "survey", n, count);
}

/* A slot of the queue whose bit is taken: claimed, parked, marked anew, or nothing to do any more. */
static N see_to(const struct index *x, const struct tg_look *s)
{
    struct tg_ir *ir = x->ir;
    N claim = BLOCK(ir, "claim", tg_look_call_take(s, "took", var(ir, "tenant")),
                    tg_ir_if(ir, var(ir, "took"), tg_look_swap(s),
                             call_slot(ir, "put_back", "index.mark", var(ir, "slot"), x->mark)));
    const struct tg_ir_param p[2] = {{"slot", var(ir, "slot")},
                                     {"item", tg_ir_shr(ir, var(ir, "seen"), num(ir, 8))}};
    N waits = tg_ir_call(ir, "parked", "index.park", p, 2, x->park);
    N other = when(ir, var(ir, "seen"),
                   tg_ir_if(ir, tg_ir_bit_and(ir, var(ir, "seen"), num(ir, 1)),
                            call_slot(ir, "moved", "index.mark", var(ir, "slot"), x->mark), waits));
    return BLOCK(ir, NULL, tg_look_call_hint(s, "seen", "slot"),
                 tg_ir_if(ir, tg_ir_eq(ir, var(ir, "seen"), tg_look_wanted(ir)), claim, other));
}

static bool declared(struct tg_ir *ir, const char *name, uint32_t words)
{
    int at = tg_ir_buffer_find(ir, name);
    if (at < 0)
        at = tg_ir_buffer(ir, name, words);
    return at >= 0 && ir->buffer[at].words == words;
}

/* The bodies, each after those it calls. */
static struct index index_of(struct tg_ir *ir, uint32_t slots)
{
    struct index x = {.ir = ir, .shape = tg_index_shape_of(slots)};
    x.mark = mark(&x);
    x.wake = wake(&x);
    return x;
}

N tg_ir_index_after(struct tg_ir *ir, uint32_t slots)
{
    if (slots == 0 || slots > TG_MAX_ENCODED_RING_SLOTS)
        return (N){0}; /* the scan says what is wrong */
    struct index x = index_of(ir, slots);
    const uint32_t over = 1u << TG_SLOT_DONE | 1u << TG_SLOT_FAULT;
    E again = tg_ir_ne(ir, var(ir, "status"), num(ir, TG_SLOT_WAIT_IO));
    return BLOCK(ir, "index.after",
                 tg_ir_if(ir, in_mask(ir, over, var(ir, "status")),
                          call_slot(ir, "woken", "index.wake", var(ir, "slot"), x.wake),
                          when(ir, again, call_slot(ir, "marked", "index.mark", var(ir, "slot"), x.mark))));
}

N tg_priority_scan_body_indexed(struct tg_ir *ir, uint32_t total_slots)
{
    if (total_slots == 0 || total_slots > TG_MAX_ENCODED_RING_SLOTS)
        return tg_ir_refused(ir, "a ring of %u slots: 1 to 1048576", total_slots);
    if (!tg_ir_worker_buffers(ir) || !declared(ir, TG_IR_INDEX_BUFFER, 0))
        return tg_ir_no_buffers(ir);
    struct index x = index_of(ir, total_slots);
    x.take = take(&x);
    x.find = find(&x);
    x.park = park(&x);
    N waits = tg_ir_return(ir, tg_ir_bit_or(ir, tg_ir_shl(ir, var(ir, "item"), num(ir, 8)), num(ir, 2)));
    struct tg_look s = {
        .ir = ir,
        .slots = total_slots,
        .hint = tg_look_hint(ir, waits, call_slot(ir, "woken", "index.wake", var(ir, "i"), x.wake)),
        .take = tg_look_take(ir),
        .untake = tg_look_untake(ir),
        .back = call_slot(ir, "marked", "index.mark", var(ir, "slot"), x.mark),
        .fault = call_slot(ir, "woken", "index.wake", var(ir, "slot"), x.wake),
        .claimed = tg_look_set_word(ir, TG_IR_NEXT, var(ir, "queue"), add(ir, var(ir, "slot"), 1))};
    N found = BLOCK(ir, NULL, call_take(&x, "taken", var(ir, "queue"), var(ir, "slot")),
                    when(ir, var(ir, "taken"), see_to(&x, &s)));
    N go_on = BLOCK(ir, NULL, tg_look_keep_turn(&s), tg_ir_let(ir, "queue", tg_look_queue(ir)),
                    call_find(&x, "slot", var(ir, "queue"), cursor(ir)),
                    when(ir, tg_ir_ne(ir, var(ir, "slot"), num(ir, TG_IR_NOTHING)), found));
    N choose = BLOCK(ir, NULL, tg_look_choose_level(&s), tg_look_choose_tenant(&s),
                     when(ir, var(ir, "decided"), go_on));
    E left = tg_ir_shl(ir, tg_ir_ne(ir, word_at(ir, num(ir, TG_PRIORITY_LEVELS)), num(ir, 0)),
                       num(ir, TG_PRIORITY_LEVELS));
    N look = BLOCK(ir, NULL, strangers(&x, &s), survey(&x),
                   tg_ir_assign(ir, "claimed_work", tg_ir_bit_or(ir, var(ir, "work"), left)),
                   when(ir, is(ir, var(ir, "claimed_work"), 0), tg_ir_break(ir)),
                   when(ir, var(ir, "work"), choose));
    return BLOCK(ir, "scan", tg_look_results(ir),
                 tg_ir_loop(ir, "look", num(ir, 0), num(ir, TG_LOOKS), TG_LOOKS, look));
}
