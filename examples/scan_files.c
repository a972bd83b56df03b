/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks for many patterns at once in real files, with the resident engine: an automaton (Aho-Corasick) is
 * built from the patterns as the table that DFA_STEP reads, 256 next states a state; a user opcode runs it
 * over blocks of the files, many blocks at a time; and the first bytes are also followed with DFA_STEP items,
 * one a byte. Both are checked against a plain program that compares every pattern at every place.
 *
 *     example_scan_files [-p PATTERN]... FILE...     (-p: default are some words of C)
 *
 * Prints how often each pattern was found and exits 0 when all agree. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tidegate/engine.h>

enum {
    OP_SCAN = 8, /* args: block */
    BLOCK = 32768,
    BATCH = 32,
    MAX_PATTERNS = 64,
    MAX_LENGTH = 64,
    MAX_STATES = MAX_PATTERNS * MAX_LENGTH + 1,
    STEPS = 2000, /* bytes that DFA_STEP follows */
};

static const uint64_t second = 1000000000;

struct pattern {
    const char *text;
    size_t length;
    uint64_t found; /* by the engine; summed up block by block */
};

struct block {
    const unsigned char *file; /* begin of its file: a match may have begun in the block before */
    size_t from, to;
};

static struct pattern patterns[MAX_PATTERNS];
static size_t pattern_count, longest;
static uint32_t (*table)[TG_DFA_COLUMNS]; /* next state */
static uint64_t *ends_here;               /* bit i: pattern i ends in this state */
static uint32_t states;
static struct block *blocks;
static size_t block_count;

/* ---- The automaton ------------------------------------------------------------------------------------- */

/* A tree of all patterns; then breadth first: a missing edge leads where the longest proper suffix leads. */
static int build(void)
{
    static uint32_t suffix[MAX_STATES], queue[MAX_STATES];
    uint32_t head = 0, tail = 0;
    table = calloc(MAX_STATES, sizeof(*table));
    ends_here = calloc(MAX_STATES, sizeof(*ends_here));
    if (!table || !ends_here)
        return -ENOMEM;
    states = 1;
    for (size_t p = 0; p < pattern_count; p++) {
        uint32_t at = 0;
        for (size_t i = 0; i < patterns[p].length; i++) {
            uint32_t *next = &table[at][(unsigned char)patterns[p].text[i]];
            if (*next == 0)
                *next = states++;
            at = *next;
        }
        ends_here[at] |= UINT64_C(1) << p;
    }
    for (uint32_t c = 0; c < TG_DFA_COLUMNS; c++)
        if (table[0][c])
            queue[tail++] = table[0][c];
    while (head < tail) {
        uint32_t at = queue[head++];
        ends_here[at] |= ends_here[suffix[at]];
        for (uint32_t c = 0; c < TG_DFA_COLUMNS; c++) {
            uint32_t next = table[at][c], other = table[suffix[at]][c];
            if (next) {
                suffix[next] = other;
                queue[tail++] = next;
            } else {
                table[at][c] = other;
            }
        }
    }
    return 0;
}

/* ---- With the engine ----------------------------------------------------------------------------------- */

/* Each match belongs to the block in which it ends, so the walk begins a pattern's length before it. */
static int scan(void *context, struct tg_op *op)
{
    uint64_t(*found)[MAX_PATTERNS] = context;
    uint32_t state = 0;
    if (op->args[0] >= block_count)
        return -EINVAL;
    const struct block *b = &blocks[op->args[0]];
    size_t start = b->from > longest ? b->from - longest : 0;
    for (size_t i = start; i < b->to; i++) {
        state = table[state][b->file[i]];
        uint64_t ends = i < b->from ? 0 : ends_here[state];
        for (; ends; ends &= ends - 1)
            found[op->args[0]][__builtin_ctzll(ends)]++;
    }
    return TG_OP_FINISHED;
}

static int submit_all(struct tg_engine *engine, struct tg_item *ret_last)
{
    uint32_t args[BATCH];
    struct tg_batch_item items[BATCH];
    for (size_t b = 0; b < block_count;) {
        uint32_t n = 0;
        for (; n < BATCH && b + n < block_count; n++) {
            args[n] = (uint32_t)(b + n);
            items[n] = (struct tg_batch_item){OP_SCAN, &args[n], 1};
        }
        int error = tg_engine_submit_batch(engine, 0, TG_PRIORITY_NORMAL, items, n, (uint32_t)b, ret_last);
        if (error == -EAGAIN)
            error = tg_engine_wait_space(engine, TG_PRIORITY_NORMAL, 60 * second);
        else if (!error)
            b += n;
        if (error)
            return error;
    }
    return 0;
}

static int scan_blocks(struct tg_engine *engine)
{
    uint64_t(*found)[MAX_PATTERNS] =
        calloc(block_count + 1, sizeof(*found)); /* a row a block: nothing shared */
    struct tg_item last;
    struct tg_engine_stats stats;
    int error = found ? tg_engine_register(engine, OP_SCAN, scan, found) : -ENOMEM;
    if (!error)
        error = submit_all(engine, &last);
    if (!error)
        error = tg_engine_settle(engine, 600 * second);
    tg_engine_stats(engine, &stats);
    for (size_t b = 0; b < block_count && !error; b++)
        for (size_t p = 0; p < pattern_count; p++)
            patterns[p].found += found[b][p];
    free(found);
    return error ? error : stats.faults ? -EIO : 0;
}

/* The same table by the built-in opcode, a byte an item: each state is the argument of the next step. */
static int follow_steps(struct tg_engine *engine, const unsigned char *bytes, size_t n, uint32_t *ret_state)
{
    uint32_t state = 0;
    int error = tg_engine_set_dfa(engine, &table[0][0], states);
    for (size_t i = 0; i < n && !error; i++) {
        struct tg_item ticket;
        error = tg_engine_submit(engine, 0, TG_PRIORITY_HIGH, TG_OP_DFA_STEP,
                                 (uint32_t[]){state, bytes[i], 5}, 3, &ticket);
        if (error == -EAGAIN) {
            error = tg_engine_wait_space(engine, TG_PRIORITY_HIGH, 5 * second);
            i--;
            continue;
        }
        error = error ? error : tg_engine_wait(engine, &ticket, 5 * second);
        error = error ? error : tg_engine_observable_load(engine, 5, &state);
    }
    *ret_state = state;
    return error;
}

/* ---- The plain program --------------------------------------------------------------------------------- */

static uint64_t plain_count(const unsigned char *bytes, size_t n, const struct pattern *p)
{
    uint64_t count = 0;
    for (const unsigned char *at = bytes; n >= p->length; n -= 1) {
        const unsigned char *hit = memmem(at, n, p->text, p->length);
        if (!hit)
            break;
        count++;
        n -= (size_t)(hit - at);
        at = hit + 1;
    }
    return count;
}

/* The state after these bytes is the longest pattern prefix that they end with. */
static size_t plain_prefix(const unsigned char *bytes, size_t n)
{
    size_t best = 0;
    for (size_t p = 0; p < pattern_count; p++)
        for (size_t k = best + 1; k <= patterns[p].length && k <= n; k++)
            if (memcmp(bytes + n - k, patterns[p].text, k) == 0)
                best = k;
    return best;
}

static size_t depth_of(uint32_t state)
{
    for (size_t p = 0; p < pattern_count; p++) {
        uint32_t at = 0;
        for (size_t k = 0; k <= patterns[p].length; k++) {
            if (at == state)
                return k;
            at = k < patterns[p].length ? table[at][(unsigned char)patterns[p].text[k]] : at;
        }
    }
    return SIZE_MAX;
}

/* ---- Files and patterns -------------------------------------------------------------------------------- */

struct file {
    const unsigned char *bytes;
    size_t size;
};

static int map_file(const char *name, struct file *ret)
{
    struct stat st;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        if (fd >= 0)
            close(fd);
        return -EINVAL;
    }
    ret->size = (size_t)st.st_size;
    void *bytes = st.st_size ? mmap(NULL, ret->size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    ret->bytes = bytes;
    return bytes == MAP_FAILED ? -errno : 0;
}

static int cut_blocks(const struct file *files, size_t n)
{
    size_t total = 0;
    for (size_t f = 0; f < n; f++)
        total += files[f].size / BLOCK + 1;
    blocks = calloc(total + 1, sizeof(*blocks));
    if (!blocks)
        return -ENOMEM;
    for (size_t f = 0; f < n; f++)
        for (size_t at = 0; at < files[f].size; at += BLOCK)
            blocks[block_count++] =
                (struct block){files[f].bytes, at, at + BLOCK < files[f].size ? at + BLOCK : files[f].size};
    return 0;
}

static int add_pattern(const char *text)
{
    size_t length = strlen(text);
    if (length == 0 || length > MAX_LENGTH || pattern_count == MAX_PATTERNS)
        return -EINVAL;
    patterns[pattern_count++] = (struct pattern){text, length, 0};
    longest = length > longest ? length : longest;
    return 0;
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- All of it ----------------------------------------------------------------------------------------- */

static int compare(const struct file *files, size_t n)
{
    int wrong = 0;
    for (size_t p = 0; p < pattern_count; p++) {
        uint64_t plain = 0;
        for (size_t f = 0; f < n; f++)
            plain += plain_count(files[f].bytes, files[f].size, &patterns[p]);
        printf("%10" PRIu64 "  %s%s\n", patterns[p].found, patterns[p].text,
               plain == patterns[p].found ? "" : "   <- the plain program differs");
        wrong += plain != patterns[p].found;
    }
    return wrong;
}

static int run(const struct file *files, size_t n)
{
    struct tg_engine *engine;
    int error = build();
    if (!error)
        error = cut_blocks(files, n);
    if (!error)
        error = tg_engine_open(NULL, &engine);
    if (error)
        return error;
    double start = now();
    error = scan_blocks(engine);
    double took = now() - start;
    uint32_t state = 0;
    size_t steps = n > 0 && files[0].size < STEPS ? files[0].size : STEPS;
    if (!error)
        error = follow_steps(engine, files[0].bytes, steps, &state);
    int closed = tg_engine_close(engine, 60 * second, NULL);
    if (error || closed)
        return error ? error : closed;
    size_t depth = depth_of(state), plain = plain_prefix(files[0].bytes, steps);
    int wrong = compare(files, n) + (depth != plain);
    printf("%zu blocks of %d bytes, %zu patterns, %" PRIu32
           " states: %.3f s; %zu DFA_STEP items end in a state %zu "
           "deep%s\n",
           block_count, BLOCK, pattern_count, states, took, steps, depth,
           depth == plain ? "" : ", which is wrong");
    return wrong ? -EBADMSG : 0;
}

int main(int argc, char **argv)
{
    static const char *const words[] = {"static", "int",   "if (",     "return", "uint32_t",         "the",
                                        "he",     "there", "tenant",   "struct", "struct tg_engine", "e->",
                                        "\n\n",   "*/",    "overtaken"};
    int option, error = 0;
    while ((option = getopt(argc, argv, "p:")) != -1)
        error = option != 'p' || add_pattern(optarg) != 0 ? -EINVAL : error;
    for (size_t i = 0; optind == 1 && i < sizeof(words) / sizeof(words[0]); i++)
        error = error ? error : add_pattern(words[i]);
    if (error || optind >= argc) {
        fprintf(stderr, "usage: %s [-p PATTERN]... FILE...   at most %d patterns of at most %d bytes\n",
                argv[0], MAX_PATTERNS, MAX_LENGTH);
        return 2;
    }
    size_t n = (size_t)(argc - optind);
    struct file *files = calloc(n, sizeof(*files));
    for (size_t f = 0; f < n && files && !error; f++)
        error = map_file(argv[optind + (int)f], &files[f]);
    if (!error)
        error = files ? run(files, n) : -ENOMEM;
    if (error)
        fprintf(stderr, "%s: %s\n", argv[0], strerror(-error));
    free(files);
    free(table);
    free(ends_here);
    free(blocks);
    return error ? 1 : 0;
}
