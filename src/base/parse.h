/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict parsing of what people type (cases N1 to N5). The whole string must be the value: no blanks,
 * no sign where none is meant, no hexadecimal, no exponent, no trailing text, nothing out of range.
 * Each returns 0 and writes *out, or returns -EINVAL (not a number of this form) or -ERANGE (outside
 * [min, max]) and writes nothing. Thread-safe; no locale.
 */
#ifndef TG_BASE_PARSE_H
#define TG_BASE_PARSE_H

#include <stdint.h>

/* Decimal digits only. */
int tg_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
/* An optional leading '-', then decimal digits. */
int tg_parse_i64(const char *text, int64_t min, int64_t max, int64_t *out);
/* A size in MB: digits with an optional suffix M, G or T (also MB, MiB, ...; all binary); none means M. */
int tg_parse_size_mb(const char *text, uint64_t *out);
/* A duration in ms: digits with an optional suffix ms, s, m, h or d; none means seconds. */
int tg_parse_duration_ms(const char *text, uint64_t *out);

#endif
