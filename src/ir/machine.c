/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter: lanes of one program over shared words, one shared step at a time. Which lane takes the
 * next step is the caller's choice, a seed's, or every choice in turn (explore.c). It checks every index (E6)
 * and knows nothing of queues.
 *
 * All lanes run on the caller's thread, so a step is atomic by itself and memory orders mean nothing; unless
 * others are at the words too (concurrent), then each step is one atomic operation. */
#include <errno.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "ir/machine.h"

#define MAX_LANES 1024u

int tg_ir_machine_open(const struct tg_ir *ir, struct tg_ir_node root,
                       const struct tg_ir_machine_options *options, struct tg_ir_machine **ret_machine)
{
    uint64_t lanes = options->lanes ? options->lanes : 1, groups = options->groups ? options->groups : 1;
    if (lanes * groups > MAX_LANES || !options->memory)
        return -EINVAL;
    if (tg_ir_validate(ir, root, TG_IR_UNRESTRICTED, NULL) != 0)
        return -EINVAL;
    struct tg_ir_machine *m = calloc(1, sizeof(*m));
    if (!m)
        return -ENOMEM;
    m->memory = *options->memory;
    m->observer = options->observer;
    m->context = options->context;
    m->concurrent = options->concurrent;
    m->lanes = (uint32_t)lanes;
    m->groups = (uint32_t)groups;
    m->lane_count = (uint32_t)(lanes * groups);
    /* observable is the end of control. */
    uint32_t words = m->memory.words[TG_IR_CONTROL] ? m->memory.count[TG_IR_CONTROL] : 0;
    uint32_t skip = words < TG_CONTROL_OBSERVABLE_BASE ? words : TG_CONTROL_OBSERVABLE_BASE;
    for (uint32_t i = 0; i < TG_IR_MAX_BUFFERS; i++)
        if (!m->memory.words[i])
            m->memory.count[i] = 0;
    m->memory.words[TG_IR_OBSERVABLE] = words ? m->memory.words[TG_IR_CONTROL] + skip : NULL;
    m->memory.count[TG_IR_OBSERVABLE] = words - skip;
    int r = tg_ir_assemble(m, ir, root.id);
    if (r == 0) {
        m->stride = m->registers + TG_IR_PLACE_COUNT + m->constant_count + m->private_words + TG_IR_L_WORDS;
        m->lane = calloc(m->lane_count, (size_t)m->stride * sizeof(uint32_t));
        r = m->lane ? 0 : -ENOMEM;
    }
    if (r != 0) {
        tg_ir_machine_close(m);
        return r;
    }
    tg_ir_machine_reset(m);
    *ret_machine = m;
    return 0;
}

void tg_ir_machine_close(struct tg_ir_machine *m)
{
    if (!m)
        return;
    free(m->code);
    free(m->constant);
    free(m->lane);
    free(m);
}

void tg_ir_machine_reset(struct tg_ir_machine *m)
{
    memset(m->lane, 0, (size_t)m->lane_count * m->stride * sizeof(uint32_t));
    for (uint32_t i = 0; i < m->lane_count; i++) {
        uint32_t *row = tg_ir_lane(m, i);
        uint32_t *place = row + m->registers;
        place[TG_IR_LANE] = i % m->lanes;
        place[TG_IR_LANES] = m->lanes;
        place[TG_IR_GROUP] = i / m->lanes;
        place[TG_IR_GROUPS] = m->groups;
        if (m->constant_count)
            memcpy(place + TG_IR_PLACE_COUNT, m->constant, m->constant_count * sizeof(uint32_t));
        tg_ir_lane_state(m, row)[TG_IR_L_DIRTY] = 1;
    }
}

static uint32_t compute(uint32_t op, uint32_t a, uint32_t b)
{
    switch (op) {
    case TG_IR_ADD:
        return a + b;
    case TG_IR_SUB:
        return a - b;
    case TG_IR_MUL:
        return (uint32_t)((uint64_t)a * b);
    case TG_IR_DIV:
        return b ? a / b : 0;
    case TG_IR_REM:
        return b ? a % b : 0;
    case TG_IR_MIN:
        return a < b ? a : b;
    case TG_IR_MAX:
        return a > b ? a : b;
    case TG_IR_BIT_AND:
        return a & b;
    case TG_IR_BIT_OR:
        return a | b;
    case TG_IR_BIT_XOR:
        return a ^ b;
    case TG_IR_SHL:
        return b < 32 ? a << b : 0;
    case TG_IR_SHR:
        return b < 32 ? a >> b : 0;
    case TG_IR_EQ:
        return a == b;
    case TG_IR_NE:
        return a != b;
    case TG_IR_LT:
        return a < b;
    case TG_IR_LE:
        return a <= b;
    case TG_IR_GT:
        return a > b;
    case TG_IR_GE:
        return a >= b;
    case TG_IR_C_NOT:
        return a == 0;
    case TG_IR_C_BIT_NOT:
        return ~a;
    default: /* TG_IR_C_CTZ */
        return a ? (uint32_t)__builtin_ctz(a) : 32;
    }
}

/* One code that is no shared step; returns where to go on. */
static uint32_t local(uint32_t *r, uint32_t *own, const struct tg_ir_code *c, uint32_t pc)
{
    switch (c->op) {
    case TG_IR_C_MOVE:
        r[c->d] = r[c->a];
        return pc + 1;
    case TG_IR_C_CLEAR:
        memset(r + c->d, 0, c->c * sizeof(*r));
        return pc + 1;
    case TG_IR_C_JUMP:
        return c->c;
    case TG_IR_C_JUMP_ZERO:
        return r[c->a] == 0 ? c->c : pc + 1;
    case TG_IR_C_LOOP:
        if (r[c->d] >= r[c->a])
            return c->c;
        return r[c->a] - r[c->d] > r[c->b] ? c->trap : pc + 1;
    case TG_IR_C_NEXT:
        return ++r[c->d] < r[c->a] ? c->c : pc + 1;
    case TG_IR_C_OWN_LOAD:
        if (r[c->a] >= c->b)
            return c->trap;
        r[c->d] = own[c->c + r[c->a]];
        return pc + 1;
    case TG_IR_C_OWN_STORE:
        if (r[c->a] >= c->b)
            return c->trap;
        own[c->c + r[c->a]] = r[c->d];
        return pc + 1;
    default:
        r[c->d] = compute(c->op, r[c->a], r[c->b]);
        return pc + 1;
    }
}

const struct tg_ir_code *tg_ir_run_local(struct tg_ir_machine *m, uint32_t lane)
{
    uint32_t *row = tg_ir_lane(m, lane);
    uint32_t *own = tg_ir_lane_own(m, row);
    uint32_t *state = own + m->private_words;
    uint32_t pc = state[TG_IR_L_PC];
    if (state[TG_IR_L_STATE] == TG_IR_ENDED)
        return NULL;
    for (uint32_t n = 0; n < TG_IR_LOCAL_STEPS; n++) {
        const struct tg_ir_code *c = &m->code[pc];
        if (c->op >= TG_IR_C_PAUSE) {
            m->steps += n;
            state[TG_IR_L_PC] = pc;
            if (c->op != TG_IR_C_END)
                return c;
            m->steps++;
            state[TG_IR_L_STATE] = TG_IR_ENDED;
            state[TG_IR_L_VALUE] = row[c->a];
            return NULL;
        }
        pc = local(row, own, c, pc);
    }
    m->steps += TG_IR_LOCAL_STEPS;
    state[TG_IR_L_PC] = pc;
    return NULL;
}

bool tg_ir_step_place(const struct tg_ir_machine *m, const uint32_t *row, const struct tg_ir_code *c,
                      struct tg_ir_word *ret)
{
    uint32_t index = row[c->a];
    if (index >= m->memory.count[c->buffer])
        return false;
    bool observable = c->buffer == TG_IR_OBSERVABLE;
    ret->buffer = observable ? TG_IR_CONTROL : c->buffer;
    ret->index = observable ? index + TG_CONTROL_OBSERVABLE_BASE : index;
    return true;
}

/* The word as it is afterwards. */
static uint32_t effect(const uint32_t *row, const struct tg_ir_code *c, uint32_t before)
{
    switch (c->op) {
    case TG_IR_C_STORE:
    case TG_IR_C_EXCHANGE:
        return row[c->b];
    case TG_IR_C_ADD:
        return before + row[c->b];
    case TG_IR_C_CAS:
        return before == row[c->b] ? row[c->c] : before;
    case TG_IR_C_AND:
        return before & row[c->b];
    case TG_IR_C_OR:
        return before | row[c->b];
    default:
        return before;
    }
}

/* The step on its word; returns what was found. */
static uint32_t change(const struct tg_ir_machine *m, const uint32_t *row, const struct tg_ir_code *c,
                       uint32_t *word, uint32_t *ret_after)
{
    if (!m->concurrent) {
        uint32_t before = *word;
        *ret_after = effect(row, c, before);
        if (*ret_after != before)
            *word = *ret_after;
        return before;
    }
    /* M1 acq_rel, whatever order the node names: pairs with whoever else is at the words (S1 to S6 in
     * ring/slot.h, O1 and O2 in engine/ops.h, lanes of other machines). */
    uint32_t before = tg_load_acquire_u32(word);
    do
        *ret_after = effect(row, c, before);
    while (c->op != TG_IR_C_LOAD && !tg_cas_acqrel_u32(word, &before, *ret_after));
    return before;
}

int tg_ir_run_shared(struct tg_ir_machine *m, uint32_t lane, bool *ret_changed)
{
    uint32_t *row = tg_ir_lane(m, lane);
    uint32_t *state = tg_ir_lane_state(m, row);
    const struct tg_ir_code *c = &m->code[state[TG_IR_L_PC]];
    struct tg_ir_word at;
    *ret_changed = false;
    m->steps++;
    if (!tg_ir_step_place(m, row, c, &at)) {
        state[TG_IR_L_PC] = c->trap;
        return 0;
    }
    uint32_t *word = &m->memory.words[at.buffer][at.index];
    uint32_t after;
    uint32_t before = change(m, row, c, word, &after);
    *ret_changed = after != before;
    if (c->op != TG_IR_C_STORE)
        row[c->d] = c->blind ? 0 : before;
    state[TG_IR_L_PC]++;
    if (!m->observer)
        return 0;
    struct tg_ir_step step = {.lane = lane,
                              .node = c->node,
                              .buffer = at.buffer,
                              .index = at.index,
                              .order = c->order,
                              .before = before,
                              .after = after,
                              .read = c->op != TG_IR_C_STORE,
                              .wrote =
                                  c->op != TG_IR_C_LOAD && (c->op != TG_IR_C_CAS || before == row[c->b])};
    return m->observer(m->context, &step);
}

int tg_ir_machine_step(struct tg_ir_machine *m, uint32_t lane)
{
    if (lane >= m->lane_count)
        return 0;
    uint32_t *state = tg_ir_lane_state(m, tg_ir_lane(m, lane));
    const struct tg_ir_code *c = tg_ir_run_local(m, lane);
    bool changed;
    int r = 0;
    if (c && c->op == TG_IR_C_PAUSE) {
        m->steps++;
        state[TG_IR_L_PC]++;
    } else if (c) {
        r = tg_ir_run_shared(m, lane, &changed);
    }
    if (r < 0)
        return r;
    return state[TG_IR_L_STATE] == TG_IR_ENDED ? 0 : 1;
}

static uint64_t next_random(uint64_t *seed)
{
    uint64_t x = *seed += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

int tg_ir_machine_run(struct tg_ir_machine *m, uint64_t seed, uint64_t max_steps)
{
    uint32_t *live = malloc(m->lane_count * sizeof(*live));
    uint32_t count = 0;
    int r = 0;
    if (!live)
        return -ENOMEM;
    for (uint32_t i = 0; i < m->lane_count; i++)
        if (tg_ir_lane_state(m, tg_ir_lane(m, i))[TG_IR_L_STATE] != TG_IR_ENDED)
            live[count++] = i;
    for (uint64_t n = 0; count > 0 && r == 0; n++) {
        if (n == max_steps) {
            r = -ETIME;
            break;
        }
        uint32_t k = count == 1 ? 0 : (uint32_t)((next_random(&seed) >> 32) * count >> 32);
        r = tg_ir_machine_step(m, live[k]);
        if (r == 0)
            live[k] = live[--count];
        else if (r == 1)
            r = 0;
    }
    free(live);
    return r;
}

int tg_ir_machine_value(const struct tg_ir_machine *m, uint32_t lane, uint32_t *ret_value)
{
    if (lane >= m->lane_count)
        return -EINVAL;
    const uint32_t *state = tg_ir_lane_state(m, tg_ir_lane(m, lane));
    if (state[TG_IR_L_STATE] != TG_IR_ENDED)
        return -EBUSY;
    *ret_value = state[TG_IR_L_VALUE];
    return 0;
}

uint64_t tg_ir_machine_steps(const struct tg_ir_machine *m)
{
    return m->steps;
}
