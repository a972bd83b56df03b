/* SPDX-License-Identifier: Apache-2.0
 * A pool of eight threads whose heavy steps ask for a turn first: light work goes on freely, and of the heavy
 * steps only as many run at once as the machine has room for, beside everything else on it. Prints the most
 * that ran at once (the setting `slots` bounds it); exits 0 when every step had its turn and the sum is
 * right. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include <tidegate/launch.h>

enum { THREADS = 8, STEPS = 4 };

static struct tg_launch *launch;
static atomic_int heavy_now, heavy_most, failures;
static atomic_uint_fast64_t total;

/* The heavy step itself. */
static uint64_t crunch(uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t i = 1; i <= n; i++)
        sum += i;
    return sum;
}

static void note_highest(int now)
{
    int most = atomic_load(&heavy_most);
    while (now > most && !atomic_compare_exchange_weak(&heavy_most, &most, now))
        ;
}

static int heavy_step(uint64_t n)
{
    struct tg_launch_options options = TG_LAUNCH_OPTIONS;
    struct tg_launch_ticket *ticket;
    options.est_mb = 16;
    options.cmd = "launch_pool: a heavy step";
    int error = tg_launch_request(launch, &options, &ticket);
    if (error)
        return error;
    error = tg_launch_wait(ticket, 60000);
    if (!error) {
        note_highest(atomic_fetch_add(&heavy_now, 1) + 1);
        atomic_fetch_add(&total, crunch(n));
        atomic_fetch_sub(&heavy_now, 1);
    }
    int released = tg_launch_release(ticket);
    return error ? error : released;
}

static void *worker(void *arg)
{
    (void)arg;
    for (int i = 0; i < STEPS; i++) {
        int error = heavy_step(1000000);
        if (error) {
            fprintf(stderr, "no turn (%d): %s\n", error, tg_launch_error());
            atomic_fetch_add(&failures, 1);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int started = 0;
    if (tg_launch_open(true, &launch) != 0) {
        fprintf(stderr, "%s\n", tg_launch_error());
        return 1;
    }
    while (started < THREADS && pthread_create(&threads[started], NULL, worker, NULL) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    tg_launch_close(launch);
    uint64_t sum = atomic_load(&total);
    printf("%d threads, %d steps: sum %llu, at most %d heavy ones at once, %d failed\n", started,
           started * STEPS, (unsigned long long)sum, atomic_load(&heavy_most), atomic_load(&failures));
    return started == THREADS && atomic_load(&failures) == 0 &&
                   sum == THREADS * STEPS * UINT64_C(500000500000)
               ? 0
               : 1;
}
