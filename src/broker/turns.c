/* SPDX-License-Identifier: Apache-2.0
 * See turns.h. Rounds that are kept with a ticket may lag behind by moves that were put off: the moves of a
 * line up to and including a ticket, summed, are what its round has yet to give up. The kept rounds are
 * ordered all the same, so that the array they sort stays sorted. */
#include "broker/turns.h"

#include <errno.h>
#include <stdlib.h>

#include "base/checked.h"

#define SPARE_LINES 64u /* for tenants that are remembered beside those that wait */

struct tg_level {
    uint64_t key;
    uint64_t served; /* round of the last that started from the front */
    uint64_t last;   /* the largest round in it, or more */
    size_t waiting;
    size_t lines; /* with waiters */
    bool moves;   /* some are put off */
    struct tg_lines all;
    TAILQ_ENTRY(tg_level) link;
};

/* Of one tenant at one level. */
struct tg_line {
    struct tg_level *level;
    uint64_t key;
    uint64_t last; /* the last round that it has used */
    size_t n;
    struct tg_ticket_list tickets; /* by arrival */
    TAILQ_ENTRY(tg_line) in_level;
    TAILQ_ENTRY(tg_line) link; /* idle or free */
};

/* ---- room */

static void make_ready(struct tg_turns *turns)
{
    TAILQ_INIT(&turns->levels);
    TAILQ_INIT(&turns->free_levels);
    TAILQ_INIT(&turns->idle);
    TAILQ_INIT(&turns->free_lines);
    turns->ready = true;
}

static int make_line(struct tg_turns *turns)
{
    struct tg_line *line = calloc(1, sizeof(*line));
    if (!line)
        return -ENOMEM;
    TAILQ_INSERT_HEAD(&turns->free_lines, line, link);
    turns->lines_made++;
    return 0;
}

static int make_level(struct tg_turns *turns)
{
    struct tg_level *level = calloc(1, sizeof(*level));
    if (!level)
        return -ENOMEM;
    TAILQ_INSERT_HEAD(&turns->free_levels, level, link);
    turns->levels_made++;
    return 0;
}

int tg_turns_reserve(struct tg_turns *turns, size_t n)
{
    if (!turns->ready)
        make_ready(turns);
    int err = tg_map_reserve(&turns->by_level, n);
    if (!err)
        err = tg_map_reserve(&turns->by_tenant, n + SPARE_LINES);
    while (!err && turns->levels_made < n)
        err = make_level(turns);
    while (!err && turns->lines_made < n + SPARE_LINES)
        err = make_line(turns);
    return err;
}

/* ---- levels and lines */

static uint64_t level_key(int64_t level)
{
    uint64_t key = (uint64_t)level + (UINT64_C(1) << 63);
    return key ? key : 1; /* the two least levels share their rounds; the order of levels is not affected */
}

/* FNV-1a. Two tenants with the same number would share a line and so their turns; nothing else. */
static uint64_t line_key(uint64_t level, const char *tenant)
{
    uint64_t h = (UINT64_C(0xcbf29ce484222325) ^ level) * UINT64_C(0x9e3779b97f4a7c15);
    for (; *tenant; tenant++)
        h = (h ^ (uint8_t)*tenant) * UINT64_C(0x100000001b3);
    return h ? h : 1;
}

static struct tg_level *level_of(struct tg_turns *turns, int64_t value)
{
    uint64_t key = level_key(value);
    struct tg_level *level = tg_map_get(&turns->by_level, key);
    if (level)
        return level;
    level = TAILQ_FIRST(&turns->free_levels);
    TAILQ_REMOVE(&turns->free_levels, level, link);
    *level = (struct tg_level){.key = key};
    TAILQ_INIT(&level->all);
    TAILQ_INSERT_TAIL(&turns->levels, level, link);
    tg_map_put(&turns->by_level, key, level);
    return level;
}

/* Forgets a line without waiters. */
static void forget(struct tg_turns *turns, struct tg_line *line)
{
    TAILQ_REMOVE(&turns->idle, line, link);
    TAILQ_REMOVE(&line->level->all, line, in_level);
    tg_map_remove(&turns->by_tenant, line->key);
    TAILQ_INSERT_HEAD(&turns->free_lines, line, link);
}

static struct tg_line *line_of(struct tg_turns *turns, struct tg_level *level, const char *tenant)
{
    uint64_t key = line_key(level->key, tenant);
    struct tg_line *line = tg_map_get(&turns->by_tenant, key);
    if (line)
        return line;
    if (TAILQ_EMPTY(&turns->free_lines)) /* then some are idle: there are more lines than waiters */
        forget(turns, TAILQ_FIRST(&turns->idle));
    line = TAILQ_FIRST(&turns->free_lines);
    TAILQ_REMOVE(&turns->free_lines, line, link);
    *line = (struct tg_line){.level = level, .key = key};
    TAILQ_INIT(&line->tickets);
    TAILQ_INSERT_TAIL(&level->all, line, in_level);
    TAILQ_INSERT_TAIL(&turns->idle, line, link);
    tg_map_put(&turns->by_tenant, key, line);
    return line;
}

static void level_ends(struct tg_turns *turns, struct tg_level *level)
{
    struct tg_line *line;
    while ((line = TAILQ_FIRST(&level->all)) != NULL)
        forget(turns, line);
    tg_map_remove(&turns->by_level, level->key);
    TAILQ_REMOVE(&turns->levels, level, link);
    TAILQ_INSERT_HEAD(&turns->free_levels, level, link);
}

/* ---- joining and leaving */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The kept round plus moves, never below 0. */
static uint64_t moved(uint64_t round, int64_t up)
{
    return up >= 0 ? tg_sat_sub_u64(round, (uint64_t)up) : round + (uint64_t)-up;
}

/* The round of one that comes back to a level where it stood before: the one it had, or the one that is
 * served now if that has gone by. UINT64_MAX: it has not been here. */
static uint64_t round_it_had(const struct tg_level *level, const struct tg_ticket *t, uint64_t first)
{
    return t->round ? larger(t->round, tg_rank_round(level->served, first, 0) - 1) : UINT64_MAX;
}

void tg_turns_enter(struct tg_turns *turns, struct tg_ticket *t, uint64_t first)
{
    t->moves = 0;
    t->line = NULL;
    if (turns->strict) {
        t->round = 0;
        return;
    }
    struct tg_level *level = level_of(turns, t->level);
    struct tg_line *line = line_of(turns, level, t->tenant);
    struct tg_ticket *before = TAILQ_LAST(&line->tickets, tg_ticket_list);
    while (before && before->id > t->id)
        before = TAILQ_PREV(before, tg_ticket_list, in_line);
    struct tg_ticket *after = before ? TAILQ_NEXT(before, in_line) : TAILQ_FIRST(&line->tickets);
    uint64_t had = round_it_had(level, t, first);
    uint64_t round = after ? after->round : tg_rank_round(level->served, first, line->last);
    if (t->strict && !after)
        round = larger(round, level->last);
    if (had < round)
        round = had;
    if (before && round <= before->round)
        round = before->round + (after ? 0 : 1);
    t->round = round;
    if (after) {
        TAILQ_INSERT_BEFORE(after, t, in_line);
        after->moves--;
        level->moves = true;
    } else {
        TAILQ_INSERT_TAIL(&line->tickets, t, in_line);
        line->last = larger(line->last + 1, round);
    }
    t->line = line;
    level->last = larger(level->last, round);
    level->waiting++;
    if (line->n++ == 0) {
        TAILQ_REMOVE(&turns->idle, line, link);
        level->lines++;
    }
}

void tg_turns_leave(struct tg_turns *turns, struct tg_ticket *t, bool starts, bool was_first)
{
    struct tg_line *line = t->line;
    if (!line)
        return;
    struct tg_level *level = line->level;
    struct tg_ticket *after = TAILQ_NEXT(t, in_line);
    if (starts && was_first) /* the head of its line: only its own moves are to come */
        level->served = larger(level->served, moved(t->round, t->moves));
    int64_t up = t->moves + (starts ? 0 : 1);
    if (after) {
        after->moves += up;
        level->moves |= up != 0;
    } else {
        line->last = moved(line->last, up);
    }
    TAILQ_REMOVE(&line->tickets, t, in_line);
    t->line = NULL;
    t->moves = 0;
    if (--line->n == 0) {
        TAILQ_INSERT_TAIL(&turns->idle, line, link);
        level->lines--;
    }
    if (--level->waiting == 0)
        level_ends(turns, level);
}

/* ---- moves that were put off */

static void settle_level(struct tg_level *level)
{
    struct tg_line *line;
    level->moves = false;
    level->last = 0;
    TAILQ_FOREACH(line, &level->all, in_level)
    {
        struct tg_ticket *t;
        int64_t up = 0;
        uint64_t former = 0;
        TAILQ_FOREACH(t, &line->tickets, in_line)
        {
            up += t->moves;
            t->moves = 0;
            t->round = larger(moved(t->round, up), former + 1);
            former = t->round;
        }
        line->last = larger(moved(line->last, up), former);
        level->last = larger(level->last, line->n > 0 ? former : 0);
    }
}

bool tg_turns_settle(struct tg_turns *turns)
{
    struct tg_level *level;
    bool changed = false;
    if (!turns->ready)
        return false;
    TAILQ_FOREACH(level, &turns->levels, link)
    {
        if (!level->moves || level->lines < 2)
            continue; /* with one line alone the order is that of arrival, whatever the rounds */
        settle_level(level);
        changed = true;
    }
    return changed;
}

bool tg_turns_settle_for(struct tg_turns *turns, const struct tg_ticket *t)
{
    uint64_t key = level_key(t->level);
    struct tg_level *level = tg_map_get(&turns->by_level, key);
    if (!level || !level->moves)
        return false;
    const struct tg_line *line = tg_map_get(&turns->by_tenant, line_key(key, t->tenant));
    if (level->lines == 1 && line && line->n > 0)
        return false;
    settle_level(level);
    return true;
}

void tg_turns_done(struct tg_turns *turns)
{
    struct tg_level *level;
    struct tg_line *line;
    if (!turns->ready)
        return;
    while ((level = TAILQ_FIRST(&turns->levels)) != NULL) {
        while ((line = TAILQ_FIRST(&level->all)) != NULL) {
            TAILQ_REMOVE(&level->all, line, in_level);
            free(line);
        }
        TAILQ_REMOVE(&turns->levels, level, link);
        free(level);
    }
    while ((level = TAILQ_FIRST(&turns->free_levels)) != NULL) {
        TAILQ_REMOVE(&turns->free_levels, level, link);
        free(level);
    }
    while ((line = TAILQ_FIRST(&turns->free_lines)) != NULL) {
        TAILQ_REMOVE(&turns->free_lines, line, link);
        free(line);
    }
    tg_map_done(&turns->by_level);
    tg_map_done(&turns->by_tenant);
    *turns = (struct tg_turns){0};
}
