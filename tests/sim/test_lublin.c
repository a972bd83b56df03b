/* SPDX-License-Identifier: Apache-2.0
 * The known figures of a public trace, the first 10,000 jobs of the Lublin model on 256 processors, where it
 * lies beside the sources (or in TG_TRACE_DIR); skipped where it does not. */
#include "sim/replay.h"

#include <errno.h>
#include <time.h>

#include "check.h"

static struct tg_replay_result replay(const struct tg_swf *swf, enum tg_replay_policy policy)
{
    struct tg_replay_options opt = {.procs = 256, .policy = policy, .tide = tg_tide_defaults(1)};
    struct tg_replay_result r;
    CHECK_EQ(tg_replay(swf, &opt, &r, NULL), 0);
    return r;
}

static void check_near(double a, double b, double within)
{
    if (!(a - b <= within && b - a <= within)) {
        fprintf(stderr, "%.6f is not %.6f\n", a, b);
        exit(1);
    }
}

static void lublin_figures(void)
{
    char path[4096];
    const char *dir = getenv("TG_TRACE_DIR"), *data = getenv("TG_TEST_DATA");
    if (dir)
        snprintf(path, sizeof(path), "%s/lublin_256.swf", dir);
    else
        snprintf(path, sizeof(path), "%s/../../../shared/traces/lublin_256.swf", data ? data : "tests/data");
    struct tg_swf swf;
    struct tg_swf_error err;
    if (tg_swf_load(path, &swf, &err) == -ENOENT)
        SKIP("no trace at %s (TG_TRACE_DIR)", path);
    struct tg_replay_result fifo = replay(&swf, TG_REPLAY_FIFO);
    CHECK_EQ(fifo.jobs, 10000);
    check_near(fifo.avg_wait_s, 2388443.76, 0.005);
    check_near(fifo.avg_bsld, 66502.4755, 0.00005);
    struct tg_replay_result easy = replay(&swf, TG_REPLAY_EASY);
    check_near(easy.avg_wait_s, 97155.9945, 0.00005);
    check_near(easy.avg_bsld, 590.0538, 0.00005);
    CHECK_EQ(easy.makespan_s, 8730698);
    check_near(easy.utilisation, 0.93634, 0.000005);
    clock_t before = clock();
    struct tg_replay_result tide = replay(&swf, TG_REPLAY_TIDEGATE);
    double took = (double)(clock() - before) / CLOCKS_PER_SEC;
    fprintf(stderr, "  easy %.4f %" PRId64 "  tidegate %.4f %" PRId64 " in %.3f s\n", easy.avg_bsld,
            easy.max_wait_s, tide.avg_bsld, tide.max_wait_s, took);
    CHECK(tide.avg_bsld <= easy.avg_bsld / 4);
    CHECK(tide.max_wait_s <= easy.max_wait_s);
    CHECK(took < 1.0);
    tg_swf_free(&swf);
}

int main(void)
{
    RUN(lublin_figures);
    return 0;
}
