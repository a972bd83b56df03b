/* SPDX-License-Identifier: Apache-2.0
 * The two executions of a program agree: random programs (ir_random.h) are interpreted, and lowered and
 * compiled, and leave the same words and values behind. The emitted text compiles without a warning, also
 * with every warning an error, and does nothing undefined (UBSan).
 *
 * TG_IR_RANDOM_BODIES sets how many programs for each compiler; 40 unless said, in units of at most 50. Each
 * runs on several memories. TG_IR_RANDOM_SEED gives others. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <tidegate/lower.h>

#include "base/clock.h"
#include "check.h"
#include "engine/compile_cc.h"

#include "engine/ir_random.h"

#define WORDS 512u /* of all buffers together */
#define LANES 3u
#define GROUPS 2u
#define MEMORIES (LANES * GROUPS) /* each is seen by a lane of its own */
#define MAX_BODIES 50u            /* of one unit: compilers take their time */
#define ARENA (64u << 20)

static const uint32_t sizes[TG_IR_MAX_BUFFERS] = {48, 176, 0, 9, 256, 8, 1};

struct memory {
    uint32_t words[WORDS];
    struct tg_kernel_env env;
};

/* The buffers of the wire and the two shared ones of the test, one after the other. */
static void lay(struct memory *m, uint64_t seed)
{
    uint32_t at = 0;
    struct random_ir g = {.state = seed};
    for (uint32_t i = 0; i < WORDS; i++)
        m->words[i] = random_below(&g, 3) ? random_below(&g, 40) : random_u32(&g);
    m->env = (struct tg_kernel_env){.size = sizeof(m->env), .lanes = LANES, .groups = GROUPS};
    for (uint32_t i = 0; i < TG_IR_MAX_BUFFERS; i++) {
        m->env.count[i] = sizes[i];
        m->env.words[i] = sizes[i] ? &m->words[at] : NULL;
        at += sizes[i];
    }
    CHECK(at <= WORDS);
    m->env.words[TG_IR_OBSERVABLE] = m->env.words[TG_IR_CONTROL] + TG_CONTROL_OBSERVABLE_BASE;
    m->env.count[TG_IR_OBSERVABLE] = sizes[TG_IR_CONTROL] - TG_CONTROL_OBSERVABLE_BASE;
}

/* One body called twice, its parameters in another order the second time; what both returned is kept. */
static struct tg_ir_node called_twice(struct tg_ir *ir)
{
    struct tg_ir_node body = tg_ir_return(
        ir, tg_ir_sub(ir, tg_ir_mul(ir, tg_ir_var(ir, "x"), tg_ir_u32(ir, 3)), tg_ir_var(ir, "k")));
    struct tg_ir_expr word = tg_ir_load(ir, "mine", tg_ir_u32(ir, 2)), seven = tg_ir_u32(ir, 7);
    struct tg_ir_param there[2] = {{"x", word}, {"k", seven}}, back[2] = {{"k", word}, {"x", seven}};
    struct tg_ir_node n[4] = {tg_ir_call(ir, "first", "twice", there, 2, body),
                              tg_ir_call(ir, "second", "twice", back, 2, body),
                              tg_ir_store(ir, "mine", tg_ir_u32(ir, 0), tg_ir_var(ir, "first")),
                              tg_ir_store(ir, "mine", tg_ir_u32(ir, 1), tg_ir_var(ir, "second"))};
    return tg_ir_block(ir, NULL, n, 4);
}

/* One program of many bodies: the word of buffer which says the body that runs; the lane returns its value.
 */
static struct tg_ir_node program(struct tg_ir *ir, uint64_t seed, uint32_t bodies)
{
    static struct tg_ir_node nodes[MAX_BODIES + 2];
    for (uint32_t i = 0; i < bodies; i++) {
        struct random_ir g = {.ir = ir, .state = seed + i, .budget = 120, .shared = "mine", .private = "own"};
        /* The call comes first: what follows is the program that the names above are in. */
        struct tg_ir_node body = random_block(&g, 0, 6);
        char name[16];
        snprintf(name, sizeof(name), "got%u", i);
        struct tg_ir_node run[2] = {tg_ir_call(ir, name, "body", NULL, 0, body),
                                    tg_ir_return(ir, tg_ir_var(ir, name))};
        nodes[i] = tg_ir_if(ir, tg_ir_eq(ir, tg_ir_load(ir, "which", tg_ir_u32(ir, 0)), tg_ir_u32(ir, i)),
                            tg_ir_block(ir, NULL, run, 2), (struct tg_ir_node){0});
    }
    nodes[bodies] = called_twice(ir);
    /* One more outside of any call: a fault there ends the lane. */
    struct random_ir g = {.ir = ir, .state = seed * 7 + 1, .budget = 200, .shared = "mine", .private = "own"};
    nodes[bodies + 1] = random_block(&g, 0, 6);
    return tg_ir_block(ir, "all", nodes, bodies + 2);
}

/* One lane of several, the others stand: where it is among them is all that it sees of them. */
static uint32_t interpreted(struct tg_ir_machine *machine, uint32_t lane)
{
    uint32_t value = 0;
    int r;
    tg_ir_machine_reset(machine);
    while ((r = tg_ir_machine_step(machine, lane)) > 0)
        ;
    CHECK_EQ(r, 0);
    CHECK_EQ(tg_ir_machine_value(machine, lane, &value), 0);
    return value;
}

static uint32_t (*compiled(const char *text, size_t bytes, const char *cc,
                           void **ret_library))(const struct tg_kernel_env *)
{
    static char why[65536];
    int r = tg_cc_load(text, bytes, cc, 100 * UINT64_C(1000000000), ret_library, why, sizeof(why));
    if (r == -ENOENT)
        return NULL;
    if (r)
        fprintf(stderr, "%s\n", why);
    CHECK_EQ(r, 0);
    void *at = dlsym(*ret_library, "tg_kernel_lane");
    uint32_t (*lane)(const struct tg_kernel_env *);
    memcpy(&lane, &at, sizeof(lane));
    CHECK(lane);
    return lane;
}

static void agree(struct tg_ir *ir, struct tg_ir_node root, uint32_t bodies, const char *cc, uint64_t seed)
{
    static struct memory a, b;
    struct tg_ir_memory memory;
    struct tg_ir_machine *machine;
    struct tg_ir_error error;
    char *text;
    size_t bytes;
    void *library;
    uint64_t faults = 0, changed = 0;
    int r = tg_ir_lower(ir, root, NULL, &text, &bytes, &error);
    if (r)
        fprintf(stderr, "%s: %s\n", error.path, error.text);
    CHECK_EQ(r, 0);
    uint32_t (*lane)(const struct tg_kernel_env *) = compiled(text, bytes, cc, &library);
    free(text);
    if (!lane) {
        fprintf(stderr, "no %s here\n", cc);
        return;
    }
    lay(&a, 0);
    memcpy(memory.words, a.env.words, sizeof(memory.words));
    memcpy(memory.count, a.env.count, sizeof(memory.count));
    struct tg_ir_machine_options o = {.lanes = LANES, .groups = GROUPS, .memory = &memory};
    CHECK_EQ(tg_ir_machine_open(ir, root, &o, &machine), 0);
    for (uint32_t i = 0; i < (bodies + 1) * MEMORIES; i++) {
        uint32_t start[WORDS];
        lay(&a, seed + i);
        a.env.words[6][0] = i / MEMORIES;
        memcpy(start, a.words, sizeof(start));
        lay(&b, 0);
        memcpy(b.words, a.words, sizeof(b.words));
        b.env.lane = i % MEMORIES % LANES;
        b.env.group = i % MEMORIES / LANES;
        uint32_t x = interpreted(machine, i % MEMORIES), y = lane(&b.env);
        if (x != y || memcmp(a.words, b.words, sizeof(a.words)) != 0)
            fprintf(stderr, "%s: body %u on memory %u: interpreted %08x, compiled %08x\n", cc, i / MEMORIES,
                    i, x, y);
        CHECK_EQ(x, y);
        CHECK_EQ(memcmp(a.words, b.words, sizeof(a.words)), 0);
        faults += x == (TG_IR_FAULT | 2u);
        changed += memcmp(a.words, start, sizeof(start)) != 0;
    }
    fprintf(stderr, "%s: %u bodies, %u runs, %llu faults, %llu that changed words\n", cc, bodies + 1,
            (bodies + 1) * MEMORIES, (unsigned long long)faults, (unsigned long long)changed);
    /* They did something, and not all the same. */
    CHECK(changed > bodies && faults > 0 && faults < (uint64_t)bodies * MEMORIES);
    tg_ir_machine_close(machine);
    dlclose(library);
}

static void programs_agree(void)
{
    static const char *const cc[] = {"gcc -Wall -Wextra -Werror -pedantic -O1",
                                     "clang -Wall -Wextra -Werror -O2",
                                     "gcc -fsanitize=undefined -fno-sanitize-recover=all -O0"};
    const char *asked = getenv("TG_IR_RANDOM_BODIES"), *other = getenv("TG_IR_RANDOM_SEED");
    uint32_t bodies = asked ? (uint32_t)strtoul(asked, NULL, 10) : 40;
    uint64_t seed = other ? strtoull(other, NULL, 10) * 1000003u : 0;
    CHECK(bodies > 0);
    void *arena = malloc(ARENA);
    CHECK(arena);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t done = 0; done < bodies;) {
            uint32_t now = bodies - done < MAX_BODIES ? bodies - done : MAX_BODIES;
            struct tg_ir ir;
            tg_ir_init(&ir, arena, ARENA);
            CHECK(tg_ir_buffer(&ir, "mine", 0) == 5 && tg_ir_buffer(&ir, "which", 0) == 6);
            CHECK(tg_ir_buffer(&ir, "own", 7) == 7 && tg_ir_buffer(&ir, "other", 3) == 8);
            struct tg_ir_node root = program(&ir, seed + 100000 * (i + 1) + done, now);
            agree(&ir, root, now, cc[i], seed + 77 * i);
            done += now;
        }
    free(arena);
}

int main(void)
{
    RUN(programs_agree);
    return 0;
}
