/* SPDX-License-Identifier: Apache-2.0
 *
 * Laying and counting the free slots (free.h). Submitters and workers do not come by here.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "engine/internal.h"

#define LOOKS 1000u

_Thread_local uint32_t tg_submitter_number;

uint32_t tg_submitter_first(void)
{
    static uint32_t known; /* U1 relaxed: a number a thread, whatever it is */
    return tg_submitter_number = tg_add_relaxed_u32(&known, 1) + 1;
}

void tg_free_drop(struct tg_engine *e)
{
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        free(e->level[l].free);
        e->level[l].free = NULL;
    }
    if (e->free_memory)
        munmap(e->free_memory, e->free_bytes);
    e->free_memory = NULL;
}

static uint32_t shift_for(uint64_t cells)
{
    uint32_t shift = 1;
    while ((UINT64_C(1) << shift) < cells)
        shift++;
    return shift;
}

int tg_free_lay(struct tg_engine *e, uint32_t block_shift)
{
    const uint32_t shards = e->shards;
    e->block_shift = block_shift;
    /* A level has at most queue_cells slots in a row: that many whole blocks, and one begun. */
    uint32_t blocks = (e->queue_cells >> block_shift) / shards + 2;
    uint32_t shift = shift_for((uint64_t)blocks << block_shift);
    e->free_bytes = (sizeof(uint32_t) << shift) * 2 * shards * TG_PRIORITY_LEVELS;
    /* Zero pages that cost memory only where slots are. */
    void *memory =
        mmap(NULL, e->free_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    uint32_t *cells = e->free_memory = memory;
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++) {
        struct tg_level *lv = &e->level[l];
        lv->free = aligned_alloc(64, shards * sizeof(*lv->free));
        if (!lv->free)
            return -ENOMEM;
        for (uint32_t s = 0; s < shards; s++, cells += UINT64_C(2) << shift) {
            tg_index_init(&lv->free[s].hot, cells, shift, 0);
            tg_index_init(&lv->free[s].cold, cells + (UINT64_C(1) << shift), shift, 0);
        }
        for (uint32_t s = 0; s < lv->own; s++) {
            uint32_t slot = lv->first + s;
            tg_free_push_many(tg_free_of(e, l, slot), &slot, 1);
        }
    }
    return 0;
}

uint64_t tg_free_count(const struct tg_engine *e, uint32_t level)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < e->shards; s++)
        n += tg_index_count(&e->level[level].free[s].hot) + tg_index_count(&e->level[level].free[s].cold);
    return n;
}

bool tg_free_some(const struct tg_engine *e, uint32_t level)
{
    for (uint32_t s = 0; s < e->shards; s++)
        if (tg_free_any(&e->level[level].free[s]))
            return true;
    return false;
}

/* How many slots were ever given back to a level. I7 seq_cst again. */
static uint64_t returned(const struct tg_level *lv, uint32_t shards)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < shards; s++)
        n += tg_load_seqcst_u64(&lv->free[s].hot.tail) + tg_load_seqcst_u64(&lv->free[s].cold.tail);
    return n;
}

/* While nothing comes back a slot can only leave, so a sum that lacks none was true at the first look; one
 * that comes back in between could be counted twice and hide another that is still out. */
static bool level_all_free(const struct tg_engine *e, const struct tg_level *lv)
{
    for (uint32_t look = 0; look < LOOKS; look++) {
        uint64_t before = returned(lv, e->shards), taken = 0;
        for (uint32_t s = 0; s < e->shards; s++)
            taken += tg_load_seqcst_u64(&lv->free[s].hot.head) + tg_load_seqcst_u64(&lv->free[s].cold.head);
        if (before - taken != tg_load_relaxed_u32(&lv->own)) /* P0 */
            return false;
        if (returned(lv, e->shards) == before)
            return true;
    }
    return false;
}

bool tg_free_all(const struct tg_engine *e)
{
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        if (!level_all_free(e, &e->level[l]))
            return false;
    return true;
}
