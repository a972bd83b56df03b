/* SPDX-License-Identifier: Apache-2.0
 *
 * Every interleaving: a depth-first search over states, each kept as a 128-bit hash.
 *
 * Why it may leave most switches out. Two steps of different lanes conflict when they touch the same word,
 * unless both only look, or both only count up (an add whose result nobody takes). A step that conflicts with
 * nothing that any other lane ever does commutes with all of it, so it makes no difference when it runs: it
 * is run at once. What lanes "ever do" is collected word by word while exploring. Suppose the set were too
 * small at the end: take a shortest run in which a lane touches a word in a way that is not in the set. All
 * steps before are in it, so those that were run at once commute with the rest, and an explored run brings
 * that lane to the same place: it would have been noted. When a note makes a conflict of what was taken for
 * none, the search starts anew with what it knows (at most once for each word and lane). Nobody is left out
 * by running ahead: every state that is kept has all lanes at a step that may conflict, at a pause, or at
 * their end, and each of them is tried. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/machine.h"

#define MAX_LANES 30u
#define OBSERVER (1u << 31)
#define DEFAULT_STATES 10000000u
#define WARM_RUNS 32u
#define WARM_STEPS 20000u
#define WARM_CODES (1u << 22)
#define RESTART 1

struct hash {
    uint64_t a, b; /* not both 0 */
};

/* Which lanes do what to a word. */
struct use {
    uint32_t look, count, write;
};

struct frame {
    uint32_t next;   /* lane to try next */
    uint32_t chosen; /* lane that was tried last */
};

struct explorer {
    struct tg_ir_machine *m;
    const struct tg_ir_explore_options *options;
    struct tg_ir_explored *out;
    uint32_t base[TG_IR_MAX_BUFFERS]; /* where a buffer's words begin among all */
    uint32_t words;
    struct use *use;
    uint32_t lane_words; /* of a lane in a snapshot */
    size_t snapshot_words;
    uint32_t *snapshots;
    uint32_t *first; /* memory as it was given */
    struct frame *frames;
    uint32_t depth, room;
    struct hash *seen;
    uint64_t seen_room, seen_count;
    bool conflict; /* a word seemed not to be shared, and is */
};

/* ---- Snapshots ---- */

static void copy_memory(struct explorer *x, uint32_t *saved, bool save)
{
    for (uint32_t i = 0; i < TG_IR_MAX_BUFFERS; i++) {
        uint32_t *words = x->m->memory.words[i];
        size_t size = x->m->memory.count[i] * sizeof(uint32_t);
        if (i == TG_IR_OBSERVABLE || i == TG_IR_DFA || size == 0)
            continue;
        if (save)
            memcpy(saved + x->base[i], words, size);
        else
            memcpy(words, saved + x->base[i], size);
    }
}

static void copy_lanes(struct explorer *x, uint32_t *saved, bool save)
{
    struct tg_ir_machine *m = x->m;
    size_t registers = m->registers * sizeof(uint32_t);
    size_t own = (m->private_words + TG_IR_L_WORDS) * sizeof(uint32_t);
    for (uint32_t i = 0; i < m->lane_count; i++, saved += x->lane_words) {
        uint32_t *row = tg_ir_lane(m, i);
        uint32_t *rest = tg_ir_lane_own(m, row);
        if (save) {
            memcpy(saved, row, registers);
            memcpy(saved + m->registers, rest, own);
        } else {
            memcpy(row, saved, registers);
            memcpy(rest, saved + m->registers, own);
        }
    }
}

static uint32_t *snapshot_at(const struct explorer *x, uint32_t depth)
{
    return x->snapshots + depth * x->snapshot_words;
}

static int push(struct explorer *x)
{
    if (x->depth == x->room) {
        uint32_t room = x->room ? x->room * 2 : 64;
        uint32_t *snapshots = realloc(x->snapshots, room * x->snapshot_words * sizeof(*snapshots));
        if (!snapshots)
            return -ENOMEM;
        x->snapshots = snapshots;
        struct frame *frames = realloc(x->frames, room * sizeof(*frames));
        if (!frames)
            return -ENOMEM;
        x->frames = frames;
        x->room = room;
    }
    uint32_t *saved = snapshot_at(x, x->depth);
    copy_memory(x, saved, true);
    copy_lanes(x, saved + x->words, true);
    x->frames[x->depth++] = (struct frame){0, 0};
    return 0;
}

/* ---- States ---- */

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9FB21C651E98DF25u;
    return h ^ h >> 32;
}

static struct hash hash_of(const uint32_t *words, size_t count)
{
    struct hash h = {0x243F6A8885A308D3u, 0x13198A2E03707344u};
    size_t i = 0;
    for (; i + 2 <= count; i += 2) {
        uint64_t pair = words[i] | (uint64_t)words[i + 1] << 32;
        h.a = mix(h.a, pair);
        h.b = mix(h.b + 0xA4093822299F31D0u, pair << 17 | pair >> 47);
    }
    if (i < count) {
        h.a = mix(h.a, words[i]);
        h.b = mix(h.b, words[i]);
    }
    h.b |= 1;
    return h;
}

/* Puts it into a table that has room; true when it is new. */
static bool insert(struct hash *table, uint64_t room, struct hash h)
{
    for (uint64_t at = h.a & (room - 1);; at = (at + 1) & (room - 1)) {
        if (table[at].a == 0 && table[at].b == 0) {
            table[at] = h;
            return true;
        }
        if (table[at].a == h.a && table[at].b == h.b)
            return false;
    }
}

/* Is the state of the topmost frame new? 1, 0, or -ENOMEM. */
static int is_new(struct explorer *x, struct hash h)
{
    if (x->seen_count * 2 >= x->seen_room) {
        uint64_t room = x->seen_room ? x->seen_room * 2 : 4096;
        struct hash *table = calloc(room, sizeof(*table));
        if (!table)
            return -ENOMEM;
        for (uint64_t i = 0; i < x->seen_room; i++)
            if (x->seen[i].a != 0 || x->seen[i].b != 0)
                (void)insert(table, room, x->seen[i]);
        free(x->seen);
        x->seen = table;
        x->seen_room = room;
    }
    if (!insert(x->seen, x->seen_room, h))
        return 0;
    x->seen_count++;
    return 1;
}

/* ---- Steps ---- */

static bool conflicts(const struct use *u, uint32_t others, const struct tg_ir_code *c)
{
    if (c->op == TG_IR_C_LOAD)
        return ((u->count | u->write) & others) != 0;
    if (c->blind)
        return ((u->look | u->write) & others) != 0;
    return ((u->look | u->count | u->write) & others) != 0;
}

/* Notes what the lane is about to do; true when another lane may be let in before it. */
static bool note(struct explorer *x, uint32_t lane, const struct tg_ir_code *c, struct tg_ir_word at)
{
    if (at.buffer == TG_IR_DFA)
        return false;
    struct use *u = &x->use[x->base[at.buffer] + at.index];
    uint32_t *mine = c->op == TG_IR_C_LOAD ? &u->look : c->blind ? &u->count : &u->write;
    bool shared = conflicts(u, ~(1u << lane), c);
    if (!(*mine >> lane & 1u)) {
        *mine |= 1u << lane;
        x->conflict |= shared;
    }
    return shared;
}

static uint32_t *state_of(const struct explorer *x, uint32_t lane)
{
    return tg_ir_lane_state(x->m, tg_ir_lane(x->m, lane));
}

/* Runs the lane to its next place to switch; one that goes on and on without any stops somewhere. */
static int run_ahead(struct explorer *x, uint32_t lane)
{
    uint32_t *state = state_of(x, lane);
    uint64_t last = x->m->steps + TG_IR_LOCAL_STEPS;
    while (x->m->steps < last) {
        struct tg_ir_word at;
        bool changed;
        const struct tg_ir_code *c = tg_ir_run_local(x->m, lane);
        if (!c)
            return 0;
        if (c->op == TG_IR_C_PAUSE) {
            if (!state[TG_IR_L_DIRTY]) {
                state[TG_IR_L_STATE] = TG_IR_PAUSED;
                return 0;
            }
            state[TG_IR_L_DIRTY] = 0;
            state[TG_IR_L_PC]++;
            continue;
        }
        if (tg_ir_step_place(x->m, tg_ir_lane(x->m, lane), c, &at) && note(x, lane, c, at))
            return 0;
        x->out->steps++;
        int r = tg_ir_run_shared(x->m, lane, &changed);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The step at which the lane stands, and on to the next. */
static int take(struct explorer *x, uint32_t lane)
{
    uint32_t *state = state_of(x, lane);
    const struct tg_ir_code *c = &x->m->code[state[TG_IR_L_PC]];
    if (state[TG_IR_L_STATE] == TG_IR_PAUSED) {
        state[TG_IR_L_STATE] = TG_IR_RUNS;
        state[TG_IR_L_DIRTY] = 0;
        state[TG_IR_L_PC]++;
    } else if (c->op > TG_IR_C_END) { /* else it stopped for its length */
        struct tg_ir_word at;
        bool changed;
        if (tg_ir_step_place(x->m, tg_ir_lane(x->m, lane), c, &at))
            (void)note(x, lane, c, at);
        x->out->steps++;
        int r = tg_ir_run_shared(x->m, lane, &changed);
        if (r < 0)
            return r;
        for (uint32_t i = 0; changed && i < x->m->lane_count; i++)
            if (i != lane)
                state_of(x, i)[TG_IR_L_DIRTY] = 1;
    }
    return run_ahead(x, lane);
}

/* Lanes that can go on, as a mask; those at a pause only when there is news, or nobody else. */
static uint32_t enabled(const struct explorer *x)
{
    uint32_t runs = 0, pauses = 0;
    for (uint32_t i = 0; i < x->m->lane_count; i++) {
        const uint32_t *state = state_of(x, i);
        if (state[TG_IR_L_STATE] == TG_IR_PAUSED && !state[TG_IR_L_DIRTY])
            pauses |= 1u << i;
        else if (state[TG_IR_L_STATE] != TG_IR_ENDED)
            runs |= 1u << i;
    }
    return runs ? runs : pauses;
}

/* ---- The search ---- */

static void write_schedule(struct explorer *x)
{
    size_t have = 0, size = sizeof(x->out->schedule);
    x->out->schedule[0] = 0;
    for (uint32_t i = 0; i < x->depth && have + 24 < size;) {
        uint32_t lane = x->frames[i].chosen, n = 0;
        while (i < x->depth && x->frames[i].chosen == lane) {
            n++;
            i++;
        }
        have += (size_t)snprintf(x->out->schedule + have, size - have, "%s%u*%u", have ? " " : "", lane, n);
    }
}

/* The state that lanes and memory are in: kept when it is new. */
static int arrive(struct explorer *x)
{
    int r = push(x);
    if (r != 0)
        return r;
    r = is_new(x, hash_of(snapshot_at(x, x->depth - 1), x->snapshot_words));
    if (r < 0)
        return r;
    if (r == 0) {
        x->depth--;
        return 0;
    }
    x->out->states++;
    if (enabled(x) != 0)
        return 0;
    x->depth--;
    x->out->ends++;
    return x->options->at_end ? x->options->at_end(x->options->context) : 0;
}

static int start(struct explorer *x)
{
    int r = 0;
    copy_memory(x, x->first, false);
    tg_ir_machine_reset(x->m);
    for (uint32_t i = 0; r == 0 && i < x->m->lane_count; i++)
        r = run_ahead(x, i);
    return r;
}

static int search(struct explorer *x)
{
    uint64_t most = x->options->max_states ? x->options->max_states : DEFAULT_STATES;
    x->depth = 0;
    x->seen_count = 0;
    if (x->seen)
        memset(x->seen, 0, x->seen_room * sizeof(*x->seen));
    x->out->states = x->out->ends = 0;
    x->conflict = false;
    int r = start(x);
    if (r == 0)
        r = arrive(x);
    while (r == 0 && x->depth > 0 && !x->conflict) {
        struct frame *f = &x->frames[x->depth - 1];
        const uint32_t *saved = snapshot_at(x, x->depth - 1);
        if (x->out->states >= most) {
            x->out->complete = false;
            return 0;
        }
        copy_memory(x, (uint32_t *)saved, false);
        copy_lanes(x, (uint32_t *)saved + x->words, false);
        uint32_t left = enabled(x) >> f->next << f->next;
        if (left == 0) {
            x->depth--;
            continue;
        }
        f->chosen = (uint32_t)__builtin_ctz(left);
        f->next = f->chosen + 1;
        r = take(x, f->chosen);
        if (r == 0 && !x->conflict)
            r = arrive(x);
    }
    /* What was seen on the way to a conflict was a run that can happen: a check's word counts. */
    if (r == 0 && x->conflict)
        return RESTART;
    x->out->complete = r == 0;
    return r;
}

/* Random runs first: they find most of the words that are shared, so that the search seldom starts anew. */
static int warm_up(struct explorer *x)
{
    uint64_t seed = 1, begin = x->m->steps;
    int r = 0;
    for (uint32_t run = 0; r == 0 && run < WARM_RUNS; run++) {
        r = start(x);
        for (uint32_t n = 0; r == 0 && n < WARM_STEPS && x->m->steps - begin < WARM_CODES; n++) {
            uint32_t left = enabled(x);
            if (left == 0)
                break;
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            for (uint32_t skip = (uint32_t)(seed >> 33) % (uint32_t)__builtin_popcount(left); skip > 0;
                 skip--)
                left &= left - 1;
            r = take(x, (uint32_t)__builtin_ctz(left));
        }
    }
    return r;
}

static int prepare(struct explorer *x)
{
    struct tg_ir_machine *m = x->m;
    uint64_t words = 0;
    for (uint32_t i = 0; i < TG_IR_MAX_BUFFERS; i++) {
        x->base[i] = (uint32_t)words;
        if (i != TG_IR_OBSERVABLE && i != TG_IR_DFA)
            words += m->memory.count[i];
    }
    if (words > 1u << 26)
        return -ENOMEM;
    x->words = (uint32_t)words;
    x->lane_words = m->registers + m->private_words + TG_IR_L_WORDS;
    x->snapshot_words = x->words + (size_t)x->lane_words * m->lane_count;
    x->use = calloc(words + 1, sizeof(*x->use));
    x->first = calloc(words + 1, sizeof(*x->first));
    if (!x->use || !x->first)
        return -ENOMEM;
    for (uint32_t i = 0; i < x->options->watched_count; i++) {
        struct tg_ir_word w = x->options->watched[i];
        if (w.buffer == TG_IR_OBSERVABLE && w.index < m->memory.count[TG_IR_OBSERVABLE])
            w = (struct tg_ir_word){TG_IR_CONTROL, w.index + TG_CONTROL_OBSERVABLE_BASE};
        if (w.buffer >= TG_IR_MAX_BUFFERS || w.buffer == TG_IR_DFA || w.buffer == TG_IR_OBSERVABLE ||
            w.index >= m->memory.count[w.buffer])
            return -EINVAL;
        x->use[x->base[w.buffer] + w.index] = (struct use){.look = OBSERVER};
    }
    copy_memory(x, x->first, true);
    return 0;
}

int tg_ir_explore(struct tg_ir_machine *m, const struct tg_ir_explore_options *options,
                  struct tg_ir_explored *ret)
{
    static const struct tg_ir_explore_options defaults;
    struct explorer x = {.m = m, .options = options ? options : &defaults, .out = ret};
    memset(ret, 0, sizeof(*ret));
    if (m->lane_count > MAX_LANES)
        return -EINVAL;
    int r = prepare(&x);
    bool ready = r == 0;
    tg_ir_observer observer = m->observer;
    m->observer = NULL; /* the first runs are for us alone */
    if (r == 0)
        r = warm_up(&x);
    m->observer = observer;
    if (r == 0)
        while ((r = search(&x)) == RESTART)
            ret->restarts++;
    if (r < 0)
        write_schedule(&x);
    if (ready && (r == 0 || r == -ENOMEM))
        copy_memory(&x, x.first, false);
    free(x.use);
    free(x.first);
    free(x.snapshots);
    free(x.frames);
    free(x.seen);
    return r;
}
