/* SPDX-License-Identifier: Apache-2.0
 *
 * Atomic operations on plain words. This is the one file that spells memory orders, those of a CUDA device
 * too (device half below). Words are ordinary u32/u64 because they lie in buffers that other programs,
 * languages and processors read and write as such.
 *
 * The order is part of the name, so a reader sees it at the call: every call elsewhere carries a
 * comment with a label and the label of its partner, e.g. "R1 release: publishes the slot; pairs with
 * A1 in claim()". There are no stand-alone fences on purpose: ThreadSanitizer cannot see them.
 */
#ifndef TG_BASE_ATOMIC_H
#define TG_BASE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include <tidegate/hd.h>

#ifdef TG_EXPLORE
/* tests/engine_explore: before every atomic step that orders something or changes a word by its value, a
 * scheduler may let another thread go on. */
void tg_explore_point(void);
void tg_explore_yield(void);
uint32_t tg_explore_thread(void); /* its threads are one to the system */
#define TG_POINT() tg_explore_point()
#else
#define TG_POINT() ((void)0)
#endif

#ifdef __CUDA_ARCH__
/* ---- The device half: what the kernel uses. Without a prefix the scope is the device; the tg_sys_ functions
 * are for words that the host reads or writes, the tg_block_ ones for words of one block. No word is used
 * with two. Each names the memory its words lie in: where the compiler cannot tell, one that adds becomes a
 * loop for the case that it is shared memory. ---- */
#define TG_DEVICE_FAMILY(T, S, B, R)                                                                         \
    TG_HD static inline T tg_load_relaxed_##S(const T *p)                                                    \
    {                                                                                                        \
        T v;                                                                                                 \
        asm volatile("ld.relaxed.gpu.global." B " %0, [%1];" : "=" R(v) : "l"(p) : "memory");                \
        return v;                                                                                            \
    }                                                                                                        \
    TG_HD static inline T tg_load_acquire_##S(const T *p)                                                    \
    {                                                                                                        \
        T v;                                                                                                 \
        asm volatile("ld.acquire.gpu.global." B " %0, [%1];" : "=" R(v) : "l"(p) : "memory");                \
        return v;                                                                                            \
    }                                                                                                        \
    TG_HD static inline void tg_store_relaxed_##S(T *p, T v)                                                 \
    {                                                                                                        \
        asm volatile("st.relaxed.gpu.global." B " [%0], %1;" ::"l"(p), R(v) : "memory");                     \
    }                                                                                                        \
    TG_HD static inline void tg_store_release_##S(T *p, T v)                                                 \
    {                                                                                                        \
        asm volatile("st.release.gpu.global." B " [%0], %1;" ::"l"(p), R(v) : "memory");                     \
    }                                                                                                        \
    TG_HD static inline T tg_add_relaxed_##S(T *p, T v)                                                      \
    {                                                                                                        \
        T before;                                                                                            \
        asm volatile("atom.add.relaxed.gpu.global." B " %0, [%1], %2;"                                       \
                     : "=" R(before)                                                                         \
                     : "l"(p), R(v)                                                                          \
                     : "memory");                                                                            \
        return before;                                                                                       \
    }                                                                                                        \
    TG_HD static inline T tg_add_acqrel_##S(T *p, T v)                                                       \
    {                                                                                                        \
        T before;                                                                                            \
        asm volatile("atom.add.acq_rel.gpu.global." B " %0, [%1], %2;"                                       \
                     : "=" R(before)                                                                         \
                     : "l"(p), R(v)                                                                          \
                     : "memory");                                                                            \
        return before;                                                                                       \
    }                                                                                                        \
    /* Without the value before: the caller does not wait for it. */                                         \
    TG_HD static inline void tg_bump_relaxed_##S(T *p, T v)                                                  \
    {                                                                                                        \
        asm volatile("red.add.relaxed.gpu.global." B " [%0], %1;" ::"l"(p), R(v) : "memory");                \
    }                                                                                                        \
    TG_HD static inline T tg_sys_load_relaxed_##S(const T *p)                                                \
    {                                                                                                        \
        T v;                                                                                                 \
        asm volatile("ld.relaxed.sys.global." B " %0, [%1];" : "=" R(v) : "l"(p) : "memory");                \
        return v;                                                                                            \
    }                                                                                                        \
    TG_HD static inline void tg_sys_store_relaxed_##S(T *p, T v)                                             \
    {                                                                                                        \
        asm volatile("st.relaxed.sys.global." B " [%0], %1;" ::"l"(p), R(v) : "memory");                     \
    }                                                                                                        \
    TG_HD static inline void tg_sys_store_release_##S(T *p, T v)                                             \
    {                                                                                                        \
        asm volatile("st.release.sys.global." B " [%0], %1;" ::"l"(p), R(v) : "memory");                     \
    }
TG_DEVICE_FAMILY(uint32_t, u32, "u32", "r")
TG_DEVICE_FAMILY(uint64_t, u64, "u64", "l")
#undef TG_DEVICE_FAMILY

/* On failure the word found is written to *expected. */
TG_HD static inline bool tg_cas_acqrel_u32(uint32_t *p, uint32_t *expected, uint32_t desired)
{
    uint32_t found;
    asm volatile("atom.cas.acq_rel.gpu.global.b32 %0, [%1], %2, %3;"
                 : "=r"(found)
                 : "l"(p), "r"(*expected), "r"(desired)
                 : "memory");
    bool done = found == *expected;
    *expected = found;
    return done;
}

/* All stores before it are seen by the host before all stores after it: one for a batch of them. */
TG_HD static inline void tg_sys_order_stores(void)
{
    asm volatile("fence.acq_rel.sys;" ::: "memory");
}

/* Between the warps of one block: words of its shared memory, by their address there. */
TG_HD static inline uint32_t tg_block_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
TG_HD static inline uint32_t tg_block_load_relaxed_u32(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(tg_block_address(p)) : "memory");
    return v;
}
TG_HD static inline uint32_t tg_block_load_acquire_u32(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(tg_block_address(p)) : "memory");
    return v;
}
TG_HD static inline void tg_block_store_relaxed_u32(uint32_t *p, uint32_t v)
{
    asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(tg_block_address(p)), "r"(v) : "memory");
}
/* Behind this warp's earlier accesses to shared memory alone (a warp barrier lies between those of other
 * lanes and this). A release would also wait for what the warp has under way elsewhere, loads over the bus
 * among it, a microsecond or more. What is assumed: a processor does the accesses of one warp to its shared
 * memory in their order. */
TG_HD static inline void tg_block_store_behind_u32(uint32_t *p, uint32_t v)
{
    asm volatile("st.relaxed.cta.shared.u32 [%0], %1;" ::"r"(tg_block_address(p)), "r"(v) : "memory");
}
TG_HD static inline void tg_block_store_release_u32(uint32_t *p, uint32_t v)
{
    asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(tg_block_address(p)), "r"(v) : "memory");
}

/* 16 bytes that the host writes, aligned, as one access (device.h says what rests on that). */
TG_HD static inline void tg_sys_load_quarter(const uint32_t *p, uint32_t v[4])
{
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "l"(p)
                 : "memory");
}
/* Only where asked for, else zeros: without a branch, so that loads that follow are not waited for by those
 * before. */
TG_HD static inline void tg_sys_load_quarter_if(bool asked, const uint32_t *p, uint32_t v[4])
{
    v[0] = v[1] = v[2] = v[3] = 0;
    asm volatile("{ .reg .pred asked; setp.ne.u32 asked, %5, 0;\n"
                 "@asked ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4]; }"
                 : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3])
                 : "l"(p), "r"((uint32_t)asked)
                 : "memory");
}
/* The same between warps of the device. */
TG_HD static inline void tg_load_quarter(const uint32_t *p, uint32_t v[4])
{
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "l"(p)
                 : "memory");
}
TG_HD static inline void tg_store_quarter(uint32_t *p, const uint32_t v[4])
{
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v[0]), "r"(v[1]),
                 "r"(v[2]), "r"(v[3])
                 : "memory");
}

#else
/* ---- The host half. ---- */
#define TG_ATOMIC_FAMILY(T, S)                                                                               \
    TG_HD static inline T tg_load_relaxed_##S(const T *p)                                                    \
    {                                                                                                        \
        return __atomic_load_n(p, __ATOMIC_RELAXED);                                                         \
    }                                                                                                        \
    TG_HD static inline T tg_load_acquire_##S(const T *p)                                                    \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_load_n(p, __ATOMIC_ACQUIRE);                                                         \
    }                                                                                                        \
    TG_HD static inline T tg_load_seqcst_##S(const T *p)                                                     \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                         \
    }                                                                                                        \
    TG_HD static inline void tg_store_relaxed_##S(T *p, T v)                                                 \
    {                                                                                                        \
        __atomic_store_n(p, v, __ATOMIC_RELAXED);                                                            \
    }                                                                                                        \
    TG_HD static inline void tg_store_release_##S(T *p, T v)                                                 \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        __atomic_store_n(p, v, __ATOMIC_RELEASE);                                                            \
    }                                                                                                        \
    TG_HD static inline void tg_store_seqcst_##S(T *p, T v)                                                  \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                        \
    TG_HD static inline T tg_add_relaxed_##S(T *p, T v)                                                      \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);                                                   \
    }                                                                                                        \
    TG_HD static inline T tg_add_acqrel_##S(T *p, T v)                                                       \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);                                                   \
    }                                                                                                        \
    TG_HD static inline T tg_add_seqcst_##S(T *p, T v)                                                       \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                                   \
    }                                                                                                        \
    TG_HD static inline T tg_sub_relaxed_##S(T *p, T v)                                                      \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED);                                                   \
    }                                                                                                        \
    TG_HD static inline T tg_sub_acqrel_##S(T *p, T v)                                                       \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_sub(p, v, __ATOMIC_ACQ_REL);                                                   \
    }                                                                                                        \
    TG_HD static inline T tg_sub_seqcst_##S(T *p, T v)                                                       \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                                   \
    }                                                                                                        \
    TG_HD static inline T tg_or_release_##S(T *p, T v)                                                       \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_or(p, v, __ATOMIC_RELEASE);                                                    \
    }                                                                                                        \
    TG_HD static inline T tg_or_acqrel_##S(T *p, T v)                                                        \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_or(p, v, __ATOMIC_ACQ_REL);                                                    \
    }                                                                                                        \
    TG_HD static inline T tg_or_seqcst_##S(T *p, T v)                                                        \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                                                    \
    }                                                                                                        \
    TG_HD static inline T tg_and_acqrel_##S(T *p, T v)                                                       \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_and(p, v, __ATOMIC_ACQ_REL);                                                   \
    }                                                                                                        \
    TG_HD static inline T tg_and_seqcst_##S(T *p, T v)                                                       \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                                                   \
    }                                                                                                        \
    TG_HD static inline T tg_exchange_acqrel_##S(T *p, T v)                                                  \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL);                                                  \
    }                                                                                                        \
    TG_HD static inline T tg_exchange_seqcst_##S(T *p, T v)                                                  \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                  \
    }                                                                                                        \
    /* On failure the word found is written to *expected, with acquire order (relaxed for _relaxed_). */     \
    TG_HD static inline bool tg_cas_relaxed_##S(T *p, T *expected, T desired)                                \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); \
    }                                                                                                        \
    TG_HD static inline bool tg_cas_acquire_##S(T *p, T *expected, T desired)                                \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE); \
    }                                                                                                        \
    TG_HD static inline bool tg_cas_acqrel_##S(T *p, T *expected, T desired)                                 \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); \
    }                                                                                                        \
    TG_HD static inline bool tg_cas_seqcst_##S(T *p, T *expected, T desired)                                 \
    {                                                                                                        \
        TG_POINT();                                                                                          \
        return __atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }

TG_ATOMIC_FAMILY(uint8_t, u8)
TG_ATOMIC_FAMILY(uint32_t, u32)
TG_ATOMIC_FAMILY(uint64_t, u64)

#undef TG_ATOMIC_FAMILY

/* Two words side by side, the first at a multiple of 8 bytes, in one access: as two relaxed ones, only fewer.
 */
typedef uint64_t __attribute__((may_alias)) tg_word_pair;
static inline void tg_store_relaxed_pair(uint32_t *p, uint32_t first, uint32_t second)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    __atomic_store_n((tg_word_pair *)(void *)p, first | (uint64_t)second << 32, __ATOMIC_RELAXED);
#else
    tg_store_relaxed_u32(p, first);
    tg_store_relaxed_u32(p + 1, second);
#endif
}
static inline void tg_load_relaxed_pair(const uint32_t *p, uint32_t *ret_first, uint32_t *ret_second)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t v = __atomic_load_n((const tg_word_pair *)(const void *)p, __ATOMIC_RELAXED);
    *ret_first = (uint32_t)v;
    *ret_second = (uint32_t)(v >> 32);
#else
    *ret_first = tg_load_relaxed_u32(p);
    *ret_second = tg_load_relaxed_u32(p + 1);
#endif
}

/* Pointers: published with release, taken with acquire. */
static inline void *tg_load_acquire_ptr(void *const *p)
{
    TG_POINT();
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
static inline void tg_store_release_ptr(void **p, void *v)
{
    TG_POINT();
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

/* The names of the device half on a host, where there is one scope. */
#define TG_SYSTEM_FAMILY(T, S)                                                                               \
    TG_HD static inline void tg_bump_relaxed_##S(T *p, T v)                                                  \
    {                                                                                                        \
        (void)tg_add_relaxed_##S(p, v);                                                                      \
    }                                                                                                        \
    TG_HD static inline T tg_sys_load_relaxed_##S(const T *p)                                                \
    {                                                                                                        \
        return tg_load_relaxed_##S(p);                                                                       \
    }                                                                                                        \
    TG_HD static inline void tg_sys_store_relaxed_##S(T *p, T v)                                             \
    {                                                                                                        \
        tg_store_relaxed_##S(p, v);                                                                          \
    }                                                                                                        \
    TG_HD static inline void tg_sys_store_release_##S(T *p, T v)                                             \
    {                                                                                                        \
        tg_store_release_##S(p, v);                                                                          \
    }
TG_SYSTEM_FAMILY(uint32_t, u32)
TG_SYSTEM_FAMILY(uint64_t, u64)
#undef TG_SYSTEM_FAMILY

TG_HD static inline uint32_t tg_block_load_relaxed_u32(const uint32_t *p)
{
    return tg_load_relaxed_u32(p);
}
TG_HD static inline uint32_t tg_block_load_acquire_u32(const uint32_t *p)
{
    return tg_load_acquire_u32(p);
}
TG_HD static inline void tg_block_store_relaxed_u32(uint32_t *p, uint32_t v)
{
    tg_store_relaxed_u32(p, v);
}
TG_HD static inline void tg_block_store_behind_u32(uint32_t *p, uint32_t v)
{
    tg_store_release_u32(p, v);
}
TG_HD static inline void tg_block_store_release_u32(uint32_t *p, uint32_t v)
{
    tg_store_release_u32(p, v);
}

TG_HD static inline void tg_sys_order_stores(void)
{
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
}

/* 16 bytes, aligned: one store where the processor has one of that size; else the first word last, with
 * release order. The device looks for the first word. */
static inline void tg_sys_store_quarter(uint32_t *p, uint32_t first, const uint32_t rest[3])
{
#if defined(__SSE2__) && !defined(__CUDACC__)
    typedef uint32_t quarter __attribute__((vector_size(16), may_alias));
    quarter v = {first, rest[0], rest[1], rest[2]};
    TG_POINT();
    *(volatile quarter *)p = v;
#else
    for (int i = 0; i < 3; i++)
        tg_store_relaxed_u32(p + 1 + i, rest[i]);
    tg_store_release_u32(p, first);
#endif
}

/* Four words side by side, the first at a multiple of 16 bytes: as four relaxed ones, in one access where the
 * processor has one of that size. */
static inline void tg_store_relaxed_quarter(uint32_t *p, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
#if defined(__SSE2__) && !defined(__CUDACC__) && !defined(__SANITIZE_THREAD__)
    typedef uint32_t quarter __attribute__((vector_size(16), may_alias));
    *(volatile quarter *)p = (quarter){a, b, c, d};
#else
    tg_store_relaxed_u32(p, a);
    tg_store_relaxed_u32(p + 1, b);
    tg_store_relaxed_u32(p + 2, c);
    tg_store_relaxed_u32(p + 3, d);
#endif
}

/* A quarter of a line whose first word was stored last. */
TG_HD static inline void tg_sys_load_quarter(const uint32_t *p, uint32_t v[4])
{
    v[0] = tg_load_acquire_u32(p);
    for (int i = 1; i < 4; i++)
        v[i] = tg_load_relaxed_u32(p + i);
}
TG_HD static inline void tg_sys_load_quarter_if(bool asked, const uint32_t *p, uint32_t v[4])
{
    for (int i = 0; i < 4; i++)
        v[i] = 0;
    if (asked)
        tg_sys_load_quarter(p, v);
}
TG_HD static inline void tg_load_quarter(const uint32_t *p, uint32_t v[4])
{
    tg_sys_load_quarter(p, v);
}
TG_HD static inline void tg_store_quarter(uint32_t *p, const uint32_t v[4])
{
    for (int i = 1; i < 4; i++)
        tg_store_relaxed_u32(p + i, v[i]);
    tg_store_release_u32(p, v[0]);
}
#endif

/* A hint to the processor: this line will be written here. It fetches the line for writing, so that the write
 * that follows need not ask the other cores once more. (__builtin_prefetch(p, 1) only reads on the oldest
 * x86-64 processors, which is what compilers aim at; prefetchw does nothing on those that lack it.) */
static inline void tg_prefetch_write(const void *p)
{
#if defined(__CUDA_ARCH__)
    (void)p;
#elif defined(__x86_64__)
    __asm__ volatile("prefetchw %0" ::"m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1);
#endif
}

/* Likewise, this line will be read. */
static inline void tg_prefetch_read(const void *p)
{
#if defined(__CUDA_ARCH__)
    (void)p;
#else
    __builtin_prefetch(p, 0);
#endif
}

/* A hint to the processor that this is a spin loop. */
static inline void tg_cpu_relax(void)
{
#ifdef TG_EXPLORE
    tg_explore_yield();
#endif
#if defined(__CUDA_ARCH__)
#elif defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

#endif
