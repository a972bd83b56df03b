/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_gpu: the resident engine on a GPU against what one would use instead, all in one run on one card;
 * ratios are to the floors of that run (gpu/gpu.h has the parts). JSON lines on standard output as every
 * bench prints them, a table of the same figures on standard error at the end.
 *
 *     bench_gpu [-b BACKEND] [-d DEVICE] [-s SCALE] [PART]...
 *
 * PART: letters of LTDPSFIX, default all. BACKEND: cuda (default), cpu (the engine's parts alone where there
 * is no card, to try the program), none (contenders alone). SCALE 1 takes about a minute. Without a card and
 * with the backend cuda it says so and has nothing to report.
 */
#include <string.h>
#include <unistd.h>

#include <tidegate/engine.h>

#include "bench.h"
#include "gpu/gpu.h"

const uint32_t gpu_batch[GPU_BATCHES] = {1, 8, 64, 1024, 8192};
const uint32_t gpu_body_us[GPU_BODIES] = {2, 20};
struct gpu_floors gpu_floors;
struct gpu_settings gpu = {1, 0, false, "cuda", 0, 0};

/* ---- Rows ---------------------------------------------------------------------------------------------- */

enum { ROWS_MAX = 512, SAMPLE_MAX = 1 << 20 };

static struct row {
    char part[4], name[96], unit[12], wanted[12];
    double value, floor;
} rows[ROWS_MAX];
static int row_count;

void gpu_row(const char *part, const char *name, double value, const char *unit, double floor,
             const char *wanted)
{
    char full[100];
    snprintf(full, sizeof(full), "%s_%s", part, name);
    bench_print("gpu", full, value, unit, floor);
    if (row_count == ROWS_MAX)
        return;
    struct row *r = &rows[row_count++];
    snprintf(r->part, sizeof(r->part), "%s", part);
    snprintf(r->name, sizeof(r->name), "%s", name);
    snprintf(r->unit, sizeof(r->unit), "%s", unit);
    snprintf(r->wanted, sizeof(r->wanted), "%s", wanted ? wanted : "");
    r->value = value;
    r->floor = floor;
}

void gpu_skip(const char *part, const char *why)
{
    fprintf(stderr, "bench_gpu: %s: skipped: %s\n", part, why);
}

static void print_table(void)
{
    fprintf(stderr, "\n%-2s %-58s %12s %-7s %12s %8s  %s\n", "", "case", "value", "unit", "floor", "ratio",
            "wanted");
    for (int i = 0; i < row_count; i++) {
        const struct row *r = &rows[i];
        fprintf(stderr, "%-2s %-58s %12.5g %-7s ", r->part, r->name, r->value, r->unit);
        if (r->floor != 0)
            fprintf(stderr, "%12.5g %8.3f  %s\n", r->floor, r->value / r->floor, r->wanted);
        else
            fprintf(stderr, "%12s %8s  %s\n", "", "", r->wanted);
    }
}

/* ---- Samples ------------------------------------------------------------------------------------------- */

static uint64_t *sample_memory;

void gpu_sample_begin(struct gpu_sample *s)
{
    if (!sample_memory)
        sample_memory = (uint64_t *)malloc(SAMPLE_MAX * sizeof(*sample_memory));
    if (!sample_memory)
        exit(1);
    s->ns = sample_memory; /* one sample at a time */
    s->n = 0;
    s->capacity = SAMPLE_MAX;
}

void gpu_sample_add(struct gpu_sample *s, uint64_t ns)
{
    if (s->n < s->capacity)
        s->ns[s->n++] = ns;
}

struct gpu_quantiles gpu_sample_end(struct gpu_sample *s)
{
    struct gpu_quantiles q;
    bench_sort(s->ns, s->n);
    q.p50 = (double)bench_quantile(s->ns, s->n, 0.5);
    q.p99 = (double)bench_quantile(s->ns, s->n, 0.99);
    q.p999 = (double)bench_quantile(s->ns, s->n, 0.999);
    return q;
}

uint64_t gpu_until(double seconds)
{
    return tg_clock_mono_ns() + (uint64_t)(seconds * gpu.scale * 1e9);
}

/* ---- Processors ---------------------------------------------------------------------------------------- */

static cpu_set_t mine, others; /* the measurer's processor, and the rest */

static void choose_processors(void)
{
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof(others), &others) != 0 || CPU_COUNT(&others) < 2) {
        fprintf(stderr, "bench_gpu: fewer than two processors: not pinned\n");
        return;
    }
    int last = CPU_SETSIZE - 1; /* the first ones serve interrupts */
    while (!CPU_ISSET(last, &others))
        last--;
    CPU_SET(last, &mine);
    CPU_CLR(last, &others);
    gpu_stand_aside(false);
}

void gpu_stand_aside(bool aside)
{
    if (CPU_COUNT(&mine))
        sched_setaffinity(0, sizeof(mine), aside ? &others : &mine);
}

/* ---- The program --------------------------------------------------------------------------------------- */

/* Names the card; false: there is none. */
static bool find_card(void)
{
    int count = 0, driver = 0, runtime = 0, sms = 0, khz = 0;
    cudaDeviceProp prop;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        return false;
    if (gpu.device >= count) {
        fprintf(stderr, "bench_gpu: there is no device %d, only %d\n", gpu.device, count);
        exit(2);
    }
    GPU_MUST(cudaSetDevice(gpu.device));
    GPU_MUST(cudaSetDeviceFlags(cudaDeviceScheduleSpin | cudaDeviceMapHost));
    GPU_MUST(cudaDriverGetVersion(&driver));
    GPU_MUST(cudaRuntimeGetVersion(&runtime));
    GPU_MUST(cudaGetDeviceProperties(&prop, gpu.device));
    GPU_MUST(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, gpu.device));
    GPU_MUST(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, gpu.device));
    gpu.multiprocessors = (uint32_t)sms;
    gpu.clock_ghz = khz / 1e6;
    fprintf(stderr,
            "bench_gpu: device %d: %s, %d multiprocessors, %.2f GHz, CUDA %d.%d, driver's CUDA %d.%d\n",
            gpu.device, prop.name, sms, gpu.clock_ghz, runtime / 1000, runtime % 1000 / 10, driver / 1000,
            driver % 1000 / 10);
    return true;
}

static void contend(char part)
{
    switch (part) {
    case 'L':
        gpu_contend_latency();
        break;
    case 'T':
        gpu_contend_throughput();
        break;
    case 'P':
        if (gpu_floors.flag.p50 == 0)
            gpu_contend_latency();
        gpu_contend_priority();
        break;
    case 'D':
        gpu_contend_drain();
        break;
    case 'I':
        gpu_contend_idle();
        break;
    default:
        break; /* S and F have their bounds, X the engine without what it is about */
    }
}

static int usage(const char *what)
{
    fprintf(stderr,
            "bench_gpu: %s\nusage: bench_gpu [-b cuda|cpu|none] [-d DEVICE] [-s SCALE] [LTDPSFIX]...\n",
            what);
    return 2;
}

int main(int argc, char **argv)
{
    static char parts[16];
    int option, code = tg_engine_device_main(argc, argv); /* X: this program owns a device for itself */
    if (code >= 0)
        return code;
    while ((option = getopt(argc, argv, "b:d:s:")) != -1) {
        char *end = NULL;
        if (option == 'b' && (!strcmp(optarg, "cuda") || !strcmp(optarg, "cpu") || !strcmp(optarg, "none")))
            gpu.backend = strcmp(optarg, "none") ? optarg : NULL;
        else if (option == 'd' && (gpu.device = (int)strtol(optarg, &end, 10)) >= 0 && end > optarg && !*end)
            continue;
        else if (option == 's' && (gpu.scale = strtod(optarg, &end)) > 0 && gpu.scale <= 1000 && !*end)
            continue;
        else
            return usage("an option or its value is not understood");
    }
    for (; optind < argc; optind++)
        for (const char *c = argv[optind]; *c; c++) {
            if (!strchr("LTDPSFIX", *c))
                return usage("a part is none of LTDPSFIX");
            if (!strchr(parts, *c))
                parts[strlen(parts)] = *c;
        }
    gpu.card = find_card();
    if (!gpu.card && (!gpu.backend || !strcmp(gpu.backend, "cuda"))) {
        fprintf(stderr, "bench_gpu: skipped: no CUDA device here\n");
        return 0;
    }
    choose_processors();
    for (const char *c = parts[0] ? parts : "LTDPSFIX"; *c; c++) {
        if (gpu.card)
            contend(*c);
        gpu_engine_part(*c);
    }
    print_table();
    return 0;
}
