/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages admit and done written straight into a frame, for requests as they nearly always are: the
 * tree of values that a general encoder needs costs more at the start of a command than all else it does.
 */
#ifndef TG_CLIENT_PLAIN_H
#define TG_CLIENT_PLAIN_H

#include "client/admit.h"

#define TG_PLAIN_BYTES 2048u

/* A frame with the same message as tg_admit_message, and "store" as every request has it. Its length; 0 when
 * something about it is not plain (a text with other than printable ASCII, a quote or a backslash; a long
 * one; a key, a step or strict): then the general way must be taken. */
size_t tg_plain_admit(const struct tg_admit_ask *ask, const char *store, uint8_t ret[TG_PLAIN_BYTES]);

/* What a wrapper says at the end of its command. */
struct tg_done {
    uint64_t ticket;
    int status;
    uint64_t peak_mb;
    bool left_known;
    bool left;
    bool oom;
    bool kept;  /* in the words */
    bool quiet; /* no answer is wanted */
};
/* Likewise the message done; tg_done_message is the general way (NULL on lack of memory). */
size_t tg_plain_done(const struct tg_done *done, const char *store, uint8_t ret[TG_PLAIN_BYTES]);
json_t *tg_done_message(const struct tg_done *done);

#endif
