/* SPDX-License-Identifier: Apache-2.0
 * The verbs below `engine`, called as the command calls them: items in, results out, nothing lost; bad lines
 * named with their number; buffers dumped and refused. */
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <unistd.h>

#include <tidegate/engine.h>

#include "cli/cli.h"

#include "check.h"

static char out[1 << 20], err[1 << 16];
static int output = -1; /* where the output goes that is not to be caught */
static char dir[] = "/tmp/tg-engine-XXXXXX";

static const char *path(const char *name)
{
    static char paths[4][64];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof(paths[0]), "%s/%s", dir, name);
    return p;
}

static void caught(FILE *from, char *to, size_t size)
{
    rewind(from);
    size_t n = fread(to, 1, size - 1, from);
    CHECK(n < size - 1);
    to[n] = '\0';
    fclose(from);
}

/* Runs `engine WORDS` with both outputs caught; returns the exit code. */
static int engine(const char *const *words)
{
    char *argv[24];
    int argc = 0;
    for (; words[argc]; argc++) {
        CHECK(argc < 23);
        argv[argc] = strdup(words[argc]);
        CHECK(argv[argc]);
    }
    argv[argc] = NULL;
    FILE *f[2] = {tmpfile(), tmpfile()};
    CHECK(f[0] && f[1]);
    fflush(stdout);
    int kept[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    CHECK(dup2(fileno(f[0]), STDOUT_FILENO) >= 0 && dup2(fileno(f[1]), STDERR_FILENO) >= 0);
    CHECK(output < 0 || dup2(output, STDOUT_FILENO) >= 0);
    int rc = tg_verb_engine(argc, argv);
    fflush(stdout);
    CHECK(dup2(kept[0], STDOUT_FILENO) >= 0 && dup2(kept[1], STDERR_FILENO) >= 0);
    close(kept[0]);
    close(kept[1]);
    caught(f[0], out, sizeof(out));
    caught(f[1], err, sizeof(err));
    for (int k = 0; k < argc; k++)
        free(argv[k]);
    return rc;
}

#define ENGINE(...) engine((const char *const[]){"engine", __VA_ARGS__, NULL})

static void write_file(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(path(name), "w");
    CHECK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

/* The object of output line n (from 0), which the caller frees. */
static json_t *line(int n)
{
    const char *at = out;
    for (; n > 0 && at; n--) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    CHECK(at && *at);
    json_t *object = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
    CHECK(object);
    return object;
}

static int lines(void)
{
    int n = 0;
    for (const char *at = out; (at = strchr(at, '\n')) != NULL; at++)
        n++;
    return n;
}

static void check_line(int n, int64_t number, const char *status, int64_t reason)
{
    json_t *object = line(n);
    CHECK_EQ(json_integer_value(json_object_get(object, "line")), number);
    CHECK(strcmp(json_string_value(json_object_get(object, "status")), status) == 0);
    if (reason)
        CHECK_EQ(json_integer_value(json_object_get(object, "reason_code")), reason);
    json_decref(object);
}

static int64_t summary(const char *key, const char *inner)
{
    json_t *object = line(lines() - 1);
    const json_t *value = json_object_get(json_object_get(object, "summary"), key);
    if (inner)
        value = json_object_get(value, inner);
    CHECK(value);
    int64_t n = json_integer_value(value);
    json_decref(object);
    return n;
}

static void results_come_in_the_order_of_the_input(void)
{
    write_text("in", "{\"op\": \"SPIN_US\", \"args\": [20000], \"id\": {\"x\": [1]}}\n"
                     "{\"op\": \"STORE_U32\", \"args\": [7, 160], \"priority\": \"high\"}\n"
                     "\n"
                     "{\"op\": 99, \"tenant\": 28}\n"
                     "{\"op\": \"store_u32\", \"args\": [1, 2], \"priority\": 4}");
    CHECK_EQ(ENGINE("run", path("in"), "--workers", "2", "--summary=json"), 1);
    CHECK_EQ(lines(), 5);
    check_line(0, 1, "done", 0);
    CHECK(strstr(out, "\"id\": {\"x\":[1]}"));
    check_line(1, 2, "done", 0);
    check_line(2, 4, "fault", TG_FAULT_UNKNOWN_OPCODE);
    check_line(3, 5, "fault", TG_FAULT_CONTROL_DENIED);
    CHECK_EQ(summary("items", NULL), 4);
    CHECK_EQ(summary("done", NULL), 2);
    CHECK_EQ(summary("faults", NULL), 2);
    CHECK_EQ(summary("observables", "0"), 7);
    CHECK_EQ(summary("device_submitted", NULL), 0);
    /* A level of which nothing was measured has no latency. */
    CHECK(strstr(out, "\"critical\": {\"claims\": 0, \"done\": 0, \"faults\": 0, \"p50_ns\": null, "));
}

static void or_in_the_order_of_completion(void)
{
    /* Longer where the machine does not let the second worker run meanwhile. */
    for (int spin_us = 100000, tries = 0; tries < 10;
         spin_us = spin_us < 500000 ? 2 * spin_us : 1000000, tries++) {
        char text[100];
        snprintf(text, sizeof(text), "{\"op\": \"SPIN_US\", \"args\": [%d]}\n{\"op\": \"NOP\"}\n", spin_us);
        write_text("in", text);
        CHECK_EQ(ENGINE("run", path("in"), "--workers", "2", "--order", "completion"), 0);
        json_t *first = line(0);
        bool shown = json_integer_value(json_object_get(first, "line")) == 2;
        json_decref(first);
        if (shown)
            break;
    }
    check_line(0, 2, "done", 0);
    check_line(1, 1, "done", 0);
    CHECK(strstr(err, "2 lines, 2 items: 2 done"));
}

static void packed_items_run_every_inner_op(void)
{
    write_text("in", "{\"packed\": [{\"op\": \"STORE_U32\", \"args\": [3, 161]},"
                     "{\"op\": \"ATOMIC_ADD\", \"args\": [4, 161]}, {\"op\": \"NOP\"}]}\n"
                     "{\"packed\": []}\n");
    CHECK_EQ(ENGINE("run", path("in"), "--summary=json"), 0);
    CHECK_EQ(summary("observables", "1"), 7);
}

static void e5_a_batch_is_one_line_and_its_fence_is_last(void)
{
    write_text("in", "{\"batch\": [{\"op\": \"NOP\"}, {\"op\": 99}, {\"op\": \"ATOMIC_ADD\", \"args\": [1, "
                     "161]}], \"tag\": 42, \"priority\": \"low\"}\n{\"batch\": [], \"tag\": 43}\n");
    CHECK_EQ(ENGINE("run", path("in"), "--workers", "1", "--summary=json"), 1);
    check_line(0, 1, "done", 0);
    json_t *object = line(0);
    json_t *items = json_object_get(object, "items");
    CHECK_EQ(json_array_size(items), 3);
    CHECK(strcmp(json_string_value(json_object_get(json_array_get(items, 1), "status")), "fault") == 0);
    json_decref(object);
    CHECK_EQ(summary("epoch", NULL), 2);
    CHECK_EQ(summary("items", NULL), 5);
}

static void load_miss_is_served_from_a_folder(void)
{
    write_text("7", "bytes");
    write_text("in", "{\"op\": \"LOAD_MISS\", \"args\": [7, 1]}\n{\"op\": \"LOAD_MISS\", \"args\": [8]}\n");
    CHECK_EQ(ENGINE("run", path("in"), "--io", dir), 1);
    check_line(0, 1, "done", 0);
    check_line(1, 2, "fault", TG_FAULT_IO);
    CHECK_EQ(ENGINE("run", path("in")), 0);
}

static void dfa_step_follows_a_table_from_a_file(void)
{
    static uint32_t table[2][256];
    table[0]['a'] = 1;
    write_file("dfa", table, sizeof(table));
    write_text("in",
               "{\"op\": \"DFA_STEP\", \"args\": [0, 97, 5]}\n{\"op\": \"DFA_STEP\", \"args\": [2, 0]}\n");
    CHECK_EQ(ENGINE("run", path("in"), "--dfa", path("dfa"), "--summary=json"), 1);
    CHECK_EQ(summary("observables", "5"), 1);
    check_line(1, 2, "fault", TG_FAULT_DFA);
    write_file("dfa", table, 1000);
    CHECK_EQ(ENGINE("run", path("in"), "--dfa", path("dfa")), 2);
    CHECK(strstr(err, "is not a table"));
}

/* E8: what may not run is handed back and said so; a stopped engine refuses what follows, and says so. */
static void e8_nothing_is_lost(void)
{
    write_text("in", "{\"op\": \"NOP\", \"tenant\": 5}\n{\"op\": \"NOP\"}\n");
    CHECK_EQ(ENGINE("run", path("in"), "--tenants", "2", "--summary=json"), 1);
    check_line(0, 1, "handed_back", 0);
    check_line(1, 2, "done", 0);
    write_text("in", "{\"op\": \"SHUTDOWN\", \"priority\": 0}\n{\"op\": \"SPIN_US\", \"args\": [50000]}\n"
                     "{\"op\": \"NOP\"}\n{\"op\": \"NOP\"}\n");
    int rc = ENGINE("run", path("in"), "--unrestricted", "--workers", "1", "--summary=json");
    CHECK(rc == 0 || rc == 1); /* how many are refused is a race; that each is answered is not */
    CHECK_EQ(lines(), 5);
    CHECK_EQ(summary("done", NULL) + summary("refused", NULL) + summary("handed_back", NULL), 4);
}

/* A level full of items that may not run: reading stops, everything is accounted for. */
static void e8_a_stall_ends(void)
{
    FILE *f = fopen(path("in"), "w");
    CHECK(f);
    for (int i = 0; i < 200; i++)
        fprintf(f, "{\"op\": \"NOP\", \"tenant\": 5}\n");
    CHECK_EQ(fclose(f), 0);
    CHECK_EQ(ENGINE("run", path("in"), "--tenants", "2", "--slots", "160", "--stall", "1s"), 125);
    CHECK(strstr(err, "stopped reading"));
    int n = lines();
    CHECK_EQ(n, 15); /* 7/16 of 32 slots, and the line that got no slot */
    check_line(0, 1, "handed_back", 0);
    check_line(n - 1, 15, "refused", 0);
}

/* Rings far smaller than the input, faults everywhere: each line has its own result. */
static void e1_every_line_has_its_result(void)
{
    enum { N = 6000 };
    static const char *const ways[] = {"input", "completion"};
    static bool seen[N];
    FILE *f = fopen(path("in"), "w");
    CHECK(f);
    for (int i = 0; i < N; i++)
        fprintf(f, "{\"op\": %d, \"priority\": %d, \"id\": %d}\n", i % 3 ? 0 : 99, i % 5, i);
    CHECK_EQ(fclose(f), 0);
    for (int way = 0; way < 2; way++) {
        CHECK_EQ(ENGINE("run", path("in"), "--slots", "40", "--workers", "3", "--order", ways[way]), 1);
        CHECK_EQ(lines(), N);
        memset(seen, 0, sizeof(seen));
        const char *at = out;
        for (int i = 0; i < N; i++, at = strchr(at, '\n') + 1) {
            int number, id;
            char status[16];
            CHECK_EQ(sscanf(at, "{\"line\": %d, \"id\": %d, \"status\": \"%15[a-z]", &number, &id, status),
                     3);
            CHECK(number == id + 1 && id >= 0 && id < N && !seen[id]);
            CHECK(strcmp(status, id % 3 ? "done" : "fault") == 0);
            seen[id] = true;
            if (way == 0)
                CHECK_EQ(id, i);
        }
    }
}

static const struct {
    const char *text, *why;
} bad[] = {
    {"{\"op\": \"NOP\"", "not JSON"},
    {"[1]", "must be a JSON object"},
    {"{}", "either \"op\" or \"packed\""},
    {"{\"op\": \"NOP\", \"op\": \"NOP\"}", "not JSON: duplicate"},
    {"{\"op\": \"FLY\"}", "no opcode 'FLY'"},
    {"{\"op\": -1}", "\"op\" is -1"},
    {"{\"op\": 4294967296}", "\"op\" is 4294967296"},
    {"{\"op\": 1.5}", "not a whole number"},
    {"{\"op\": 65520}", "reserved"},
    {"{\"op\": 2147483648}", "reserved"},
    {"{\"op\": \"NOP\", \"tenant\": 29}", "(E4"},
    {"{\"op\": \"NOP\", \"tenant\": 4294967295}", "(E4"},
    {"{\"op\": \"NOP\", \"priority\": 5}", "(E2)"},
    {"{\"op\": \"NOP\", \"priority\": \"urgent\"}", "(E2)"},
    {"{\"op\": \"NOP\", \"args\": [0,0,0,0,0,0,0,0,0,0,0,0,0]}", "13 words; a slot holds 12"},
    {"{\"op\": \"NOP\", \"args\": [0, \"1\"]}", "argument 1 is a string"},
    {"{\"op\": \"NOP\", \"args\": 3}", "must be a list"},
    {"{\"op\": \"NOP\", \"agrs\": []}", "does not know the key 'agrs'"},
    {"{\"op\": \"BATCH_FENCE\", \"args\": [3, 1]}", "(E5)"},
    {"{\"op\": \"NOP\", \"tag\": 1}", "\"tag\" belongs to a \"batch\""},
    {"{\"op\": \"LOAD_MISS\", \"args\": [1], \"tenant\": 1}", "tenant 0"},
    {"{\"op\": \"LOAD_MISS\"}", "takes a resource"},
    {"{\"batch\": [{\"op\": \"LOAD_MISS\", \"args\": [1]}]}", "cannot stand in a batch"},
    {"{\"batch\": 1}", "must be a list"},
    {"{\"batch\": [], \"op\": 1}", "either \"batch\" or one item"},
    {"{\"packed\": [{\"op\": 256}]}", "at most 255"},
    {"{\"packed\": [{\"op\": 1, \"args\": [1,2,3,4,5,6]}, {\"op\": 1, \"args\": [1,2,3,4,5]}]}",
     "do not fit"},
    {"{\"packed\": [], \"args\": []}", "in the operations"},
};

static void a_bad_line_is_named_with_its_number_and_rule(void)
{
    char text[400];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "{\"op\": \"NOP\"}\n\n%s\n{\"op\": \"NOP\"}\n", bad[i].text);
        write_text("in", text);
        CHECK_EQ(ENGINE("run", path("in")), 2);
        if (!strstr(err, bad[i].why) || !strstr(err, ":3: "))
            fprintf(stderr, "%s -> %s", bad[i].text, err);
        CHECK(strstr(err, ":3: ") && strstr(err, bad[i].why));
        CHECK_EQ(lines(), 1); /* what stood before it ran, what stands behind it did not */
        check_line(0, 1, "done", 0);
        CHECK_EQ(ENGINE("run", path("in"), "--keep-going"), 2);
        CHECK_EQ(lines(), 3);
        check_line(1, 3, "malformed", 0);
        check_line(2, 4, "done", 0);
    }
}

static void long_and_endless_lines_are_refused_in_bounded_memory(void)
{
    FILE *f = fopen(path("in"), "w");
    CHECK(f);
    fprintf(f, "{\"op\": \"NOP\"}\n");
    for (int i = 0; i < 3 << 16; i++)
        fputs("0123456789abcdef", f);
    fprintf(f, "\n{\"op\": \"NOP\"}\n");
    for (int i = 0; i < 1 << 17; i++)
        fputs("0123456789abcdef", f);
    CHECK_EQ(fclose(f), 0);
    CHECK_EQ(ENGINE("run", path("in"), "--keep-going"), 2);
    CHECK_EQ(lines(), 4);
    check_line(1, 2, "malformed", 0);
    check_line(2, 3, "done", 0);
    check_line(3, 4, "malformed", 0);
}

static void a_batch_too_large_for_its_level_is_refused(void)
{
    write_text("in", "{\"batch\": [{\"op\": 0}, {\"op\": 0}, {\"op\": 0}]}\n");
    CHECK_EQ(ENGINE("run", path("in"), "--slots", "40"), 2);
    CHECK(strstr(err, "it needs 4 slots of the normal level at once; with --slots 40 that level can give 3"));
}

static void wrong_arguments_are_named(void)
{
    CHECK_EQ(ENGINE("fly"), 2);
    CHECK(strstr(err, "no verb 'fly'"));
    CHECK_EQ(engine((const char *const[]){"engine", NULL}), 2);
    CHECK(strstr(err, "usage: tidegate engine"));
    CHECK_EQ(ENGINE("--help"), 0);
    CHECK(strstr(out, "run") && strstr(out, "bench") && strstr(out, "dump"));
    CHECK_EQ(ENGINE("run", "--help"), 0);
    CHECK(strstr(out, "--keep-going"));
    CHECK_EQ(ENGINE("run", "--slots", "4"), 2);
    CHECK_EQ(ENGINE("run", "--slots", "1048577"), 2);
    CHECK_EQ(ENGINE("run", "--order", "random"), 2);
    CHECK(strstr(err, "input, completion"));
    CHECK_EQ(ENGINE("run", "--pin", "0,x"), 2);
    CHECK_EQ(ENGINE("run", "--pin", "1023", "/dev/null"), 125);
    CHECK(strstr(err, "a processor of --pin is not there"));
    CHECK_EQ(ENGINE("run", "--backend", "abacus"), 2);
    CHECK(strstr(err, "no backend 'abacus'") && strstr(err, "cpu, cuda"));
    CHECK_EQ(ENGINE("run", "a", "b"), 2);
    CHECK_EQ(ENGINE("run", "/nonexistent"), 125);
    CHECK(strstr(err, "cannot read /nonexistent"));
    CHECK_EQ(ENGINE("dump"), 2);
    CHECK_EQ(ENGINE("dump", "x"), 2);
    CHECK_EQ(ENGINE("dump", "--ring", "/nonexistent"), 125);
    CHECK_EQ(ENGINE("dump", "--ring", "/dev/zero"), 125);
    CHECK(strstr(err, "File too large"));
    CHECK_EQ(ENGINE("dump", "--ring", "-", "--log", "-"), 2);
    CHECK(strstr(err, "holds one buffer, not 2"));
    CHECK_EQ(ENGINE("bench", "--seconds", "0"), 2);
    CHECK_EQ(ENGINE("bench", "more"), 2);
}

static void saved_buffers_are_dumped(void)
{
    write_text("in", "{\"op\": \"PRINTF\", \"args\": [11, 22, 33], \"priority\": 0}\n"
                     "{\"packed\": [{\"op\": 1, \"args\": [3, 161]}]}\n");
    CHECK_EQ(ENGINE("run", path("in"), "--slots", "20", "--save-ring", path("r"), "--save-control", path("c"),
                    "--save-log", path("l")),
             0);
    CHECK_EQ(ENGINE("dump", "--ring", path("r"), "--control", path("c"), "--log", path("l")), 0);
    CHECK(strstr(out, "ring of 20 slots: 18 EMPTY 2 DONE") && strstr(out, "STORE_U32(3 161)"));
    CHECK(strstr(out, "observable 1: 3") && strstr(out, "debug log: 1 of 64 records"));
    CHECK_EQ(ENGINE("dump", "--json", "--ring", path("r")), 0);
    json_t *object = line(1);
    CHECK_EQ(json_integer_value(json_object_get(object, "opcode")), TG_OP_PRINTF);
    CHECK_EQ(json_integer_value(json_array_get(json_object_get(object, "args"), 2)), 33);
    json_decref(object);
    CHECK_EQ(ENGINE("dump", "--json", "--all", "--ring", path("r")), 0);
    CHECK_EQ(lines(), 21);
    CHECK_EQ(ENGINE("dump", "--json", "--control", path("c")), 0);
    object = line(0);
    CHECK_EQ(json_integer_value(json_object_get(object, "done_count")), 2);
    CHECK_EQ(json_integer_value(json_object_get(json_object_get(object, "observables"), "1")), 3);
    json_decref(object);
    CHECK_EQ(ENGINE("dump", "--json", "--log", path("l")), 0);
    CHECK(strstr(out, "{\"record\": 0, \"format\": 11, \"args\": [22, 33, 0]}"));
}

/* A full disk: named with its reason, by every verb, and the items before it still end. */
static void a_full_disk_is_named(void)
{
    static const char slots[64 * 100];
    write_file("ring", slots, sizeof(slots));
    write_text("one", "{\"op\": 0}\n");
    FILE *f = fopen(path("many"), "w");
    CHECK(f);
    for (int i = 0; i < 20000; i++)
        fputs("{\"op\": \"NOP\"}\n", f);
    CHECK_EQ(fclose(f), 0);
    output = open("/dev/full", O_WRONLY);
    CHECK(output >= 0);
    for (int i = 0; i < 3; i++) {
        int rc = i == 0   ? ENGINE("run", path("many"), "--summary", "none")
                 : i == 1 ? ENGINE("dump", "--ring", path("ring"), "--all")
                          : ENGINE("run", path("one"), "--summary", "none");
        CHECK_EQ(rc, 125);
        CHECK(strstr(err, "standard output: No space left on device"));
        clearerr(stdout);
    }
    close(output);
    output = -1;
}

static void malformed_buffers_are_refused(void)
{
    static uint32_t words[200];
    write_file("b", words, 65);
    CHECK_EQ(ENGINE("dump", "--ring", path("b")), 2);
    CHECK(strstr(err, "not a multiple of 64"));
    write_file("b", words, 636);
    CHECK_EQ(ENGINE("dump", "--control", path("b")), 2);
    write_file("b", words, 642);
    CHECK_EQ(ENGINE("dump", "--control", path("b")), 2);
    write_file("b", words, 0);
    CHECK_EQ(ENGINE("dump", "--log", path("b")), 2);
    CHECK_EQ(ENGINE("dump", "--ring", path("b")), 0);
    words[0] = 3;
    write_file("b", words, 68);
    CHECK_EQ(ENGINE("dump", "--log", path("b")), 2);
    CHECK(strstr(err, "its cursor, 3,"));
    /* Well formed, but nothing a host or worker would leave: shown, and marked. */
    memset(words, 0, sizeof(words));
    words[0] = 9;
    words[16] = TG_SLOT_PUBLISHED;
    words[18] = 157;
    words[19] = 5;
    write_file("b", words, 128);
    CHECK_EQ(ENGINE("dump", "--ring", path("b")), 1);
    CHECK(strstr(err, "status 9") && strstr(err, "tenant 157") && strstr(err, "priority 5"));
    write_file("b", words, 800);
    CHECK_EQ(ENGINE("dump", "--control", path("b")), 1);
    CHECK(strstr(err, "word 2 is 0"));
}

static void bench_prints_json_lines(void)
{
    CHECK_EQ(ENGINE("bench", "--seconds", "1", "--slots", "320"), 0);
    CHECK(lines() >= 10);
    for (int i = 0; i < lines(); i++) {
        json_t *object = line(i);
        CHECK(json_number_value(json_object_get(object, "value")) >= 0);
        json_decref(object);
    }
}

int main(void)
{
    CHECK(mkdtemp(dir));
    RUN(results_come_in_the_order_of_the_input);
    RUN(or_in_the_order_of_completion);
    RUN(packed_items_run_every_inner_op);
    RUN(e5_a_batch_is_one_line_and_its_fence_is_last);
    RUN(load_miss_is_served_from_a_folder);
    RUN(dfa_step_follows_a_table_from_a_file);
    RUN(e8_nothing_is_lost);
    RUN(e8_a_stall_ends);
    RUN(e1_every_line_has_its_result);
    RUN(a_bad_line_is_named_with_its_number_and_rule);
    RUN(long_and_endless_lines_are_refused_in_bounded_memory);
    RUN(a_batch_too_large_for_its_level_is_refused);
    RUN(wrong_arguments_are_named);
    RUN(saved_buffers_are_dumped);
    RUN(malformed_buffers_are_refused);
    RUN(a_full_disk_is_named);
    RUN(bench_prints_json_lines);
    static const char *const names[] = {"in", "7", "dfa", "r", "c", "l", "b", "many", "ring", "one"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(path(names[i]));
    return rmdir(dir) == 0 ? 0 : 1;
}
