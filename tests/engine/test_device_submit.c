/* SPDX-License-Identifier: Apache-2.0
 * Items that items of a device publish (tg_device_submit): each runs once, is what was published, and is
 * counted and waited for like others. Which one is next is in test_device_submit_rules.c. Skips (77) without
 * a device; TG_TEST_BACKEND names it. */
#include "device_submit.h"
#include "ring/slot.h"

/* ---- E1: each runs once ---------------------------------------------------------------------------------
 */

static void e1_a_chain_runs_to_its_end(void)
{
    struct tg_engine *e = open_plain();
    const uint32_t n = test_emulated() ? 300 : 20000;
    const uint32_t same[3] = {n, 3, 0}, around[3] = {n, 4, 2};
    host_submits(e, 5, TG_PRIORITY_LOW, OP_CHAIN, same, 3);
    struct tg_engine_stats s = settled(e);
    CHECK_EQ(observable(e, 3), n + 1);
    CHECK(s.done == n + 1 && s.device_submitted == n);
    CHECK(s.level[TG_PRIORITY_LOW].done == n + 1 && s.tenant[5].done == n + 1);
    CHECK_EQ(executions_of(e, OP_CHAIN), n + 1);
    host_submits(e, 28, TG_PRIORITY_CRITICAL, OP_CHAIN, around, 3);
    s = settled(e);
    CHECK_EQ(observable(e, 4), n + 1);
    CHECK(s.tenant[28].done == n + 1 && s.device_submitted == 2 * n);
    for (uint32_t l = 0; l < TG_PRIORITY_LEVELS; l++)
        CHECK(s.level[l].done - (l == TG_PRIORITY_LOW ? n + 1 : 0) >= n / 5);
    test_close(e);
}

/* So many chains that their items and successors do not fit: the queue is full again and again, and a place
 * is written as soon as the item that was there is out. */
static void e1_chains_that_fill_their_queue_go_on(void)
{
    enum { CHAINS = 120 };
    struct tg_engine_options o = options(1000);
    const uint32_t n = test_emulated() ? 50 : 5000;
    o.device_items = 128;
    struct tg_engine *e = open_with(&o);
    for (uint32_t i = 0; i < CHAINS; i++)
        host_submits(e, 5, 2, OP_CHAIN, (uint32_t[]){n, 3, 0}, 3);
    struct tg_engine_stats s = settled(e);
    fprintf(stderr, "  found no room %" PRIu64 " times\n", s.requeues);
    CHECK_EQ(observable(e, 3), CHAINS * (n + 1));
    CHECK(s.done == CHAINS * (n + 1) && s.device_submitted == CHAINS * n);
    test_close(e);
}

/* Every node of a binary tree, of two tenants at once. room: of each queue; a node that finds none is run by
 * its parent. */
static void trees(uint32_t room, uint32_t step)
{
    struct tg_engine_options o = options(1000);
    const uint32_t depth = test_emulated() ? 7 : 12, nodes = (2u << depth) - 1;
    const uint32_t base[2] = {0, 2u << depth};
    o.device_items = room;
    o.observables = 4u << depth;
    struct tg_engine *e = open_with(&o);
    for (uint32_t i = 0; i < 2; i++)
        host_submits(e, 7 + i, TG_PRIORITY_HIGH, OP_TREE, (uint32_t[]){1, depth, base[i], step}, 4);
    struct tg_engine_stats s = settled(e);
    uint32_t by_parents = 0;
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t node = 1; node <= nodes; node++)
            CHECK_EQ(observable(e, base[i] + node), 1);
        by_parents += observable(e, base[i]);
    }
    CHECK_EQ(s.done + by_parents, 2 * nodes);
    CHECK_EQ(s.device_submitted, s.done - 2);
    if (room > nodes)
        CHECK_EQ(by_parents, 0);
    test_close(e);
}

static void e1_every_node_of_a_tree_runs_once(void)
{
    const uint32_t ample = test_emulated() ? 1024 : 16384;
    trees(ample, 0);
    trees(ample, 1);
    trees(2, 0);
    trees(16, 3);
}

/* Many at once publish more than there is room for, at all levels, in queues that go round and round. */
static void e1_nothing_is_lost_where_there_is_no_room(void)
{
    enum { FANS = 20 };
    struct tg_engine_options o = options(1000);
    const uint32_t each = test_emulated() ? 40 : 2000;
    uint32_t again = 0;
    o.device_items = 8;
    struct tg_engine *e = open_with(&o);
    for (uint32_t i = 0; i < FANS; i++) {
        const uint32_t args[6] = {i % 5, i % 4 == 3 ? OP_WARP : OP_ADD, each, 2 * i, 200 + i, 1};
        host_submits(e, i % 3, 4 - i % 5, OP_FAN, args, 6);
    }
    struct tg_engine_stats s = settled(e);
    for (uint32_t i = 0; i < FANS; i++) {
        CHECK_EQ(observable(e, 2 * i), each);
        again += observable(e, 2 * i + 1);
        CHECK_EQ(observable(e, 200 + i), each * (i % 4 == 3 ? 32 : 1));
    }
    fprintf(stderr, "  found no room %u times\n", again);
    CHECK(s.device_submitted == FANS * each && s.done == FANS * (each + 1) && s.requeues == again);
    test_close(e);
}

/* Exactly as many as there is room for are taken, and they run when they may. */
static void a_full_queue_says_so(void)
{
    struct tg_engine_options o = options(100);
    o.device_items = 30; /* rounded up to 32 */
    struct tg_engine *e = open_with(&o);
    publish_and_wait(e, 4, 3, OP_ADD, 1000, 20, 1, 2, 10);
    CHECK_EQ(observable(e, 10), 32);
    CHECK(observable(e, 11) == 1 && observable(e, 12) == EAGAIN);
    struct tg_engine_stats s = stats_of(e);
    CHECK(s.device_submitted == 32 && s.device_waiting == 32);
    /* The queues of another tenant have room of their own; so have those of another level and shape. */
    publish_and_wait(e, 5, 3, OP_ADD, 33, 20, 1, 2, 13);
    CHECK(observable(e, 13) == 32 && observable(e, 14) == 1);
    CHECK_EQ(tg_engine_set_tenant(e, 6, 0), 0);
    for (uint32_t i = 0; i < 4; i++) /* at CRITICAL, so they come before what they publish */
        host_submits(e, 6, 0, OP_SUBMIT,
                     (uint32_t[]){3 + i % 2, i < 2 ? OP_ADD : OP_WARP, 2, 33, 16, 21 + i / 2, 1}, 7);
    CHECK_EQ(tg_engine_set_quota(e, 6, 4), 0);
    CHECK_EQ(tg_engine_set_tenant(e, 6, 1), 0);
    for (uint64_t end = tg_clock_mono_ns() + LIMIT; stats_of(e).tenant[6].done < 4;)
        CHECK(tg_clock_mono_ns() < end);
    s = stats_of(e);
    CHECK(s.device_submitted == 6 * 32 && s.device_waiting == 6 * 32);
    for (uint32_t t = 4; t < 7; t++)
        CHECK_EQ(tg_engine_set_quota(e, t, TG_TENANT_QUOTA_UNLIMITED), 0);
    s = settled(e);
    CHECK(observable(e, 16) == 4 * 32 && observable(e, 17) == 4 && observable(e, 18) == EAGAIN);
    CHECK(observable(e, 20) == 64 && observable(e, 21) == 64 && observable(e, 22) == 64 * 32);
    CHECK_EQ(s.device_submitted, 6 * 32);
    test_close(e);
}

/* ---- What an item is ------------------------------------------------------------------------------------
 */

static void arguments_arrive_as_they_were_sent(void)
{
    struct tg_engine *e = open_plain();
    for (uint32_t count = 2; count <= TG_ARGS_PER_SLOT; count++) {
        const uint32_t args[7] = {count % 5, OP_ARGS, count, 20, 8, 5, count};
        host_submits(e, count, 2, OP_SUBMIT, args, 7);
    }
    settled(e);
    CHECK_EQ(observable(e, 5), 11 * 20);
    CHECK_EQ(observable(e, 6), 0);
    test_close(e);
}

static uint32_t error_of(struct tg_engine *e, uint32_t level, uint32_t opcode, uint32_t count)
{
    const uint32_t args[7] = {level, opcode, count, 1, 30, 3, 1};
    struct tg_item t;
    CHECK_EQ(tg_engine_observable_store(e, 32, 0), 0);
    CHECK_EQ(run_ticket(e, 0, OP_SUBMIT, args, 7, &t), 0);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    return observable(e, 32);
}

static void what_cannot_be_published_is_refused(void)
{
    struct tg_engine *e = open_plain();
    CHECK_EQ(error_of(e, 5, OP_ADD, 2), EINVAL);
    CHECK_EQ(error_of(e, UINT32_MAX, OP_ADD, 2), EINVAL);
    CHECK_EQ(error_of(e, 2, OP_ADD, 13), EINVAL);
    CHECK_EQ(error_of(e, 2, OP_ADD, UINT32_MAX), EINVAL);
    CHECK_EQ(error_of(e, 2, TG_OP_BATCH_FENCE, 2), EINVAL);
    CHECK_EQ(error_of(e, 2, TG_OP_PACKED_SLOT, 12), EINVAL);
    CHECK_EQ(error_of(e, 2, 0x150, 2), ENOENT);
    CHECK_EQ(error_of(e, 2, 0x12345, 2), ENOENT);
    CHECK_EQ(error_of(e, 2, OP_BLOCK, 1), ENOTSUP);
    CHECK_EQ(error_of(e, 2, OP_HANDLER, 1), ENOTSUP);
    CHECK_EQ(observable(e, 30), 0);
    CHECK_EQ(error_of(e, 2, OP_ADD, 2), 0);
    CHECK(observable(e, 30) == 1 && observable(e, 3) == 1);
    CHECK_EQ(settled(e).device_submitted, 1);
    test_close(e);
    struct tg_engine_options o = options(100);
    o.device_items = 0;
    e = open_with(&o);
    CHECK_EQ(error_of(e, 2, OP_ADD, 2), ENOTSUP);
    CHECK_EQ(settled(e).device_submitted, 0);
    test_close(e);
    o.device_items = (1u << 20) + 1;
    CHECK_EQ(tg_engine_open(&o, &e), -EINVAL);
    CHECK(strstr(tg_engine_open_reason(), "device_items"));
}

/* Built-in opcodes, and opcodes of a whole warp; by a lane, and by each lane of a warp or a block. */
static void shapes_publish_and_are_published(void)
{
    struct tg_engine *e = open_plain();
    const uint32_t nop[7] = {1, TG_OP_NOP, 0, 50, 40, 0, 0}, warp[7] = {3, OP_WARP, 1, 30, 41, 50, 0},
                   of_warp[7] = {2, OP_ADD, 2, 2, 44, 51, 3}, of_block[7] = {4, OP_ADD, 2, 1, 44, 52, 1},
                   warps[7] = {0, OP_WARP, 1, 1, 44, 53, 0}, odd[7] = {0, OP_ADD, 2, 1, 44, 54, 1};
    host_submits(e, 1, 2, OP_SUBMIT, nop, 7);
    host_submits(e, 2, 2, OP_SUBMIT, warp, 7);
    host_submits(e, 3, 2, OP_SUBMIT_WARP, of_warp, 7);
    host_submits(e, 3, 2, OP_SUBMIT_BLOCK, of_block, 7);
    host_submits(e, 3, 2, OP_SUBMIT_WARP, warps, 7);
    host_submits(e, 3, 2, OP_SUBMIT_ODD, odd, 7);
    struct tg_engine_stats s = settled(e);
    CHECK(observable(e, 40) == 50 && executions_of(e, TG_OP_NOP) == 50);
    CHECK_EQ(observable(e, 50), 30 * 32);
    CHECK_EQ(observable(e, 51), 64 * 3);
    CHECK_EQ(observable(e, 52), 128);
    CHECK_EQ(observable(e, 53), 32 * 32);
    CHECK_EQ(observable(e, 54), 16);
    CHECK_EQ(s.device_submitted, 50 + 30 + 64 + 128 + 32 + 16);
    CHECK_EQ(s.done, s.device_submitted + 6);
    test_close(e);
}

/* The only sign of an item may be the item, of whatever lane. */
static void e1_what_any_lane_publishes_is_found(void)
{
    struct tg_engine *e = open_plain();
    const uint32_t n = test_emulated() ? 400 : 5000;
    for (uint32_t i = 0; i < n; i++) {
        host_submits(e, i % 3, i % 5, OP_SUBMIT_ONE, (uint32_t[]){i % 32, 90}, 2);
        CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
        CHECK_EQ(observable(e, 90), i + 1);
    }
    CHECK_EQ(settled(e).device_submitted, n);
    test_close(e);
}

/* E6: an item is its author's tenant's, whatever a body writes into what it sees of its item. */
static void e6_a_body_publishes_for_its_own_tenant(void)
{
    static const uint32_t others[] = {6, TG_TENANTS, 31, 32 + 6};
    struct tg_engine *e = open_plain();
    for (uint32_t i = 0; i < 4; i++) {
        host_submits(e, 5, i, OP_MASKED, (uint32_t[]){others[i], 20}, 2);
        /* ... and one that a body has published. */
        host_submits(e, 5, i, OP_SUBMIT, (uint32_t[]){i, OP_MASKED, 2, 1, 30, others[i], 21}, 7);
    }
    struct tg_engine_stats s = settled(e);
    CHECK(observable(e, 20) == 4 && observable(e, 21) == 4);
    CHECK(s.device_submitted == 12 && s.faults == 0 && s.tenant[5].done == 20);
    for (uint32_t l = 0; l < 4; l++)
        CHECK_EQ(s.level[l].done, 5);
    test_close(e);
}

/* E6: it faults alone, and the host is told. */
static void e6_a_fault_is_counted_and_told(void)
{
    struct tg_engine *e = open_plain();
    const uint32_t fails[7] = {2, OP_FAIL, 2, 3, 30, (uint32_t)-5, 0}, none[7] = {1, OP_NONE, 0, 1, 30, 0, 0};
    host_submits(e, 9, 2, OP_SUBMIT, fails, 7);
    struct tg_engine_stats s = settled(e);
    CHECK(s.faults == 3 && s.done == 1 && s.tenant[9].faults == 3 && s.level[2].faults == 3);
    CHECK_EQ(test_word(e, TG_CONTROL_FAULT_COUNT), 3);
    CHECK_EQ(test_word(e, TG_CONTROL_EXTENSION_BASE + 1), UINT32_MAX);
    CHECK_EQ(test_word(e, TG_CONTROL_EXTENSION_BASE + 2), TG_FAULT_HANDLER);
    host_submits(e, 9, 2, OP_SUBMIT, none, 7);
    s = settled(e);
    CHECK(s.faults == 4 && s.done == 2 && s.level[1].faults == 1);
    CHECK_EQ(test_word(e, TG_CONTROL_FAULT_COUNT), 4);
    CHECK_EQ(test_word(e, TG_CONTROL_EXTENSION_BASE + 2), TG_FAULT_UNKNOWN_OPCODE);
    test_close(e);
}

static void a_requeued_item_runs_again(void)
{
    struct tg_engine *e = open_plain();
    for (uint32_t i = 0; i < 10; i++) /* each with its own word, run 7 times */
        host_submits(e, i, 2, OP_SUBMIT, (uint32_t[]){i % 5, OP_AGAIN, 2, 1, 30, 100 + i, 7}, 7);
    struct tg_engine_stats s = settled(e);
    for (uint32_t i = 0; i < 10; i++)
        CHECK_EQ(observable(e, 100 + i), 7);
    CHECK(s.requeues == 60 && s.done == 20 && s.claims == 80);
    test_close(e);
}

/* E5: a fence waits for its batch, not for what that has published. */
static void e5_a_fence_does_not_wait_for_them(void)
{
    struct tg_engine *e = open_plain();
    const uint32_t args[7] = {2, OP_UNTIL, 1, 1, 30, 60, 0};
    const struct tg_batch_item item = {OP_SUBMIT, args, 7};
    struct tg_item fence;
    CHECK_EQ(submit_batch_soon(e, 3, 2, &item, 1, 77, &fence), 0);
    CHECK_EQ(tg_engine_wait(e, &fence, LIMIT), 0);
    CHECK_EQ(tg_engine_settle(e, SECOND / 10), -ETIMEDOUT); /* settle does */
    CHECK_EQ(tg_engine_observable_store(e, 60, 1), 0);
    struct tg_engine_stats s = settled(e);
    CHECK(s.done == 3 && s.device_submitted == 1);
    test_close(e);
}

/* An operation of a packed slot publishes; what it has published is none of the slot's. */
static void operations_of_packed_slots_publish(void)
{
    struct tg_engine *e = open_plain();
    const uint32_t first[2] = {20, 70}, second[2] = {7, 71};
    const struct tg_packed_op ops[2] = {{OP_INNER_SUBMIT, first, 2}, {OP_INNER_SUBMIT, second, 2}};
    uint32_t args[TG_ARGS_PER_SLOT];
    CHECK_EQ(tg_packed_encode(ops, 2, args), 0);
    for (uint32_t i = 0; i < 10; i++)
        host_submits(e, i, i % 5, TG_OP_PACKED_SLOT, args, TG_ARGS_PER_SLOT);
    CHECK_EQ(tg_engine_settle(e, LIMIT), 0);
    struct tg_engine_stats s = stats_of(e);
    CHECK(observable(e, 70) == 200 && observable(e, 71) == 70);
    CHECK(s.device_submitted == 270 && s.done == 280 && s.faults == 0);
    test_close(e);
}

/* Built-in opcodes do what they do elsewhere, on observable words alone (E6), also in an engine where others
 * may steer; the host sees all words that they wrote (E7). */
static void e6_built_in_opcodes_reach_observable_words(void)
{
    struct tg_engine_options o = options(100);
    o.flags |= TG_ENGINE_UNRESTRICTED;
    for (int restricted = 0; restricted < 2; restricted++) {
        struct tg_engine *e = open_with(&o);
        for (uint32_t i = 0; i < 16; i++)
            CHECK_EQ(tg_engine_observable_store(e, 80 + i, 1000 + i), 0);
        /* a5, a6, and TEST_ARGUMENT(2), which is too much to copy */
        const uint32_t store[7] = {1, TG_OP_STORE_U32, 2, 1, 30, 41, OBS + 100},
                       load[7] = {2, TG_OP_LOAD_U32, 2, 1, 30, OBS + 83, 101},
                       steer[7] = {3, TG_OP_STORE_U32, 2, 1, 30, 0, TG_CONTROL_TENANT_MASKS},
                       copy[7] = {3, TG_OP_MEMCPY, 3, 1, 30, OBS + 80, OBS + 110};
        host_submits(e, 1, 2, OP_SUBMIT, store, 7);
        host_submits(e, 1, 2, OP_SUBMIT, load, 7);
        host_submits(e, 1, 2, OP_FAN, (uint32_t[]){0, TG_OP_ATOMIC_ADD, 30, 104, 2, OBS + 102}, 6);
        CHECK_EQ(settled(e).faults, 0);
        CHECK(observable(e, 100) == 41 && observable(e, 101) == 1003 && observable(e, 102) == 60);
        host_submits(e, 1, 2, OP_SUBMIT, steer, 7);
        CHECK_EQ(settled(e).faults, 1);
        CHECK_EQ(test_word(e, TG_CONTROL_EXTENSION_BASE + 2), TG_FAULT_CONTROL_DENIED);
        CHECK(test_word(e, TG_CONTROL_TENANT_MASKS) != 0);
        host_submits(e, 1, 2, OP_SUBMIT, copy, 7);
        CHECK_EQ(settled(e).faults, 2);
        test_close(e);
        o.flags &= ~(uint32_t)TG_ENGINE_UNRESTRICTED;
    }
}

/* What publishes may come from a foreign host; what it published works on that host's control buffer. */
static void items_of_a_foreign_host_publish(void)
{
    static _Alignas(64) struct tg_slot ring[100];
    static uint32_t control[TG_CONTROL_MIN_WORDS + 256];
    struct tg_engine_options o = options(0);
    const uint32_t args[7] = {1, OP_ADD, 2, 50, 30, 31, 2};
    size_t bytes;
    CHECK_EQ(tg_encode_empty_ring(100, ring, sizeof(ring), &bytes), 0);
    CHECK_EQ(tg_encode_control(false, 29, 256, control, sizeof(control), &bytes), 0);
    o.ring = ring;
    o.ring_bytes = sizeof(ring);
    o.control = control;
    o.control_bytes = sizeof(control);
    o.foreign_slots[2] = 10;
    struct tg_engine *e = open_with(&o);
    for (uint32_t i = 0; i < 10; i++) {
        tg_slot_write_payload(&ring[50 + i], OP_SUBMIT, i, 2, args, 7);
        tg_slot_publish(&ring[50 + i]);
    }
    const uint64_t end = tg_clock_mono_ns() + LIMIT;
    for (uint32_t i = 0; i < 11; usleep(100)) { /* in no order: they run beside what published them */
        CHECK(tg_clock_mono_ns() < end);
        i += i < 10 ? tg_slot_status(&ring[50 + i]) == TG_SLOT_DONE
                    : tg_load_acquire_u32(&control[OBS + 31]) == 1000;
    }
    CHECK_EQ(control[OBS + 30], 500);
    test_close(e);
    CHECK_EQ(control[TG_CONTROL_DONE_COUNT], 510);
}

static void all(void)
{
    RUN(e1_a_chain_runs_to_its_end);
    RUN(e1_chains_that_fill_their_queue_go_on);
    RUN(e1_every_node_of_a_tree_runs_once);
    RUN(e1_nothing_is_lost_where_there_is_no_room);
    RUN(a_full_queue_says_so);
    RUN(arguments_arrive_as_they_were_sent);
    RUN(what_cannot_be_published_is_refused);
    RUN(shapes_publish_and_are_published);
    RUN(e1_what_any_lane_publishes_is_found);
    RUN(e6_a_body_publishes_for_its_own_tenant);
    RUN(e6_a_fault_is_counted_and_told);
    RUN(a_requeued_item_runs_again);
    RUN(e5_a_fence_does_not_wait_for_them);
    RUN(operations_of_packed_slots_publish);
    RUN(e6_built_in_opcodes_reach_observable_words);
    RUN(items_of_a_foreign_host_publish);
}

int main(void)
{
    if (!test_backend())
        SKIP("TG_TEST_BACKEND names no device");
    all();
    fprintf(stderr, "the same, with a limit for bodies:\n");
    test_body_limit_ms = 120000;
    all();
    return 0;
}
