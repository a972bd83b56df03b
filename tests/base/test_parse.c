/* SPDX-License-Identifier: Apache-2.0
 * Strict numbers: cases N1, N2, N4, N5 at the level of the parser. */
#include <errno.h>
#include <stdint.h>

#include "base/parse.h"
#include "check.h"

static void n1_whole_string_or_nothing(void)
{
    static const char *bad[] = {"-1",  "",     " 5",  "5 ",  "5x",
                                "1e3", "0x10", "+5",  "1.5", "--1",
                                "\t5", "five", "5\n", "1,0", "9999999999999999999999x"};
    uint64_t out = 77;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(tg_parse_u64(bad[i], 0, UINT64_MAX, &out), -EINVAL);
        CHECK(tg_parse_size_mb(bad[i], &out) == -EINVAL || tg_parse_size_mb(bad[i], &out) == -ERANGE);
        CHECK_EQ(out, 77);
    }
    CHECK_EQ(tg_parse_u64("18446744073709551616", 0, UINT64_MAX, &out), -ERANGE);
    CHECK_EQ(tg_parse_u64("99999999999999999999", 0, UINT64_MAX, &out), -ERANGE);
    CHECK_EQ(tg_parse_u64("18446744073709551615", 0, UINT64_MAX, &out), 0);
    CHECK(out == UINT64_MAX);
    CHECK_EQ(tg_parse_u64("4", 5, 9, &out), -ERANGE);
}

static void n1_signed(void)
{
    int64_t out = 77;
    CHECK_EQ(tg_parse_i64("-5", INT64_MIN, INT64_MAX, &out), 0);
    CHECK_EQ(out, -5);
    CHECK_EQ(tg_parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &out), 0);
    CHECK(out == INT64_MIN);
    CHECK_EQ(tg_parse_i64("9223372036854775808", INT64_MIN, INT64_MAX, &out), -ERANGE);
    CHECK_EQ(tg_parse_i64("-", INT64_MIN, INT64_MAX, &out), -EINVAL);
    CHECK_EQ(tg_parse_i64("--5", INT64_MIN, INT64_MAX, &out), -EINVAL);
}

static void n4_sizes_do_not_wrap(void)
{
    uint64_t out = 0;
    CHECK_EQ(tg_parse_size_mb("6G", &out), 0);
    CHECK_EQ(out, 6144);
    CHECK_EQ(tg_parse_size_mb("1500", &out), 0);
    CHECK_EQ(out, 1500);
    CHECK_EQ(tg_parse_size_mb("18446744073709551615T", &out), -ERANGE);
    CHECK_EQ(tg_parse_size_mb("17592186044416", &out), -ERANGE);
    CHECK_EQ(tg_parse_size_mb("1.5G", &out), -EINVAL);
    CHECK_EQ(out, 1500);
}

static void durations(void)
{
    uint64_t out = 0;
    CHECK_EQ(tg_parse_duration_ms("250ms", &out), 0);
    CHECK_EQ(out, 250);
    CHECK_EQ(tg_parse_duration_ms("2", &out), 0);
    CHECK_EQ(out, 2000);
    CHECK_EQ(tg_parse_duration_ms("1h", &out), 0);
    CHECK_EQ(out, 3600000);
    CHECK_EQ(tg_parse_duration_ms("1w", &out), -EINVAL);
}

int main(void)
{
    RUN(n1_whole_string_or_nothing);
    RUN(n1_signed);
    RUN(n4_sizes_do_not_wrap);
    RUN(durations);
    return 0;
}
