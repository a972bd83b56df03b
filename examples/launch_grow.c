/* SPDX-License-Identifier: Apache-2.0
 * One step whose reservation follows what it uses: it asks for a little, books more before it takes more, and
 * where that does not fit it goes on with what it has, in more rounds. In the end it gives most back and
 * keeps its turn. Prints how large it became; exits 0 when what it computed is right. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <tidegate/launch.h>

enum { MB = 1 << 20, FIRST_MB = 8, MOST_MB = 64, WORDS = MOST_MB * (MB / 4) };

/* The work: the sum of 0 .. WORDS - 1, through a buffer of so many words. */
static uint64_t fill_and_add(uint32_t *buffer, uint32_t words)
{
    uint64_t sum = 0;
    for (uint32_t done = 0; done < WORDS; done += words) {
        uint32_t n = WORDS - done < words ? WORDS - done : words;
        for (uint32_t i = 0; i < n; i++)
            buffer[i] = done + i;
        for (uint32_t i = 0; i < n; i++)
            sum += buffer[i];
    }
    return sum;
}

/* Books twice as much as long as there is room. The size in MB, or an error. */
static int book_more(struct tg_launch_ticket *ticket, unsigned *ret_mb)
{
    unsigned mb = FIRST_MB;
    int error = 0;
    while (mb < MOST_MB && !error) {
        error = tg_launch_grow(ticket, 2 * mb);
        mb *= error ? 1 : 2;
    }
    *ret_mb = mb;
    return error == -EAGAIN || error == -EFBIG ? 0 : error; /* no room is no failure */
}

static int step(struct tg_launch_ticket *ticket, unsigned *ret_mb, uint64_t *ret_sum)
{
    int error = tg_launch_wait(ticket, 60000);
    *ret_mb = MOST_MB;
    if (!error && !tg_launch_nested(ticket)) /* else the outer ticket has booked it */
        error = book_more(ticket, ret_mb);
    if (error)
        return error;
    uint32_t *buffer = malloc((size_t)*ret_mb * MB);
    if (!buffer)
        return -ENOMEM;
    *ret_sum = fill_and_add(buffer, (uint32_t)(*ret_mb * (MB / sizeof(*buffer))));
    free(buffer);
    return tg_launch_nested(ticket) ? 0 : tg_launch_grow(ticket, 1); /* less is always granted */
}

int main(void)
{
    struct tg_launch *launch;
    struct tg_launch_ticket *ticket = NULL;
    struct tg_launch_options options = TG_LAUNCH_OPTIONS;
    unsigned mb = 0;
    uint64_t sum = 0;
    options.est_mb = FIRST_MB;
    options.cmd = "launch_grow";
    int error = tg_launch_open(true, &launch);
    if (error) {
        fprintf(stderr, "%s\n", tg_launch_error());
        return 1;
    }
    error = tg_launch_request(launch, &options, &ticket);
    if (!error)
        error = step(ticket, &mb, &sum);
    if (error)
        fprintf(stderr, "failed (%d): %s\n", error, tg_launch_error());
    int released = tg_launch_release(ticket);
    tg_launch_close(launch);
    printf("grew from %d MB to %u MB: sum %llu (error %d)\n", FIRST_MB, mb, (unsigned long long)sum, error);
    return error == 0 && released == 0 && sum == (uint64_t)WORDS * (WORDS - 1) / 2 ? 0 : 1;
}
