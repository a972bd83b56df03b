/* SPDX-License-Identifier: Apache-2.0
 * See lost.h. */
#include "client/lost.h"

#include <errno.h>
#include <poll.h>

#include "base/clock.h"

#define PAUSE_MAX_MS 256
#define SOON_NS (UINT64_C(5) * 1000000000)
#define LATE_MAX 3

void tg_lost_answered(struct tg_lost *lost)
{
    lost->since_ns = 0;
    lost->answered = true;
}

/* None before the second: the first was killed, most likely, and nobody is to wait for that. */
static void pause_before(const struct tg_lost *lost, uint64_t deadline_ns)
{
    if (lost->tries < 2)
        return;
    int ms = lost->tries < 10 ? 1 << (lost->tries - 2) : PAUSE_MAX_MS;
    int left = tg_deadline_poll_ms(deadline_ns);
    poll(NULL, 0, left > 0 && left < ms ? left : ms);
}

bool tg_lost_try_again(struct tg_client *c, struct tg_lost *lost, int err, uint64_t deadline_ns)
{
    uint64_t now = tg_clock_mono_ns();
    if (err != -ECONNRESET && !(err == -ECONNREFUSED && lost->answered && c->may_start))
        return false;
    if (tg_deadline_poll_ms(deadline_ns) == 0 && lost->late++ >= LATE_MAX)
        return false;
    if (lost->since_ns == 0)
        lost->since_ns = now;
    if (now - lost->since_ns > (uint64_t)TG_CLIENT_LOST_MS * 1000000) {
        tg_client_fail(c, err, "no broker on %s has answered for %u s; %u went away without a word",
                       c->socket, TG_CLIENT_LOST_MS / 1000, lost->tries + 1);
        return false;
    }
    lost->tries = now - lost->last_ns > SOON_NS ? 1 : lost->tries + 1;
    lost->last_ns = now;
    pause_before(lost, deadline_ns);
    return true;
}
