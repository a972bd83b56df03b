/* SPDX-License-Identifier: Apache-2.0
 *
 * ring_vectors FILE: replays a file of wire vectors, one JSON call a line, against this implementation.
 * Each line runs twice, with its buffers at a word boundary and one byte beside it, and must give exactly the
 * result, error, bytes and vector that it names. Failing lines go to stderr; stdout closes with
 * 'N passed, M failed'. Exit 0 when all passed, 1 when one failed or there was none, 2 for wrong usage.
 */
#include "vectors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first byte of a hex string as a number is of no help; the first difference is. */
static void show_difference(const char *what, const json_t *expected, const json_t *actual)
{
    const char *e = json_string_value(expected), *a = json_string_value(actual);
    if (e && a) {
        size_t i = 0;
        while (e[i] && e[i] == a[i])
            i++;
        fprintf(stderr, "  %s differs at byte %zu: expected ..%.8s (%zu bytes), got ..%.8s (%zu bytes)\n",
                what, i / 2, e + i / 2 * 2, strlen(e) / 2, a + i / 2 * 2, strlen(a) / 2);
        return;
    }
    char *et = json_dumps(expected, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    char *at = json_dumps(actual, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    fprintf(stderr, "  %s: expected %.300s, got %.300s\n", what, et ? et : "nothing", at ? at : "nothing");
    free(et);
    free(at);
}

static bool same(const char *what, const json_t *expected, const json_t *actual)
{
    if (expected == actual || (expected && actual && json_equal(expected, actual)))
        return true;
    show_difference(what, expected, actual);
    return false;
}

/* Does what the call did agree with the line? */
static bool judge(const json_t *line, const struct call *call)
{
    const json_t *bytes = json_object_get(line, "bytes_after");
    /* A line that does not speak of the bytes says that they stay. */
    bool good = same("out", json_object_get(line, "out"), call->out);
    good = same("bytes_after", bytes ? bytes : call->bytes_before, call->bytes_after) && good;
    return same("out_after", json_object_get(line, "out_after"), call->out_after) && good;
}

static bool known_keys(const json_t *line)
{
    static const char *const known[] = {"fn", "in", "out", "bytes_after", "out_after"};
    size_t found = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found += json_object_get(line, known[i]) != NULL;
    return found == json_object_size(line);
}

/* Runs one parsed line with its buffers at the given shift. */
static bool run_shifted(json_t *line, call_fn fn, bool free_form, size_t shift)
{
    struct call call = {
        .line = line, .in = json_object_get(line, "in"), .free_form = free_form, .shift = shift};
    fn(&call);
    bool good = false;
    if (call.bad)
        fprintf(stderr, "  input missing or unfit: %s\n", call.bad);
    else if (call.fields_used != json_object_size(call.in))
        fprintf(stderr, "  inputs that the function does not take\n");
    else
        good = judge(line, &call);
    call_clear(&call);
    return good;
}

static bool run_line(const char *text, size_t number)
{
    char reason[256];
    bool free_form, good = false;
    json_t *line = line_parse(text, reason, sizeof reason);
    const char *name = json_string_value(json_object_get(line, "fn"));
    call_fn fn = name ? call_find(name, &free_form) : NULL;
    if (!line)
        fprintf(stderr, "  %s\n", reason);
    else if (!fn)
        fprintf(stderr, "  unknown function %s\n", name ? name : "(none)");
    else if (!json_is_object(json_object_get(line, "in")) || !json_object_get(line, "out") ||
             !known_keys(line))
        fprintf(stderr, "  not {fn, in, out[, bytes_after][, out_after]}\n");
    else
        good = run_shifted(line, fn, free_form, 0) && run_shifted(line, fn, free_form, 1);
    if (!good)
        fprintf(stderr, "line %zu FAILED: %s\n", number, name ? name : text);
    json_decref(line);
    return good;
}

/* A line without its end; false for one that holds nothing, or a NUL that would hide the rest of it. */
static bool trim(char *line, size_t length, bool *ret_nul)
{
    *ret_nul = memchr(line, 0, length) != NULL;
    while (length > 0 && strchr("\r\n\t ", line[length - 1]) && line[length - 1])
        line[--length] = 0;
    return length > 0;
}

static int replay(FILE *file)
{
    size_t size = 0, number = 0, passed = 0, failed = 0;
    char *line = NULL;
    ssize_t length;
    errno = 0;
    while ((length = getline(&line, &size, file)) >= 0) {
        bool nul;
        number++;
        if (!trim(line, (size_t)length, &nul))
            continue;
        if (nul)
            fprintf(stderr, "line %zu FAILED: holds a NUL byte\n", number);
        if (!nul && run_line(line, number))
            passed++;
        else
            failed++;
    }
    free(line);
    if (ferror(file) || errno == ENOMEM) {
        fprintf(stderr, "cannot read on after line %zu: %s\n", number, strerror(errno));
        failed++;
    }
    if (passed + failed == 0)
        fprintf(stderr, "no vectors in the file\n");
    printf("%zu passed, %zu failed\n", passed, failed);
    return passed > 0 && failed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: ring_vectors FILE\n");
        return 2;
    }
    FILE *file = fopen(argv[1], "r");
    if (!file) {
        fprintf(stderr, "ring_vectors: %s: %s\n", argv[1], strerror(errno));
        return 2;
    }
    const int r = replay(file);
    fclose(file);
    return r;
}
