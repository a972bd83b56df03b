/* SPDX-License-Identifier: Apache-2.0
 *
 * Running commands whose store was lost (quarantined, or removed): they carry their marks, and hold what they
 * hold (A2, A8). See marks.c.
 */
#ifndef TG_BROKER_MARKS_H
#define TG_BROKER_MARKS_H

#include "broker/broker.h"

/* After tg_adopt. The state directory remembers the name of its store in a file of its own, store.uuid; when
 * the store is another one now, the living processes that carry the mark of the former one become holders. 0,
 * or -errno: what holds cannot be known, nobody may be granted anything. */
int tg_marks_adopt(struct tg_broker *b, const char *state_dir);

#endif
