/* SPDX-License-Identifier: Apache-2.0
 * Arithmetic that says when it overflows. Each returns true on success and writes *out only then. */
#ifndef TG_BASE_CHECKED_H
#define TG_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TG_CHECKED(name, T, op)                                                                              \
    static inline bool name(T a, T b, T *out)                                                                \
    {                                                                                                        \
        T r;                                                                                                 \
        if (op(a, b, &r))                                                                                    \
            return false;                                                                                    \
        *out = r;                                                                                            \
        return true;                                                                                         \
    }
TG_CHECKED(tg_add_u32, uint32_t, __builtin_add_overflow)
TG_CHECKED(tg_mul_u32, uint32_t, __builtin_mul_overflow)
TG_CHECKED(tg_add_u64, uint64_t, __builtin_add_overflow)
TG_CHECKED(tg_sub_u64, uint64_t, __builtin_sub_overflow)
TG_CHECKED(tg_mul_u64, uint64_t, __builtin_mul_overflow)
TG_CHECKED(tg_add_i64, int64_t, __builtin_add_overflow)
TG_CHECKED(tg_mul_i64, int64_t, __builtin_mul_overflow)
#undef TG_CHECKED

/* a - b, or 0 when b is larger. */
static inline uint64_t tg_sat_sub_u64(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* a + b, or the largest value. */
static inline uint64_t tg_sat_add_u64(uint64_t a, uint64_t b)
{
    uint64_t r;
    return tg_add_u64(a, b, &r) ? r : UINT64_MAX;
}

/* ceil(a / b); 0 when b is 0. */
static inline uint64_t tg_ceil_div_u64(uint64_t a, uint64_t b)
{
    return b == 0 ? 0 : a / b + (a % b != 0);
}

#endif
