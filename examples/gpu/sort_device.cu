/* SPDX-License-Identifier: Apache-2.0
 * The opcode of sort.cu, compiled together with the engine's kernel: one step of quicksort by a warp. It
 * divides its part of the lines by one of them, and publishes an item for what is less and one for what is
 * greater. */
#include <errno.h>

#include <tidegate/device.cuh>

#include "sort.h"

#define WARP 0xFFFFFFFFu

struct part {
    uint32_t begin, end, from; /* the array in which it lies */
};

TG_DEVICE struct line line_of_lane(const struct line *mine, uint32_t lane)
{
    struct line l;
    l.key = __shfl_sync(WARP, mine->key, lane);
    l.begin = __shfl_sync(WARP, mine->begin, lane);
    l.size = __shfl_sync(WARP, mine->size, lane);
    return l;
}

/* At most 32 lines, one a lane: each counts how many come before it. */
TG_DEVICE void sort_few(const struct text *t, const struct part *p, uint32_t lane)
{
    uint32_t n = p->end - p->begin, place = 0;
    struct line mine = {0, 0, 0};
    if (lane < n)
        mine = t->lines[p->from][p->begin + lane];
    for (uint32_t i = 0; i < n; i++) {
        struct line other = line_of_lane(&mine, i);
        if (lane < n && lane != i) {
            int c = compare_lines(t->bytes, &other, &mine);
            place += c < 0 || (c == 0 && i < lane);
        }
    }
    if (lane < n)
        t->lines[0][p->begin + place] = mine;
}

/* The middle one of three lines anywhere in the part. */
TG_DEVICE struct line pivot_of(const struct text *t, const struct part *p)
{
    struct line l[3];
    uint32_t x = p->begin * 2654435761u + p->end;
    for (int i = 0; i < 3; i++) {
        x = x * 1664525u + 1013904223u;
        l[i] = t->lines[p->from][p->begin + (x >> 8) % (p->end - p->begin)];
    }
    bool less_01 = compare_lines(t->bytes, &l[0], &l[1]) < 0;
    bool less_12 = compare_lines(t->bytes, &l[1], &l[2]) < 0;
    bool less_02 = compare_lines(t->bytes, &l[0], &l[2]) < 0;
    return less_01 == less_12 ? l[1] : less_01 == less_02 ? l[2] : l[0];
}

/* Divides a part, into the other array, by a line of it: less, equal (which is sorted), greater. */
TG_DEVICE void divide(const struct text *t, const struct part *p, uint32_t lane, struct part *less,
                      struct part *greater)
{
    const struct line *from = t->lines[p->from];
    struct line *to = t->lines[1 - p->from], pivot = pivot_of(t, p);
    uint32_t count[3] = {0, 0, 0}, at[3], below = (1u << lane) - 1u;
    /* Twice over all lines: where each of the three begins, then each line to its place. */
    for (int pass = 0; pass < 2; pass++) {
        at[0] = p->begin;
        at[1] = at[0] + count[0];
        at[2] = at[1] + count[1];
        for (uint32_t i = p->begin; i < p->end; i += 32) {
            struct line mine = {0, 0, 0};
            int side = 3;
            if (i + lane < p->end) {
                mine = from[i + lane];
                int c = compare_lines(t->bytes, &mine, &pivot);
                side = c < 0 ? 0 : c == 0 ? 1 : 2;
            }
            for (int s = 0; s < 3; s++) {
                uint32_t lanes = __ballot_sync(WARP, side == s);
                if (pass == 1 && side == s)
                    to[at[s] + __popc(lanes & below)] = mine;
                count[s] += pass == 0 ? __popc(lanes) : 0;
                at[s] += __popc(lanes);
            }
        }
    }
    __syncwarp();
    less->begin = p->begin;
    less->end = p->begin + count[0];
    greater->begin = less->end + count[1];
    greater->end = p->end;
    less->from = greater->from = 1 - p->from;
    for (uint32_t i = less->end + lane; i < greater->begin && p->from == 0; i += 32)
        t->lines[0][i] = to[i];
}

/* True: it is an item now, or there is nothing to do. What the lanes wrote is seen by who runs it. */
TG_DEVICE bool publish(struct tg_device_op *op, const struct part *p, int *error)
{
    const uint32_t args[5] = {op->args[0], op->args[1], p->begin, p->end, p->from};
    int r = 0;
    if (p->begin == p->end)
        return true;
    if (op->lane == 0)
        r = tg_device_submit(op, p->end - p->begin > LARGE ? TG_PRIORITY_HIGH : TG_PRIORITY_NORMAL, OP_SORT,
                             args, 5);
    r = __shfl_sync(WARP, r, 0);
    if (r && r != -EAGAIN)
        *error = r;
    return r == 0;
}

/* What finds no room in the queue this item does itself, the smaller part first, so few wait here. */
TG_DEVICE int sort_part(struct tg_device_op *op)
{
    const struct text *t = (const struct text *)((uint64_t)op->args[1] << 32 | op->args[0]);
    struct part left[32];
    uint32_t n = 1;
    int error = 0;
    left[0].begin = op->args[2];
    left[0].end = op->args[3];
    left[0].from = op->args[4];
    while (n > 0 && !error) {
        struct part p = left[--n], less, greater;
        if (p.end - p.begin <= 32) {
            sort_few(t, &p, op->lane);
            __syncwarp();
            continue;
        }
        divide(t, &p, op->lane, &less, &greater);
        __syncwarp();
        bool less_is_large = less.end - less.begin > greater.end - greater.begin;
        const struct part *large = less_is_large ? &less : &greater,
                          *small = less_is_large ? &greater : &less;
        if (!publish(op, large, &error))
            left[n++] = *large;
        if (!publish(op, small, &error))
            left[n++] = *small;
    }
    return error ? error : TG_OP_FINISHED;
}

TG_DEVICE int tg_device_run(struct tg_device_op *op)
{
    return op->opcode == OP_SORT ? sort_part(op) : TG_DEVICE_UNKNOWN;
}
