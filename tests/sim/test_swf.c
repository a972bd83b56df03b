/* SPDX-License-Identifier: Apache-2.0
 * The reader of workload traces: what it takes, and what it refuses with the line and the reason. */
#include "sim/swf.h"

#include <errno.h>

#include "check.h"

static int parse(const char *text, struct tg_swf *swf, struct tg_swf_error *err)
{
    return tg_swf_parse(text, strlen(text), swf, err);
}

static void takes_comments_blanks_and_a_last_line_without_end(void)
{
    struct tg_swf swf;
    struct tg_swf_error err;
    CHECK_EQ(parse("; Version: 2\n\n  \t\n"
                   " 7\t10 -1 20 4 19.75 -1 8 60 -1 1 -1 -1 -1 0 -1 -1 -1 \r\n"
                   "   ; indented 1 2 3\n"
                   "8 11 -1 -1 -1 -1 -1 16 -1 -1 -1 -1 -1 -1 0 -1 -1 -1",
                   &swf, &err),
             0);
    CHECK_EQ(swf.n, 2);
    CHECK(swf.job[0].number == 7 && swf.job[0].submit_s == 10 && swf.job[0].run_s == 20);
    CHECK(swf.job[0].procs == 4 && swf.job[0].request_s == 60);
    CHECK(swf.job[1].procs == 16); /* not allocated: requested */
    CHECK(swf.job[1].run_s == -1 && swf.job[1].request_s == -1);
    tg_swf_free(&swf);
    CHECK_EQ(parse("", &swf, &err), 0);
    CHECK_EQ(swf.n, 0);
    tg_swf_free(&swf);
    tg_swf_free(NULL);
}

static void refuses(const char *line, int code, const char *word)
{
    static const char good[] = "1 0 -1 1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n";
    char text[8192];
    snprintf(text, sizeof(text), "; head\n%s%s\n%s", good, line, good);
    struct tg_swf swf = {(void *)1, 77};
    struct tg_swf_error err = {0};
    CHECK_EQ(parse(text, &swf, &err), code);
    CHECK_EQ(err.line, 3);
    CHECK(err.what && strstr(err.what, word));
    CHECK(swf.n == 77); /* written only on success */
}

static void refuses_with_line_and_reason(void)
{
    refuses("1 2 3", -EINVAL, "fewer");
    refuses("1 0 -1 1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1 -1", -EINVAL, "more than 18");
    refuses("x 0 -1 1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -EINVAL, "not a number");
    refuses("1 0 -1 1e3 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -EINVAL, "not a number");
    refuses("1 0 -1 0x1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -EINVAL, "not a number");
    refuses("1 0 - 1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -EINVAL, "not a number");
    refuses("1 0 -1 1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 +1", -EINVAL, "not a number");
    refuses("1 0 -1 1 1 .5 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -EINVAL, "not a number");
    refuses("1 0 -1 1.5 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -EINVAL, "whole");
    refuses("1 0 -1 99999999999999999999 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -EINVAL, "range");
    refuses("-1 0 -1 1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -ERANGE, "field 1");
    refuses("1 -2 -1 1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -ERANGE, "field 2");
    refuses("1 0 -1 1099511627777 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -ERANGE, "field 4");
    refuses("1 0 -1 1 2147483648 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -ERANGE, "field 5");
    refuses("1 0 -1 1 1 -1 -1 -5 -1 -1 1 -1 -1 -1 0 -1 -1 -1", -ERANGE, "field 8");
    refuses("1 0 -1 1 1 -1 -1 -1 -7 -1 1 -1 -1 -1 0 -1 -1 -1", -ERANGE, "field 9");
    char longest[TG_SWF_MAX_LINE + 2];
    memset(longest, ' ', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    refuses(longest, -EINVAL, "too long");
}

static void refuses_a_zero_byte_in_a_line(void)
{
    static const char text[] = "1 0 -1 1 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 \0001\n";
    struct tg_swf swf;
    struct tg_swf_error err;
    CHECK_EQ(tg_swf_parse(text, sizeof(text) - 1, &swf, &err), -EINVAL);
    CHECK_EQ(err.line, 1);
}

static void a_file_that_is_not_there_says_so(void)
{
    struct tg_swf swf;
    struct tg_swf_error err;
    CHECK_EQ(tg_swf_load("/nonexistent/trace.swf", &swf, &err), -ENOENT);
    CHECK_EQ(err.line, 0);
    CHECK_EQ(tg_swf_load("/", &swf, &err), -EISDIR);
}

/* Any bytes give a trace or an error with a line of the text, and nothing is read beyond the end. */
static void property_hostile_bytes(void)
{
    static const char seedling[] = "; c\n1 0 -1 5 2 1.5 -1 -1 9 -1 1 -1 -1 -1 0 -1 -1 -1\n"
                                   "2 3 -1 7 1 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1\n";
    static const char alphabet[] = "0123456789-.; \t\r\n\0xe+";
    uint64_t seed = 9;
    for (int round = 0; round < 20000; round++) {
        size_t len = check_random(&seed) % sizeof(seedling);
        char *text = malloc(len + 1); /* exact, for the sanitizer; + 1 as malloc(0) may be NULL */
        CHECK(text);
        memcpy(text, seedling, len);
        for (uint64_t edits = check_random(&seed) % 4; edits > 0 && len > 0; edits--)
            text[check_random(&seed) % len] = check_random(&seed) % 4
                                                  ? alphabet[check_random(&seed) % sizeof(alphabet)]
                                                  : (char)check_random(&seed);
        struct tg_swf swf;
        struct tg_swf_error err = {0};
        if (tg_swf_parse(text, len, &swf, &err) == 0)
            tg_swf_free(&swf);
        else
            CHECK(err.line >= 1 && err.line <= len + 1 && err.what);
        free(text);
    }
}

int main(void)
{
    RUN(takes_comments_blanks_and_a_last_line_without_end);
    RUN(refuses_with_line_and_reason);
    RUN(refuses_a_zero_byte_in_a_line);
    RUN(a_file_that_is_not_there_says_so);
    RUN(property_hostile_bytes);
    return 0;
}
