/* SPDX-License-Identifier: Apache-2.0
 * Jobs that grow: real memory of real processes, on a machine whose size is the test's. Rows S6, R5, M1, M4,
 * M14, M17 of the cases; rule A2. */
#include <sys/wait.h>

#include "machine.h"

/* The thread sanitizer keeps a shadow of what is used. */
#define SIZES_LIE FREED_MEMORY_IS_KEPT
#ifdef __SANITIZE_THREAD__
#undef SIZES_LIE
#define SIZES_LIE 1
#endif
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#undef SIZES_LIE
#define SIZES_LIE 1
#endif
#endif

/* What a process has of its own, in MB; 0 when it has ended. */
static uint64_t own_mb(pid_t pid)
{
    char path[64], line[256];
    unsigned long kb = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "RssAnon: %lu kB", &kb) == 1)
            break;
    }
    if (f)
        fclose(f);
    return kb / 1024;
}

/* The machine is a control group with so much memory, on a host that has far more. */
static void put_group(const char *machine, uint64_t limit_mb)
{
    static const char *const dirs[] = {"proc/self", "sys", "sys/fs", "sys/fs/cgroup", "sys/fs/cgroup/job"};
    char path[300], text[64];
    for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", machine, dirs[i]);
        CHECK(mkdir(path, 0700) == 0);
    }
    put_file(machine, "proc/meminfo", "MemTotal: 67108864 kB\nMemFree: 1024 kB\nMemAvailable: 60000000 kB\n");
    put_file(machine, "proc/self/cgroup", "0::/job\n");
    put_file(machine, "sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    snprintf(text, sizeof(text), "%llu\n", (unsigned long long)limit_mb << 20);
    put_file(machine, "sys/fs/cgroup/job/memory.max", text);
    put_file(machine, "sys/fs/cgroup/job/memory.stat", "inactive_file 0\n");
    put_file(machine, "sys/fs/cgroup/job/memory.current", "0\n");
}

static void put_usage(const char *machine, uint64_t mb)
{
    char text[64];
    snprintf(text, sizeof(text), "%llu\n", (unsigned long long)mb << 20);
    put_file(machine, "sys/fs/cgroup/job/memory.current", text);
}

/* A place on a machine of limit_mb, of which floor_mb is kept. */
static void place_of(struct place *p, char machine[200], uint64_t limit_mb, unsigned floor_mb)
{
    char text[16];
    place_make(p);
    make_machine(p, machine, 200);
    put_group(machine, limit_mb);
    p->machine_root = machine;
    place_ready(p, 100);
    snprintf(text, sizeof(text), "%u", floor_mb);
    set_config(p, "floor-mb", text);
}

struct grower {
    struct client c;
    pid_t pid;
    bool held, about_to_grow, grown, over;
    uint64_t next_ms; /* when it grows, or ends */
};

#define GROWERS 10
#define GROW_AFTER_MS 250
#define STAY_MS 250

/* What the group uses; of one that is about to grow, as if it had: a kernel's own figure is never behind. */
static uint64_t usage_of_growers(const struct grower *g)
{
    uint64_t sum = 0;
    for (int i = 0; i < GROWERS; i++) {
        uint64_t mb = g[i].over ? 0 : own_mb(g[i].pid);
        sum += !g[i].over && g[i].about_to_grow && mb < 39 ? 39 : mb;
    }
    return sum;
}

static void grower_step(struct grower *g, uint64_t now)
{
    if (!g->held && !client_quiet(&g->c, 0)) {
        CHECK_TEXT(next_state(&g->c), "HOLD");
        g->held = true;
        g->next_ms = now + GROW_AFTER_MS;
    }
    if (!g->held || g->over || now < g->next_ms)
        return;
    if (!g->about_to_grow) {
        g->about_to_grow = true; /* and the usage is put down before it does */
    } else if (!g->grown) {
        kill(g->pid, SIGUSR1);
        g->grown = true;
        g->next_ms = now + STAY_MS;
    } else if (own_mb(g->pid) >= 38) { /* each is once as big as it said */
        owner_kill(g->pid);
        client_close(&g->c);
        g->over = true;
    }
}

/* S6, R5: ten jobs of 40 MB that grow only after a while, where 160 MB less a floor of 20 MB are to give. A
 * promise counts until the memory is used, then the memory counts: three at a time, from start to end. */
static void s6_r5_ten_jobs_that_grow_later(void)
{
    struct place p;
    char machine[200];
    static struct grower g[GROWERS];
    uint64_t all = 0;
    int most_held = 0;
    if (SIZES_LIE)
        SKIP("sizes mean nothing under a sanitizer");
    place_of(&p, machine, 160, 20);
    for (int i = 0; i < GROWERS; i++) {
        client_open(&g[i].c, &p);
        g[i].pid = growing_owner(38);
        show_process(machine, g[i].pid);
        if (strcmp(admit(&g[i].c, "run", g[i].pid, 0, 40, NULL), "HOLD") == 0) {
            g[i].held = true;
            g[i].next_ms = now_ms() + GROW_AFTER_MS;
        }
    }
    uint64_t end = now_ms() + PATIENCE_MS;
    while (all < GROWERS) {
        int held = 0;
        uint64_t sum = 0;
        CHECK(now_ms() < end);
        all = 0;
        put_usage(machine, usage_of_growers(g));
        for (int i = 0; i < GROWERS; i++) {
            grower_step(&g[i], now_ms());
            held += g[i].held && !g[i].over;
            sum += g[i].over ? 0 : own_mb(g[i].pid);
            all += g[i].over;
        }
        CHECK(held <= 3);
        CHECK(sum <= 140);
        most_held = held > most_held ? held : most_held;
        pause_ms(5);
    }
    CHECK_EQ(most_held, 3); /* and the room is used */
    place_stop(&p, SIGTERM);
}

static json_t *first_holder(const struct place *p)
{
    json_t *s = status_of(p);
    json_t *h = json_incref(at(s, "holders.0"));
    json_decref(s);
    return h;
}

static int64_t peak_now(const struct place *p)
{
    json_t *h = first_holder(p);
    int64_t mb = number_at(h, "peak_mb");
    json_decref(h);
    return mb;
}

static json_t *ask_same(struct client *c, pid_t pid, int64_t est_mb)
{
    json_t *m = admit_message("run", pid, 0, est_mb, -1);
    json_object_set_new(m, "cmd", json_string("grow"));
    json_object_set_new(m, "cwd", json_string("/here"));
    return client_ask(c, m);
}

static json_t *end_of(struct client *c, int64_t ticket, int64_t peak_mb)
{
    return client_ask(c, json_pack("{s:s,s:I,s:i,s:I}", "op", "done", "ticket", (json_int_t)ticket, "status",
                                   0, "peak_mb", (json_int_t)peak_mb));
}

/* M14: far above its estimate: told once, at once and at the end; the next estimate is learned. */
static void m14_over_the_estimate_warns_once_and_teaches(void)
{
    struct place p;
    struct client c;
    if (SIZES_LIE)
        SKIP("sizes mean nothing under a sanitizer");
    place_make(&p);
    place_ready(&p, 10);
    set_config(&p, "floor-mb", "0");
    client_open(&c, &p);
    pid_t pid = growing_owner(60);
    json_t *m = ask_same(&c, pid, 20);
    CHECK_TEXT(text_at(m, "state"), "HOLD");
    int64_t ticket = number_at(m, "ticket");
    json_decref(m);
    json_t *h = first_holder(&p);
    CHECK(json_is_false(at(h, "over_estimate")));
    CHECK_TEXT(text_at(h, "estimate"), "stated");
    CHECK_TEXT(text_at(h, "time_source"), "none");
    json_decref(h);
    kill(pid, SIGUSR1);
    EVENTUALLY(peak_now(&p) >= 60);
    h = first_holder(&p);
    CHECK(json_is_true(at(h, "over_estimate")));
    json_decref(h);
    pause_ms(30);
    owner_kill(pid);
    m = end_of(&c, ticket, 70);
    CHECK(strstr(text_at(m, "note"), "used 70 MB, its estimate was 20 MB"));
    json_decref(m);
    m = end_of(&c, ticket, 500); /* told already: nothing is changed and nothing said */
    CHECK(!json_object_get(m, "note"));
    json_decref(m);

    pid = owner_make();
    m = ask_same(&c, pid, -1);
    CHECK_TEXT(text_at(m, "state"), "HOLD");
    ticket = number_at(m, "ticket");
    json_decref(m);
    h = first_holder(&p);
    CHECK_TEXT(text_at(h, "estimate"), "learned");
    CHECK_EQ(number_at(h, "est_mb"), 70 + 64);
    CHECK_TEXT(text_at(h, "time_source"), "learned");
    CHECK(number_at(h, "time_ms") >= 30);
    json_decref(h);
    owner_kill(pid);
    m = end_of(&c, ticket, 1000);
    CHECK(json_object_get(m, "note"));
    json_decref(m);
    /* Another directory is another command. */
    pid = owner_make();
    m = admit_message("run", pid, 0, -1, -1);
    json_object_set_new(m, "cmd", json_string("grow"));
    json_object_set_new(m, "cwd", json_string("/there"));
    m = client_ask(&c, m);
    json_decref(m);
    h = first_holder(&p);
    CHECK_TEXT(text_at(h, "estimate"), "default");
    json_decref(h);
    owner_kill(pid);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* A peak far above the estimate is in the store at once, not only at the end. */
static void m14_a_peak_survives_the_broker(void)
{
    struct place p;
    struct client c;
    if (SIZES_LIE)
        SKIP("sizes mean nothing under a sanitizer");
    place_make(&p);
    place_ready(&p, 10);
    set_config(&p, "floor-mb", "0");
    client_open(&c, &p);
    pid_t pid = growing_owner(60);
    json_t *m = ask_same(&c, pid, 20);
    CHECK_TEXT(text_at(m, "state"), "HOLD");
    json_decref(m);
    kill(pid, SIGUSR1);
    EVENTUALLY(peak_now(&p) >= 60);
    client_close(&c);
    place_stop(&p, SIGKILL);
    owner_kill(pid); /* so that nobody can measure it again */
    CHECK_TEXT(place_start(&p), "ready");
    client_open(&c, &p);
    m = client_ask(&c, json_pack("{s:s}", "op", "history"));
    CHECK_TEXT(text_at(m, "rows.0.outcome"), "lost");
    CHECK(number_at(m, "rows.0.peak_mb") > 20 + 20 / 2); /* as of the moment it was too much */
    json_decref(m);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* M1: the group's limit is the machine's size, whatever the host has. M17: memory and slots are two limits.
 */
static void m1_m17_memory_and_slots_are_limits_of_their_own(void)
{
    struct place p;
    char machine[200];
    struct client c[4];
    pid_t pid[4];
    place_of(&p, machine, 1024, 100);
    for (int i = 0; i < 4; i++) {
        client_open(&c[i], &p);
        pid[i] = owner_make();
        show_process(machine, pid[i]);
    }
    CHECK_TEXT(admit(&c[0], "run", pid[0], 0, 2048, NULL), "never-fits");
    CHECK_TEXT(admit(&c[0], "run", pid[0], 0, 400, NULL), "HOLD");
    CHECK_TEXT(admit(&c[1], "run", pid[1], 0, 400, NULL), "HOLD");
    json_t *m = client_ask(&c[2], admit_message("run", pid[2], 0, 400, -1));
    CHECK_TEXT(text_at(m, "why"), "memory"); /* 97 slots are free */
    json_decref(m);
    json_t *s = status_of(&p);
    CHECK_EQ(number_at(s, "gates.slots.limit"), 100);
    CHECK_EQ(number_at(s, "gates.slots.held"), 2);
    CHECK_EQ(number_at(s, "gates.memory.total_mb"), 1024);
    CHECK_EQ(number_at(s, "gates.memory.floor_mb"), 100);
    json_decref(s);
    set_config(&p, "slots", "2");
    m = client_ask(&c[3], admit_message("run", pid[3], 1, 10, -1));
    CHECK_TEXT(text_at(m, "why"), "slots"); /* 124 MB are free */
    json_decref(m);
    for (int i = 0; i < 4; i++) {
        owner_kill(pid[i]);
        client_close(&c[i]);
    }
    place_stop(&p, SIGTERM);
}

/* M4: a machine full of page cache has hardly anything free, and everything available. */
static void m4_page_cache_is_no_reason_to_wait(void)
{
    struct place p;
    struct client c;
    char machine[200];
    place_make(&p);
    make_machine(&p, machine, sizeof(machine));
    p.machine_root = machine;
    put_file(machine, "proc/meminfo",
             "MemTotal: 20971520 kB\nMemFree: 102400 kB\nMemAvailable: 18874368 kB\nCached: 19000000 kB\n");
    place_ready(&p, 10);
    client_open(&c, &p);
    pid_t pid = owner_make();
    show_process(machine, pid);
    CHECK_TEXT(admit(&c, "run", pid, 0, 16000, NULL), "HOLD");
    owner_kill(pid);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* M5: asked for, what ZFS gives back is available. */
static void m5_zfs_cache_is_a_setting(void)
{
    struct place p;
    struct client c;
    char machine[200], path[300];
    static const char *const dirs[] = {"proc/spl", "proc/spl/kstat", "proc/spl/kstat/zfs"};
    place_make(&p);
    make_machine(&p, machine, sizeof(machine));
    p.machine_root = machine;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", machine, dirs[i]);
        CHECK(mkdir(path, 0700) == 0);
    }
    put_file(machine, "proc/spl/kstat/zfs/arcstats",
             "1 2 3\nname type data\nc_min 4 1073741824\nsize 4 9663676416\n");
    put_file(machine, "proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 4194304 kB\n");
    place_ready(&p, 10);
    client_open(&c, &p);
    pid_t pid = owner_make();
    show_process(machine, pid);
    CHECK_TEXT(admit(&c, "run", pid, 0, 8000, NULL), "WAIT");
    set_config(&p, "zfs-arc", "on");
    CHECK_TEXT(next_state(&c), "HOLD"); /* 4096 + 8192 - 2048 */
    owner_kill(pid);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* The sampler sleeps when nobody holds: a broker without holders uses no time at all. */
static uint64_t cpu_ticks(pid_t pid)
{
    char path[64], text[1024];
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    CHECK(f);
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *after = strrchr(text, ')');
    CHECK(after &&
          sscanf(after, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel) == 2);
    return user + kernel;
}

static void the_sampler_costs_next_to_nothing(void)
{
    struct place p;
    struct client c;
    place_make(&p);
    place_ready(&p, 10);
    set_config(&p, "floor-mb", "0");
    client_open(&c, &p);
    pid_t pid = owner_make();
    CHECK_TEXT(admit(&c, "run", pid, 0, 20, NULL), "HOLD");
    /* The clock's grain is 10 ms; 0.2 % are 6 ms. Where others have the caches and the core, once more. */
    const uint64_t most = SIZES_LIE ? 10 : 2;
    uint64_t used = most + 1;
    for (int i = 0; i < 4 && used > most; i++) {
        uint64_t before = cpu_ticks(p.broker);
        pause_ms(3000);
        used = cpu_ticks(p.broker) - before; /* of 10 ms */
        fprintf(stderr, "  with a holder: %llu0 ms of 3000\n", (unsigned long long)used);
    }
    CHECK(used <= most);
    owner_kill(pid);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

int main(void)
{
    RUN(m1_m17_memory_and_slots_are_limits_of_their_own);
    RUN(m4_page_cache_is_no_reason_to_wait);
    RUN(m5_zfs_cache_is_a_setting);
    RUN(the_sampler_costs_next_to_nothing);
    RUN(m14_over_the_estimate_warns_once_and_teaches);
    RUN(m14_a_peak_survives_the_broker);
    RUN(s6_r5_ten_jobs_that_grow_later);
    return 0;
}
