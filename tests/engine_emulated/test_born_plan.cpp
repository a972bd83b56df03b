// SPDX-License-Identifier: Apache-2.0
// What a round of decisions on items of bodies (dispatch_born_plan.h) claims and leaves is what single
// decisions of levels.h and tenants.h, one after the other, claim and leave (E2, E3, E4), whatever waits,
// whoever may claim, however many workers are free. The device's code runs here on a warp of fibers; the
// model is a page of plain code. Within a round of several levels the order is free, the sums are not.
#include <cerrno>
#include <vector>

#include "warp.h"

#include "engine/dispatch_main.h"

static struct tg_device_params this_params;
static struct tg_shared this_state;

static inline const struct tg_device_params *tg_params(void)
{
    return &this_params;
}

static inline struct tg_shared *tg_state(void)
{
    return &this_state;
}

#include "device_ops.h"

#include "check.h"

namespace
{

constexpr uint32_t levels = TG_PRIORITY_LEVELS, tenants = TG_TENANTS, most_workers = 600, words = 4096;
constexpr uint32_t more_than_a_round = TG_GRANTS * TG_LANES + 1;

uint64_t seed = 0x5EED;
uint32_t below(uint32_t n)
{
    return static_cast<uint32_t>(check_random(&seed) >> 33) % n;
}
bool one_in(uint32_t n)
{
    return below(n) == 0;
}

// ---- The model: one decision at a time. ----

enum Step { claimed, nobody, of_the_host, of_unknown };

struct Model {
    uint64_t word;
    struct tg_tenant_turn turn[levels];
    uint32_t quota[tenants], allowed, host[levels], more, urgent;
    uint32_t items[levels][tenants], claims[levels][tenants], at_level[levels];
    uint32_t overtaken[levels], worst; // since the last service, while it waits

    Step step()
    {
        uint32_t waiting[levels], known = 0;
        for (uint32_t l = 0; l < levels; l++) {
            waiting[l] = host[l];
            for (uint32_t t = 0; t < tenants; t++)
                waiting[l] |= items[l][t] ? 1u << t : 0;
            waiting[l] &= allowed;
            known |= waiting[l] ? 1u << l : 0;
        }
        if (known == 0)
            return nobody;
        uint32_t work = known | more;
        uint32_t level = tg_levels_choose(word, work);
        if (!(known >> level & 1u)) {
            if (tg_levels_overtaken(word, level) >= TG_STARVATION_THRESHOLD)
                return of_unknown;
            level = tg_levels_choose(word, known);
        }
        struct tg_tenant_turn next = turn[level];
        uint32_t tenant = tg_tenants_choose(&next, waiting[level], TG_TENANT_FAIRNESS_THRESHOLD);
        if (items[level][tenant] == 0)
            return of_the_host;
        word = tg_levels_claimed(word, work, level);
        turn[level] = next;
        items[level][tenant]--;
        claims[level][tenant]++;
        at_level[level]++;
        urgent = level <= TG_PRIORITY_HIGH ? urgent + 1 : 0;
        if (quota[tenant] != TG_TENANT_QUOTA_UNLIMITED && --quota[tenant] == 0)
            allowed &= ~(1u << tenant);
        for (uint32_t l = 0; l < levels; l++) {
            overtaken[l] = l != level && (work >> l & 1u) ? overtaken[l] + 1 : 0;
            worst = overtaken[l] > worst ? overtaken[l] : worst;
        }
        return claimed;
    }
};

// ---- The round. ----

struct tg_task tasks[most_workers];
uint32_t control[words], mirror[words];

struct Run {
    bool many;  // only tg_plan_many
    bool grows; // a second warp, as the scout, sees more of the rings meanwhile
    uint32_t ended;
    uint32_t claims[TG_LANES], count[TG_LANES];
};

bool is_ready(const struct tg_shared *s, uint32_t ring)
{
    uint32_t q = ring / TG_BORN_SHAPES;
    return s->born_ready[ring % TG_BORN_SHAPES][q / tenants] >> q % tenants & 1u;
}

void sees_more(Run *r, uint32_t lane)
{
    struct tg_shared *s = &this_state;
    while (!tg_warp_ballot(r->ended != 0)) {
        uint32_t ring = below(TG_BORN_RINGS), tries = lane == 0 && one_in(4) ? TG_BORN_RINGS : 0;
        for (; tries > 0 && !is_ready(s, ring); tries--)
            ring = (ring + 1) % TG_BORN_RINGS;
        if (tries)
            tg_block_store_relaxed_u32(&s->born_tail[ring], s->born_tail[ring] + 1 + below(100));
    }
}

void round_lane(void *argument, uint32_t warp, uint32_t lane)
{
    auto *r = static_cast<Run *>(argument);
    struct tg_warp w = {lane, TG_DECIDER};
    if (warp != 0) {
        sees_more(r, lane);
        return;
    }
    if (r->many) {
        struct tg_plan plan = {this_state.idle_count < TG_GRANTS ? this_state.idle_count : TG_GRANTS, 0};
        r->claims[lane] = tg_plan_many(w, &plan);
        if (plan.count)
            tg_plan_hand(w, &plan);
        r->count[lane] = plan.count;
    } else {
        r->count[lane] = tg_born_round(w);
    }
    r->ended = 1;
}

uint32_t ring_left(const struct tg_shared *s, uint32_t ring)
{
    return s->born_tail[ring] - s->born_head[ring];
}

// Every claimed position was given once, the workers are those that were free, and what they got is whole.
void check_grants(const struct tg_shared *before, struct tg_shared *expect, uint32_t count)
{
    const struct tg_shared *s = &this_state;
    std::vector<std::vector<bool>> given(TG_BORN_RINGS);
    for (uint32_t ring = 0; ring < TG_BORN_RINGS; ring++)
        given[ring].resize(s->born_head[ring] - before->born_head[ring]);
    std::vector<bool> got(most_workers);
    for (uint32_t i = 0; i < count; i++)
        got[before->idle[before->idle_count - 1 - i]] = true;
    for (uint32_t worker = 0; worker < most_workers; worker++) {
        const uint32_t *v = tasks[worker].grant;
        if (!got[worker]) {
            CHECK_EQ(v[0], 0);
            continue;
        }
        uint32_t next = before->seq_born[worker] % 254u + 1u;
        CHECK_EQ(v[0] & TG_LINE_LAP, TG_ALONE_LAP | next);
        expect->seq_born[worker] = static_cast<uint8_t>(next);
        uint32_t value = v[0] >> TG_LINE_VALUE_SHIFT;
        uint32_t ring = value & ((1u << TG_GRANT_COUNT_SHIFT) - 1u), n = value >> TG_GRANT_COUNT_SHIFT;
        CHECK(ring < TG_BORN_RINGS);
        CHECK(n >= 1 && n <= (TG_BORN_SHAPE(ring) == TG_BORN_LANE ? TG_LANES : 1u));
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = v[1] + i - before->born_head[ring];
            CHECK(at < given[ring].size());
            CHECK(!given[ring][at]);
            given[ring][at] = true;
        }
    }
    for (const auto &ring : given)
        for (bool position : ring)
            CHECK(position);
}

struct Tally {
    uint32_t rounds, claims, nothing, alone, several, cycles, mixed, cut, quotas, hosts, unknown, emptied;
};

// A round on THIS_STATE as it is, and the same by the model. Returns the claims.
uint32_t try_round(Model *m, bool many, Tally *tally, bool grows = false)
{
    struct tg_shared *s = &this_state;
    static struct tg_shared before, expect;
    Run r = {};
    r.many = many;
    r.grows = grows;
    memset(tasks, 0, sizeof(tasks));
    before = *s;
    uint32_t quota_words[tenants];
    memcpy(quota_words, control + TG_CONTROL_TENANT_QUOTA_BASE, sizeof(quota_words));
    m->word = s->levels;
    m->allowed = s->allowed;
    m->more = s->more;
    m->urgent = s->urgent;
    memcpy(m->turn, s->turn, sizeof(m->turn));
    memcpy(m->quota, s->quota, sizeof(m->quota));
    memset(m->claims, 0, sizeof(m->claims));
    memset(m->at_level, 0, sizeof(m->at_level));
    uint32_t lanes = 0, warps = 0; // levels
    for (uint32_t l = 0; l < levels; l++) {
        m->host[l] = s->ready[l] & ~s->stalled[l];
        for (uint32_t t = 0; t < tenants; t++)
            m->items[l][t] = ring_left(s, tg_born_ring(l, t, 0)) + ring_left(s, tg_born_ring(l, t, 1));
        lanes |= s->born_ready[TG_BORN_LANE][l] & s->allowed ? 1u << l : 0;
        warps |= s->born_ready[TG_BORN_WARP][l] & s->allowed ? 1u << l : 0;
    }

    emulated_block_run(grows ? 2 : 1, round_lane, &r, check_random(&seed));

    uint32_t count = r.count[0];
    for (uint32_t i = 0; i < TG_LANES; i++)
        CHECK(r.count[i] == count && r.claims[i] == r.claims[0]);
    CHECK(count <= before.idle_count && count <= TG_GRANTS);
    expect = before;
    memcpy(expect.grants, s->grants, sizeof(expect.grants));
    expect.idle_count -= count;
    expect.flights += count;
    check_grants(&before, &expect, count);

    // Whose items they were, and the sources of level and tenant.
    uint32_t n = 0, claims[levels][tenants] = {};
    for (uint32_t l = 0; l < levels; l++) {
        for (uint32_t t = 0; t < tenants; t++) {
            uint32_t q = l * tenants + t, from = 0;
            for (uint32_t shape = 0; shape < TG_BORN_SHAPES; shape++) {
                uint32_t ring = tg_born_ring(l, t, shape);
                uint32_t k = s->born_head[ring] - before.born_head[ring];
                CHECK(k <= s->born_tail[ring] - before.born_head[ring]);
                claims[l][t] += k;
                expect.born_head[ring] += k;
                expect.born_tail[ring] += grows ? s->born_tail[ring] - before.born_tail[ring] : 0;
                bool was = before.born_ready[shape][l] >> t & 1u, is = s->born_ready[shape][l] >> t & 1u;
                if (grows)
                    CHECK(is ? was && ring_left(s, ring) : !was || k >= ring_left(&before, ring));
                if (grows ? !is : ring_left(s, ring) == 0)
                    expect.born_ready[shape][l] &= ~(1u << t);
                from |= k ? 1u << (shape + TG_FROM_LANES) : 0;
            }
            n += claims[l][t];
            if (grows) // what there was of a ring when it was looked at is known of those that ran out
                m->items[l][t] =
                    claims[l][t] +
                    ((s->born_ready[0][l] | s->born_ready[1][l]) >> t & 1u ? more_than_a_round : 0);
            if (from) {
                CHECK(from >> s->source[q] & 1u);
                expect.source[q] = s->source[q];
            }
        }
    }
    if (many)
        CHECK_EQ(r.claims[0], n);
    CHECK_EQ(n == 0, count == 0);

    for (uint32_t i = 0; i < n; i++)
        CHECK_EQ(m->step(), claimed);
    uint32_t served = 0;
    for (uint32_t l = 0; l < levels; l++) {
        for (uint32_t t = 0; t < tenants; t++)
            CHECK_EQ(claims[l][t], m->claims[l][t]);
        served |= m->at_level[l] ? 1u << l : 0;
        expect.turn[l] = m->turn[l];
        CHECK_EQ(s->turn[l].tenant, m->turn[l].tenant);
        CHECK_EQ(s->turn[l].used, m->turn[l].used);
        CHECK_EQ(tg_levels_overtaken(s->levels, l), tg_levels_overtaken(m->word, l));
    }
    // How many runs of urgent claims ended shows the order between levels; whether one goes on does not.
    bool ordered = (served & (served - 1)) == 0;
    CHECK_EQ(s->levels & TG_LEVELS_URGENT_BIT, m->word & TG_LEVELS_URGENT_BIT);
    CHECK(!ordered || s->levels == m->word);
    expect.levels = s->levels;
    uint32_t by_level = served > 3 ? 0 : before.urgent + n;
    CHECK(s->urgent == m->urgent || (!ordered && s->urgent == by_level));
    expect.urgent = s->urgent;
    CHECK(m->worst <= TG_OVERTAKING_BOUND);

    memcpy(expect.quota, m->quota, sizeof(expect.quota));
    expect.allowed = m->allowed;
    for (uint32_t t = 0; t < tenants; t++) {
        uint32_t now = m->quota[t] != before.quota[t] ? m->quota[t] : quota_words[t];
        CHECK_EQ(s->quota[t], m->quota[t]);
        CHECK_EQ(control[TG_CONTROL_TENANT_QUOTA_BASE + t], now);
        CHECK_EQ(mirror[TG_CONTROL_TENANT_QUOTA_BASE + t], now);
        tally->quotas += now != quota_words[t];
    }
    CHECK_EQ(s->allowed, m->allowed);
    // Nothing else has changed.
    CHECK(memcmp(&expect, s, sizeof(expect)) == 0);

    Model ahead = *m;
    Step step = n == 0 ? ahead.step() : claimed;
    // No worker is idle while something is to be claimed. (Sources of a tenant take turns.)
    if (!many && n == 0 && before.idle_count) {
        bool host = false;
        for (uint32_t l = 0; l < levels; l++)
            host = host || (m->host[l] & m->allowed) != 0;
        CHECK(step != claimed || host);
    }
    tally->rounds++;
    tally->claims += n;
    tally->nothing += n == 0;
    tally->hosts += step == of_the_host;
    tally->unknown += step == of_unknown;
    tally->cut += n && count == before.idle_count;
    tally->mixed += n && (lanes & warps);
    tally->alone += many && n && ordered;
    tally->several += many && !ordered;
    tally->cycles += many && !ordered && n > 12u * TG_STARVATION_THRESHOLD;
    for (uint32_t l = 0; l < levels; l++)
        tally->emptied += many && !ordered && m->at_level[l] &&
                          ((s->born_ready[0][l] | s->born_ready[1][l]) & s->allowed) == 0;
    return n;
}

// ---- What it is tried on. ----

struct Style {
    uint32_t where, whose[levels], shapes, sizes, workers, quotas, hosts, others;
};

uint32_t some_of(uint32_t n)
{
    uint32_t all = (n == 32 ? 0 : 1u << n) - 1u;
    switch (below(5)) {
    case 0:
        return 1u << below(n);
    case 1:
        return 1u << below(n) | 1u << below(n);
    case 2:
        return all;
    default:
        uint32_t mask = below(1u << 30) & all;
        return mask ? mask : 1;
    }
}

uint32_t some_size(uint32_t sizes, bool first)
{
    static const uint32_t edges[] = {0,  1,  2,   31,  32,  33,  62,  63,  64,  65,  66,
                                     95, 96, 127, 128, 129, 191, 192, 193, 256, 1024};
    switch (sizes) {
    case 0:
        return edges[below(sizeof(edges) / sizeof(edges[0]))];
    case 1:
        return below(20);
    case 2:
        return below(200);
    case 3:
        return 64 * below(40);
    case 4: // what a turn of the levels takes of one, or nearly
        return one_in(2) ? 1 + below(3) : TG_STARVATION_THRESHOLD * (1 + below(3)) - below(2);
    case 5: // a level that waits behind another runs out
        return first ? 2000 + below(1000) : 1 + below(8);
    default:
        return one_in(2) ? 20 + below(5000) : below(5000) * below(20);
    }
}

void fill(const Style *y, uint32_t one_in_so_many)
{
    struct tg_shared *s = &this_state;
    for (uint32_t l = 0; l < levels; l++) {
        for (uint32_t t = 0; t < tenants; t++) {
            if (!(y->where >> l & 1u) || !(y->whose[l] >> t & 1u) || !one_in(one_in_so_many))
                continue;
            for (uint32_t shape = 0; shape < TG_BORN_SHAPES; shape++) {
                bool takes = y->shapes < 2    ? shape == y->shapes
                             : y->shapes == 2 ? shape == (l ^ y->whose[0]) % 2
                             : y->shapes == 3 ? shape == t % 2
                                              : !one_in(3);
                uint32_t ring = tg_born_ring(l, t, shape);
                uint32_t size = takes ? some_size(y->sizes, l == tg_levels_first(y->where)) : 0;
                if (size == 0 || ring_left(s, ring) > 100000)
                    continue;
                s->born_tail[ring] += size;
                s->born_ready[shape][l] |= 1u << t;
            }
        }
    }
}

void around(const Style *y)
{
    struct tg_shared *s = &this_state;
    static const uint32_t range[] = {3, 12, 40, 150, most_workers};
    s->idle_count = one_in(50) ? 0 : 1 + below(range[y->workers]);
    for (uint32_t i = 0; i < most_workers; i++) {
        uint32_t with = below(i + 1);
        s->idle[i] = s->idle[with];
        s->idle[with] = static_cast<uint16_t>(i);
    }
    for (uint32_t l = 0; l < levels; l++) {
        s->ready[l] = y->hosts == 0 && one_in(3) ? 1u << below(tenants) : 0;
        s->stalled[l] = one_in(2) ? s->ready[l] & below(1u << 30) : 0;
    }
    s->more = y->hosts == 1 ? below(32) : 0;
    if (y->others == 0)
        s->allowed = below(1u << 30) & TG_TENANTS_ALL;
    for (uint32_t t = 0; t < tenants; t++)
        if (s->quota[t] == 0)
            s->allowed &= ~(1u << t);
}

// A state that earlier decisions can leave.
void begin(const Style *y)
{
    struct tg_shared *s = &this_state;
    memset(s, 0, sizeof(*s));
    for (uint32_t i = below(200); i > 0; i--) {
        uint32_t work = one_in(4) ? 1 + below(31) : y->where;
        s->levels = tg_levels_claimed(s->levels, work, tg_levels_choose(s->levels, work));
    }
    s->urgent = s->levels & TG_LEVELS_URGENT_BIT ? 1 + below(1000) : 0;
    s->flights = below(1000);
    s->allowed = TG_TENANTS_ALL;
    for (uint32_t l = 0; l < levels; l++) {
        s->turn[l].tenant = one_in(2) ? tg_levels_first(y->whose[l]) : below(tenants);
        s->turn[l].used = one_in(3)   ? TG_TENANT_FAIRNESS_THRESHOLD
                          : one_in(4) ? 0
                                      : below(TG_TENANT_FAIRNESS_THRESHOLD + 1);
    }
    for (uint32_t t = 0; t < tenants; t++) {
        bool finite = y->quotas == 0 ? one_in(2) : y->quotas == 1 && t < 3;
        s->quota[t] = finite ? 1 + below(200) : TG_TENANT_QUOTA_UNLIMITED;
        control[TG_CONTROL_TENANT_QUOTA_BASE + t] = mirror[TG_CONTROL_TENANT_QUOTA_BASE + t] = s->quota[t];
    }
    for (uint32_t ring = 0; ring < TG_BORN_RINGS; ring++)
        s->born_head[ring] = s->born_tail[ring] =
            one_in(2) ? UINT32_MAX - below(300) : static_cast<uint32_t>(check_random(&seed));
    for (uint32_t q = 0; q < TG_DEVICE_QUEUES; q++)
        s->source[q] = static_cast<uint8_t>(below(TG_SOURCES));
    for (uint32_t i = 0; i < most_workers; i++) {
        s->idle[i] = static_cast<uint16_t>(i);
        s->seq_born[i] = static_cast<uint8_t>(below(255));
    }
}

Style some_style(uint32_t sizes)
{
    Style y = {};
    y.where = some_of(levels);
    for (uint32_t &mask : y.whose)
        mask = some_of(tenants);
    y.shapes = below(8) % 5;
    y.sizes = sizes;
    y.workers = below(5);
    y.quotas = below(12);
    y.hosts = below(12);
    y.others = below(6);
    if (y.sizes == 5) {
        for (uint32_t &mask : y.whose)
            mask = 1u << below(tenants);
        y.shapes %= 3;
        y.workers = 2 + below(3);
    }
    return y;
}

void set_up()
{
    this_params.tasks = tasks;
    this_params.control = control;
    this_params.mirror = mirror;
    this_params.control_words = words;
    this_params.workers = most_workers;
    static struct tg_born cell;
    this_params.born = &cell; // nobody looks into it here
}

Tally seen;

// ---- The cases. ----

void a_round_is_so_many_single_decisions()
{
    static Model m;
    seen = {};
    for (uint32_t history = 0; history < 2500; history++) {
        Style y = some_style(below(7));
        begin(&y);
        memset(&m, 0, sizeof(m));
        fill(&y, 1);
        for (uint32_t rounds = 1 + below(6); rounds > 0; rounds--) {
            around(&y);
            if (one_in(2) || try_round(&m, true, &seen) == 0)
                try_round(&m, false, &seen);
            fill(&y, 3);
        }
    }
    fprintf(stderr, "  %u rounds, %u claims; at once: of one level %u, of several %u, long %u, emptied %u\n",
            seen.rounds, seen.claims, seen.alone, seen.several, seen.cycles, seen.emptied);
    fprintf(stderr, "  nothing %u, cut %u, mixed %u, quotas %u, next: the host's %u, unknown %u\n",
            seen.nothing, seen.cut, seen.mixed, seen.quotas, seen.hosts, seen.unknown);
    CHECK(seen.alone > 200 && seen.several > 200 && seen.cycles > 40 && seen.emptied > 10);
    CHECK(seen.nothing > 100 && seen.cut > 300 && seen.mixed > 300 && seen.quotas > 300);
    CHECK(seen.hosts > 10 && seen.unknown > 10);
}

// The same while the scout sees that rings grow: what was not seen yet is claimed another time.
void rings_grow_meanwhile()
{
    static Model m;
    struct tg_shared *s = &this_state;
    seen = {};
    for (uint32_t history = 0; history < 800; history++) {
        Style y = some_style(one_in(3) ? below(7) : 5);
        begin(&y);
        memset(&m, 0, sizeof(m));
        fill(&y, 1);
        for (uint32_t rounds = 1 + below(4); rounds > 0; rounds--) {
            around(&y);
            try_round(&m, one_in(2), &seen, true);
            for (uint32_t ring = 0; ring < TG_BORN_RINGS; ring++) {
                uint32_t q = ring / TG_BORN_SHAPES;
                if (ring_left(s, ring))
                    s->born_ready[ring % TG_BORN_SHAPES][q / tenants] |= 1u << q % tenants;
            }
        }
    }
    fprintf(stderr, "  %u rounds, %u claims; at once: of one level %u, of several %u\n", seen.rounds,
            seen.claims, seen.alone, seen.several);
    CHECK(seen.alone > 30 && seen.several > 30);
}

// All that may be claimed is, round after round, until the workers or the items have gone.
void nothing_stays_while_workers_are_free()
{
    static Model m;
    seen = {};
    for (uint32_t history = 0; history < 400; history++) {
        Style y = some_style(below(6));
        y.hosts = 9;
        begin(&y);
        memset(&m, 0, sizeof(m));
        fill(&y, 1);
        around(&y);
        while (this_state.idle_count && try_round(&m, false, &seen))
            ;
        for (uint32_t l = 0; l < levels && this_state.idle_count; l++)
            for (uint32_t shape = 0; shape < TG_BORN_SHAPES; shape++)
                CHECK_EQ(this_state.born_ready[shape][l] & this_state.allowed, 0);
    }
}

void e3_holds_over_rounds_while_bodies_publish()
{
    static Model m;
    for (uint32_t flood = 0; flood < 12; flood++) {
        seen = {};
        Style y = some_style(flood % 2 ? 1 : 6);
        y.where = flood < 4 ? 31 : (1u << below(levels)) | (1u << below(levels)) | 16;
        y.shapes = flood % 3;
        y.workers = 2 + flood % 3;
        y.quotas = 9;
        y.hosts = 9;
        y.others = 9;
        begin(&y);
        memset(&m, 0, sizeof(m));
        for (uint32_t rounds = 0; rounds < 150; rounds++) {
            fill(&y, 2);
            around(&y);
            try_round(&m, false, &seen);
        }
        CHECK(m.worst <= TG_OVERTAKING_BOUND);
        CHECK(m.worst >= TG_STARVATION_THRESHOLD || (y.where & (y.where - 1)) == 0);
        CHECK(seen.claims > 1000);
    }
}

} // namespace

int main()
{
    set_up();
    RUN(a_round_is_so_many_single_decisions);
    RUN(rings_grow_meanwhile);
    RUN(nothing_stays_while_workers_are_free);
    RUN(e3_holds_over_rounds_while_bodies_publish);
    return 0;
}
