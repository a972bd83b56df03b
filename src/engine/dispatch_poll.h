/* SPDX-License-Identifier: Apache-2.0
 *
 * The poller: reads lines over the bus, keeps the line of an item that needs it, and puts a cell into the
 * inbox of its level. Part of the dispatcher (dispatch.h).
 *
 * A look reads the next line of every level and of the command ring, and two more of the level that had lines
 * last (warm), with one 512-byte read, and waits for it; a look while some level is hot, that is has lines
 * again and again, also up to 192 lines of one hot level in turn. One look is under way at a time: with
 * three of them each look took 3.2 us on an H200, twice what a read over the bus takes, because short waits
 * of the warp became waits for all that it had under way.
 *
 * How many lines of a hot level a look reads (MOST) follows what came. A line that is read while its
 * publisher is about to write it is taken out of that processor's cache, where it had been fetched to, and
 * the publisher waits for it again: a poller that reads past the end in each look makes one host thread half
 * as fast. So after an end it asks for three quarters of what it found, and for two lines more each time it
 * found all: it stays some looks behind the publisher, and meets the end in 2 to 15 of 100 looks. The rest is
 * not read at all: lanes that read one line in its place were served one after the other.
 */
#ifndef TG_ENGINE_DISPATCH_POLL_H
#define TG_ENGINE_DISPATCH_POLL_H

#include "engine/dispatch_grant.h"

#define TG_LOOKS_UNTIL_PAUSE 4096u /* empty ones before the poller pauses between looks */
#define TG_NO_LEVEL TG_LINE_RINGS
#define TG_NO_LAP 1u     /* of no line */
#define TG_RUN_STEP 2u   /* lines: MOST is counted in these */
#define TG_RUN_LEAST 4u  /* steps */
#define TG_RUN_START 32u /* when a level becomes hot */
#define TG_RUN_MOST (TG_LANES * TG_RUN_PARTS / TG_RUN_STEP)

/* A look under way. */
struct tg_seen {
    struct tg_quarter head, run[TG_RUN_PARTS][TG_PART_LOADS];
    uint32_t at;    /* the position that this lane's HEAD was read at */
    uint32_t lap;   /* and its lap; TG_NO_LAP: it is not to be looked at */
    uint32_t warm;  /* of lanes 24 .. 31 */
    uint32_t level; /* of RUN; TG_NO_LEVEL: none */
    uint32_t from;  /* its first position */
    uint32_t most;  /* so many lines of it are there to be looked at */
};

/* What the poller knows of the rings; masks of levels. */
struct tg_poll {
    uint32_t warm;   /* had lines last */
    uint32_t streak; /* had a line in its last look */
    uint32_t hot;    /* is read by runs */
    uint32_t more;   /* had lines, and no end was seen */
    uint32_t turn;   /* the level of the last run */
    uint32_t idle;   /* looks without anything */
    uint64_t most;   /* byte l: steps that a run of level l has */
};

TG_DEVICE void tg_set_most(struct tg_poll *o, uint32_t level, uint32_t steps)
{
    o->most = (o->most & ~(UINT64_C(0xFF) << 8 * level)) | (uint64_t)steps << 8 * level;
}

/* Begins to read this lane's quarter of the line at a position, if it is asked for. */
TG_DEVICE struct tg_quarter tg_load_quarter(const struct tg_device_params *p, uint32_t ring,
                                            uint32_t position, uint32_t quarter, bool asked)
{
    const struct tg_line *line = &p->lines[ring][position & ((1u << p->line_shift[ring]) - 1u)];
    struct tg_quarter v;
    /* N2: one access; pairs with N1 of device_item.c. */
    tg_sys_load_quarter_if(asked, &line->word[4 * quarter], v.word);
    return v;
}

TG_DEVICE void tg_stage_put(struct tg_stage *t, struct tg_warp w, uint32_t line, const struct tg_quarter *v)
{
    tg_quarter_store(t->piece[w.lane & 3u][line].word, v->word);
}

/* A whole line. True: all its quarters are of that position's lap. */
TG_DEVICE bool tg_stage_take(const struct tg_stage *t, uint32_t line, uint32_t lap,
                             struct tg_quarter ret[TG_LINE_QUARTERS])
{
    bool ok = true;
    TG_UNROLL
    for (uint32_t q = 0; q < TG_LINE_QUARTERS; q++) {
        tg_quarter_load(ret[q].word, t->piece[q][line].word);
        ok &= (ret[q].word[0] & TG_LINE_LAP) == lap;
    }
    return ok;
}

/* Is there such a slot and tenant? */
TG_DEVICE bool tg_line_valid(const struct tg_device_params *p, const struct tg_quarter v[TG_LINE_QUARTERS])
{
    return v[0].word[0] >> TG_LINE_VALUE_SHIFT < p->slots &&
           (v[1].word[0] >> TG_LINE_VALUE_SHIFT & TG_LINE_TENANT) < TG_TENANTS;
}

/* Must the line be kept for who runs the item? Not for a NOP, which has nothing in it. */
TG_DEVICE bool tg_has_line(uint64_t cell)
{
    uint32_t kept = (uint32_t)(cell >> 32);
    return tg_kind_of(kept) != TG_OP_NOP || (kept & TG_KEPT_BATCHED);
}

/* One lane: its item's cell; the line is kept. */
TG_DEVICE uint64_t tg_keep_item(const struct tg_device_params *p, uint32_t level,
                                const struct tg_quarter v[TG_LINE_QUARTERS])
{
    uint32_t slot = v[0].word[0] >> TG_LINE_VALUE_SHIFT;
    uint64_t cell = tg_cell(slot, tg_kept_of(level, v[1].word[0], v[3].word[0]));
    if (tg_has_line(cell)) {
        TG_UNROLL
        for (uint32_t q = 0; q < TG_LINE_QUARTERS; q++)
            tg_quarter_store(&p->items[slot].word[4 * q], v[q].word);
    }
    return cell;
}

/* The usual find: one line of one level, whose inbox is empty. Its line goes to FIRST, for the decider.
 * False: it is something else. whole: groups of lanes that have a line. */
TG_DEVICE bool tg_take_one(struct tg_warp w, struct tg_poll *o, const struct tg_seen *v, uint32_t whole)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    if ((whole & (whole - 1)) || whole >> (4 * TG_PRIORITY_LEVELS) || o->hot || v->level != TG_NO_LEVEL)
        return false;
    uint32_t lane = tg_levels_first(whole);
    uint32_t level = lane >> 2;
    uint32_t grant = tg_heard(w, &s->grant); /* H5 */
    uint32_t filed = s->filed[level];
    uint32_t value = v->head.word[0];
    uint32_t word_4 = tg_warp_shfl(value, lane + 1);
    uint32_t word_12 = tg_warp_shfl(value, lane + 3);
    bool fits = w.lane == lane && v->at == (uint32_t)s->position[level] &&
                filed == tg_block_load_acquire_u32(&s->taken[level]) && /* B4 */
                value >> TG_LINE_VALUE_SHIFT < p->slots &&
                (word_4 >> TG_LINE_VALUE_SHIFT & TG_LINE_TENANT) < TG_TENANTS;
    if (tg_warp_ballot(fits) == 0)
        return false;
    uint32_t slot = tg_warp_shfl(value, lane) >> TG_LINE_VALUE_SHIFT;
    uint32_t kept = tg_kept_of(level, word_4, word_12);
    o->streak = 1u << level; /* not hot: who publishes one after the other waits for each */
    o->warm = level;
    if ((grant >> tg_tenant_of(kept) & 1u) && (o->more & ~(1u << level)) == 0 &&
        tg_decide_alone(w, lane, slot, kept, &v->head)) {
        o->more = 1u << level;
        if (w.lane == 0)
            s->position[level]++;
        tg_warp_sync();
        return true;
    }
    o->more = 1u << level;
    if (grant)
        tg_give_over(w);
    if (w.lane >> 2 == level)
        tg_quarter_store(&s->first[level].word[4 * (w.lane & 3u)], v->head.word);
    if (w.lane == lane) {
        s->inbox[level][filed & (TG_INBOX - 1u)] = tg_cell(slot, kept) | TG_FILED_HERE;
        s->position[level]++;
    }
    tg_warp_sync();
    if (w.lane == lane)
        tg_block_store_behind_u32(&s->filed[level], filed + 1); /* B1 */
    tg_warp_sync();
    return true;
}

/* Which groups of four lanes have a whole line: a bit a group, at its first lane. */
TG_DEVICE uint32_t tg_whole(uint32_t lanes)
{
    uint32_t m = lanes & lanes >> 1;
    m &= m >> 2;
    return m & 0x11111111u;
}

/* Begins a look: all its reads, one after the other, with nothing between them that waits. */
TG_DEVICE void tg_look(struct tg_warp w, struct tg_poll *o, struct tg_seen *v)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    uint32_t group = w.lane >> 2;
    uint32_t ring = group < TG_LINE_RINGS ? group : o->warm;
    bool reads = ring < TG_LINE_RINGS;
    uint32_t from = 0;
    v->warm = o->warm;
    v->level = TG_NO_LEVEL;
    v->from = v->most = 0;
    if (o->hot) { /* B4 relaxed: whether it is worth a look; there will be more room when it comes back */
        bool room = w.lane < TG_PRIORITY_LEVELS &&
                    TG_INBOX - (s->filed[w.lane] - tg_block_load_relaxed_u32(&s->taken[w.lane])) >= TG_LANES;
        uint32_t ready = tg_warp_ballot(room) & o->hot;
        uint32_t after = ready & ~((2u << o->turn) - 1u);
        if (ready) {
            v->level = o->turn = tg_levels_first(after ? after : ready);
            v->from = from = (uint32_t)s->position[v->level];
            v->most = (uint32_t)(o->most >> 8 * v->level & 0xFFu) * TG_RUN_STEP;
        }
    }
    if (v->level != TG_NO_LEVEL) {
        TG_UNROLL
        for (uint32_t k = 0; k < TG_RUN_PARTS; k++) {
            TG_UNROLL
            for (uint32_t j = 0; j < TG_PART_LOADS; j++) {
                uint32_t i = TG_LANES * k + 8 * j + group;
                v->run[k][j] = tg_load_quarter(p, v->level, from + i, w.lane & 3u, i < v->most);
            }
        }
    }
    /* Last: a compiler copies a register that is needed for long, and the copy waits for the load. What was
     * read after it would be a second way over the bus. */
    ring = reads ? ring : 0;
    v->at = (uint32_t)s->position[ring] + (group < TG_LINE_RINGS ? 0 : group - TG_LINE_RINGS + 1);
    v->lap = reads ? tg_line_lap(v->at, p->line_shift[ring]) : TG_NO_LAP;
    v->head = tg_load_quarter(p, ring, v->at, w.lane & 3u, reads);
}

/* Takes in the lines of a look at the rings' heads. Returns how many. */
TG_DEVICE uint32_t tg_take_heads(struct tg_warp w, struct tg_poll *o, const struct tg_seen *v)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    struct tg_quarter line[TG_LINE_QUARTERS];
    bool level = w.lane < TG_PRIORITY_LEVELS;
    bool extra = w.lane >= TG_LINE_RINGS && w.lane < TG_LINE_RINGS + 2;
    uint32_t ring = w.lane < TG_LINE_RINGS ? w.lane : extra ? v->warm : TG_LINE_RINGS;
    uint32_t at = tg_warp_shfl(v->at, 4 * (w.lane & 7u));
    uint32_t room = 0;
    bool fresh = false;
    bool ok = false;
    uint32_t seen = tg_whole(tg_warp_ballot((v->head.word[0] & TG_LINE_LAP) == v->lap));
    uint32_t known = o->streak | o->hot | o->more;
    if (v->level != TG_NO_LEVEL) { /* its lines come with the run */
        known &= ~(1u << v->level);
        seen &= ~(1u << 4 * v->level | (v->warm == v->level ? 0xFFu << 4 * TG_LINE_RINGS : 0));
    }
    if ((seen | known) == 0)
        return 0;
    if (seen != 0 && tg_take_one(w, o, v, seen))
        return 1;
    if (seen != 0)
        tg_give_over(w);
    tg_stage_put(&s->heads, w, w.lane >> 2, &v->head);
    tg_warp_sync();
    if (level) /* B4 */
        room = TG_INBOX - (s->filed[w.lane] - tg_block_load_acquire_u32(&s->taken[w.lane]));
    else if (w.lane == TG_RING_COMMANDS)
        room = 1 - (s->commands_filed - tg_block_load_acquire_u32(&s->commands_taken));
    if (ring < TG_LINE_RINGS && ring != v->level) {
        fresh = at == (uint32_t)s->position[ring] + (extra ? w.lane - TG_LINE_RINGS + 1 : 0);
        ok = tg_stage_take(&s->heads, w.lane, tg_line_lap(at, p->line_shift[ring]), line);
    }
    uint32_t miss = tg_warp_ballot(fresh && !ok) & TG_LEVELS_ALL;
    uint32_t whole = tg_warp_ballot(fresh && ok && (extra || room >= (level ? 3u : 1u)));
    uint32_t extras = 0;
    if (v->warm < TG_PRIORITY_LEVELS && (whole >> v->warm & 1u) && (whole >> TG_LINE_RINGS & 1u))
        extras = whole >> (TG_LINE_RINGS + 1) & 1u ? 2 : 1;
    o->streak &= ~miss;
    o->more &= ~miss;
    o->hot &= ~miss;
    uint32_t rings = whole & ((1u << TG_LINE_RINGS) - 1u);
    if (rings == 0)
        return 0;
    bool takes = extra ? w.lane - TG_LINE_RINGS < extras : (rings >> w.lane & 1u) != 0;
    bool valid = takes && w.lane != TG_RING_COMMANDS && tg_line_valid(p, line);
    uint32_t valids = tg_warp_ballot(valid);
    uint64_t cell = 0;
    if (valid) {
        uint32_t index = s->filed[ring];
        if (extra)
            index +=
                (valids >> v->warm & 1u) + tg_bits(valids & ((1u << w.lane) - 1u) & (3u << TG_LINE_RINGS));
        cell = tg_keep_item(p, ring, line);
        s->inbox[ring][index & (TG_INBOX - 1u)] = cell;
    } else if (takes && w.lane == TG_RING_COMMANDS) {
        TG_UNROLL
        for (uint32_t q = 0; q < TG_LINE_QUARTERS; q++)
            tg_quarter_store(&s->command.word[4 * q], line[q].word);
    }
    bool lined = tg_warp_ballot(valid && tg_has_line(cell)) != 0;
    tg_warp_sync();
    if (w.lane < TG_LINE_RINGS) {
        uint32_t behind = w.lane == v->warm ? 1 : 0;
        s->position[w.lane] += (rings >> w.lane & 1u) + behind * extras;
        uint32_t n = (valids >> w.lane & 1u) + behind * tg_bits(valids >> TG_LINE_RINGS);
        if (level && n && lined) /* B1 */
            tg_block_store_release_u32(&s->filed[w.lane], s->filed[w.lane] + n);
        else if (level && n) /* B1 */
            tg_block_store_behind_u32(&s->filed[w.lane], s->filed[w.lane] + n);
        else if (takes && w.lane == TG_RING_COMMANDS) /* B1 */
            tg_block_store_behind_u32(&s->commands_filed, s->commands_filed + 1);
    }
    uint32_t found = rings & TG_LEVELS_ALL;
    o->hot |= found & o->streak;
    o->streak |= found;
    o->more |= found;
    if (v->warm < TG_PRIORITY_LEVELS && (found >> v->warm & 1u)) {
        if (extras == 2)
            o->hot |= 1u << v->warm;
        else
            o->more &= ~(1u << v->warm);
    } else if (found) {
        o->warm = tg_levels_first(found);
    }
    tg_warp_sync();
    return tg_bits(rings) + extras;
}

/* Takes in 32 of the lines of a look at many of one level, the first at position FROM; room: for so many
 * there is room behind FILED, and so many were read. Returns how many; *ret_end: an end was seen. */
TG_DEVICE uint32_t tg_take_part(struct tg_warp w, uint32_t level, uint32_t from, uint32_t room,
                                const struct tg_quarter run[TG_PART_LOADS], uint32_t *filed, bool *ret_end)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    struct tg_quarter line[TG_LINE_QUARTERS];
    TG_UNROLL
    for (uint32_t j = 0; j < TG_PART_LOADS; j++)
        tg_stage_put(&s->run, w, 8 * j + (w.lane >> 2), &run[j]);
    tg_warp_sync();
    bool ok = tg_stage_take(&s->run, w.lane, tg_line_lap(from + w.lane, p->line_shift[level]), line);
    uint32_t gaps = ~tg_warp_ballot(ok);
    uint32_t lines = gaps ? tg_levels_first(gaps) : TG_LANES;
    *ret_end = lines < TG_LANES;
    if (lines >= room) {
        lines = room;
        *ret_end = false;
    }
    bool valid = w.lane < lines && tg_line_valid(p, line);
    uint32_t valids = tg_warp_ballot(valid);
    uint64_t cell = 0;
    if (valid) {
        cell = tg_keep_item(p, level, line);
        s->inbox[level][(*filed + tg_rank(w, valids)) & (TG_INBOX - 1u)] = cell;
    }
    bool lined = tg_warp_ballot(valid && tg_has_line(cell)) != 0;
    *filed += tg_bits(valids);
    tg_warp_sync();
    if (w.lane == 0 && lined)
        tg_block_store_release_u32(&s->filed[level], *filed); /* B1 */
    else if (w.lane == 0)
        tg_block_store_behind_u32(&s->filed[level], *filed); /* B1 */
    return lines;
}

TG_DEVICE uint32_t tg_take_run(struct tg_warp w, struct tg_poll *o, struct tg_seen *v)
{
    struct tg_shared *s = tg_state();
    uint32_t level = v->level;
    uint32_t bit = 1u << level;
    uint32_t lines = 0;
    bool end = false;
    if (tg_heard(w, &s->grant)) /* H5 */
        tg_give_over(w);
    uint32_t filed = s->filed[level];
    uint32_t room = TG_INBOX - (filed - tg_heard(w, &s->taken[level])); /* B4 */
    room = room < v->most ? room : v->most;
    TG_UNROLL
    for (uint32_t k = 0; k < TG_RUN_PARTS; k++)
        if (lines == TG_LANES * k && lines < room && !end)
            lines += tg_take_part(w, level, v->from + lines, room - lines, v->run[k], &filed, &end);
    tg_warp_sync();
    if (w.lane == 0)
        s->position[level] += lines;
    tg_warp_sync();
    o->more = end ? o->more & ~bit : o->more | bit;
    uint32_t steps = v->most / TG_RUN_STEP;
    if (end && lines == 0) {
        o->hot &= ~bit;
        o->streak &= ~bit;
        steps = TG_RUN_START;
    } else if (end) {
        steps = lines * 3 / 4 / TG_RUN_STEP;
        steps = steps > TG_RUN_LEAST ? steps : TG_RUN_LEAST;
    } else if (lines == v->most) {
        steps = steps < TG_RUN_MOST ? steps + 1 : TG_RUN_MOST;
    }
    tg_set_most(o, level, steps);
    return lines;
}

TG_DEVICE void tg_poller(uint32_t lane)
{
    const struct tg_device_params *p = tg_params();
    struct tg_shared *s = tg_state();
    struct tg_warp w = {lane, TG_POLLER};
    struct tg_poll o = {TG_NO_LEVEL, 0, 0, 0, 0, 0, TG_LEVELS_ONES * TG_RUN_START};
    for (uint32_t more = 0;;) {
        struct tg_seen seen;
        if (tg_warp_shfl(w.lane == 0 ? tg_block_load_relaxed_u32(&s->recall) : 0, 0)) /* H6 */
            tg_give_over(w);
        tg_look(w, &o, &seen);
        uint32_t found = tg_take_heads(w, &o, &seen);
        if (seen.level != TG_NO_LEVEL)
            found += tg_take_run(w, &o, &seen);
        if (w.lane == 0 && more != o.more)
            tg_block_store_relaxed_u32(&s->more, o.more); /* B9 */
        more = o.more;
        if (w.lane == 0) /* H1: what it found, and that there was nothing else */
            tg_block_store_behind_u32(&s->looks, s->looks + 1);
        o.idle = found ? 0 : o.idle < TG_LOOKS_UNTIL_PAUSE ? o.idle + 1 : o.idle;
        tg_warp_sync();
        if (tg_heard(w, &s->leaving)) /* H2 */
            break;
        if (o.idle)
            tg_warp_idle();
        if (o.idle >= TG_LOOKS_UNTIL_PAUSE)
            tg_device_pause(p->poll_pause_ns);
    }
    if (w.lane == 0)
        tg_block_store_release_u32(&s->poller_left, 1); /* H1 */
}

#endif
