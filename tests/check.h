/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test program needs: CHECK stops at the first failure and names it; RUN names the case (after
 * its row in the cases table or its rule); SKIP ends with 77 and a reason.
 */
#ifndef TG_TESTS_CHECK_H
#define TG_TESTS_CHECK_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                                                          \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__, #cond);                 \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#define CHECK_EQ(a, b)                                                                                       \
    do {                                                                                                     \
        long long check_a = (long long)(a), check_b = (long long)(b);                                        \
        if (check_a != check_b) {                                                                            \
            fprintf(stderr, "%s:%d: %s: failed: %s == %s (%lld, %lld)\n", __FILE__, __LINE__, __func__, #a,  \
                    #b, check_a, check_b);                                                                   \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#define RUN(fn)                                                                                              \
    do {                                                                                                     \
        fprintf(stderr, "%s\n", #fn);                                                                        \
        fn();                                                                                                \
    } while (0)

/* What a test could not show on this machine, and at its end: then it counts as skipped, not as passed. */
static const char *check_not_shown;
static inline void not_shown(const char *why)
{
    fprintf(stderr, "  not shown: %s\n", why);
    check_not_shown = why;
}
static inline int shown_all(void)
{
    return check_not_shown ? 77 : 0;
}

#define SKIP(...)                                                                                            \
    do {                                                                                                     \
        fprintf(stderr, "SKIPPED: " __VA_ARGS__);                                                            \
        fputc('\n', stderr);                                                                                 \
        exit(77);                                                                                            \
    } while (0)

/* A small deterministic generator for property tests (xorshift64*); the seed must not be 0. */
static inline uint64_t check_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(2685821657736338717);
}

#endif
