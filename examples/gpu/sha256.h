/* SPDX-License-Identifier: Apache-2.0
 * SHA-256 (FIPS 180-4) of bytes that lie at a multiple of 4, for the host and for one lane of a GPU alike. */
#ifndef EXAMPLE_SHA256_H
#define EXAMPLE_SHA256_H

#include <stdint.h>

#include <tidegate/hd.h>

#define SHA_ROUND_WORDS                                                                                      \
    0x428a2f98u, 0x71374491u, 0xb5c0fbcfu, 0xe9b5dba5u, 0x3956c25bu, 0x59f111f1u, 0x923f82a4u, 0xab1c5ed5u,  \
        0xd807aa98u, 0x12835b01u, 0x243185beu, 0x550c7dc3u, 0x72be5d74u, 0x80deb1feu, 0x9bdc06a7u,           \
        0xc19bf174u, 0xe49b69c1u, 0xefbe4786u, 0x0fc19dc6u, 0x240ca1ccu, 0x2de92c6fu, 0x4a7484aau,           \
        0x5cb0a9dcu, 0x76f988dau, 0x983e5152u, 0xa831c66du, 0xb00327c8u, 0xbf597fc7u, 0xc6e00bf3u,           \
        0xd5a79147u, 0x06ca6351u, 0x14292967u, 0x27b70a85u, 0x2e1b2138u, 0x4d2c6dfcu, 0x53380d13u,           \
        0x650a7354u, 0x766a0abbu, 0x81c2c92eu, 0x92722c85u, 0xa2bfe8a1u, 0xa81a664bu, 0xc24b8b70u,           \
        0xc76c51a3u, 0xd192e819u, 0xd6990624u, 0xf40e3585u, 0x106aa070u, 0x19a4c116u, 0x1e376c08u,           \
        0x2748774cu, 0x34b0bcb5u, 0x391c0cb3u, 0x4ed8aa4au, 0x5b9cca4fu, 0x682e6ff3u, 0x748f82eeu,           \
        0x78a5636fu, 0x84c87814u, 0x8cc70208u, 0x90befffau, 0xa4506cebu, 0xbef9a3f7u, 0xc67178f2u

TG_HD static inline uint32_t sha_turn(uint32_t x, uint32_t n)
{
    return x >> n | x << (32 - n);
}

TG_HD static inline uint32_t sha_big_endian(uint32_t x)
{
    return x >> 24 | (x >> 8 & 0xFF00u) | (x << 8 & 0xFF0000u) | x << 24;
}

/* One block of 16 words (already big-endian values), which are used up. */
TG_HD static inline void sha_block(uint32_t state[8], uint32_t w[16])
{
    const uint32_t k[64] = {SHA_ROUND_WORDS};
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int i = 0; i < 64; i++) {
        if (i >= 16) {
            uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i & 15] += (sha_turn(x, 7) ^ sha_turn(x, 18) ^ x >> 3) + w[(i + 9) & 15] +
                         (sha_turn(y, 17) ^ sha_turn(y, 19) ^ y >> 10);
        }
        uint32_t t = h + (sha_turn(e, 6) ^ sha_turn(e, 11) ^ sha_turn(e, 25)) + ((e & f) ^ (~e & g)) + k[i] +
                     w[i & 15];
        uint32_t u = (sha_turn(a, 2) ^ sha_turn(a, 13) ^ sha_turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t;
        d = c;
        c = b;
        b = a;
        a = t + u;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

/* digest: 8 words, as values (print each with %08x). */
TG_HD static inline void sha256(const uint32_t *bytes, uint64_t n, uint32_t digest[8])
{
    const uint32_t first[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                               0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
    uint32_t w[16];
    for (int i = 0; i < 8; i++)
        digest[i] = first[i];
    for (uint64_t at = 0; at + 64 <= n; at += 64, bytes += 16) {
        for (int i = 0; i < 16; i++)
            w[i] = sha_big_endian(bytes[i]);
        sha_block(digest, w);
    }
    /* What is left, a one bit, zeros, the length in bits: one block more, or two. */
    uint32_t left = (uint32_t)(n & 63u);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t have = left > 4 * i ? left - 4 * i : 0, word = 0;
        if (have >= 4)
            word = sha_big_endian(bytes[i]);
        else
            for (uint32_t k = 0; k < have; k++)
                word |= (uint32_t)((const uint8_t *)(bytes + i))[k] << (24 - 8 * k);
        if (have < 4 && left / 4 == i)
            word |= 0x80000000u >> 8 * have;
        w[i] = word;
    }
    if (left >= 56) {
        sha_block(digest, w);
        for (int i = 0; i < 16; i++)
            w[i] = 0;
    }
    w[14] = (uint32_t)(n >> 29);
    w[15] = (uint32_t)(n << 3);
    sha_block(digest, w);
}

#endif
