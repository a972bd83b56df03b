/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of wrappers (proto/words.h) as a new broker finds them: of commands whose end no broker has
 * written, because it was killed, or because there was none.
 */
#ifndef TG_BROKER_WORDS_H
#define TG_BROKER_WORDS_H

#include "proto/words.h"

struct tg_broker;
struct tg_ticket;

/* At the start, before the store's tickets are taken over: reads them. Without them nothing fails: it is not
 * known then how a command ended. */
void tg_words_begin(struct tg_broker *b);
/* The word on a ticket, or NULL. Until tg_words_adopted. */
const struct tg_word *tg_words_find(const struct tg_broker *b, uint64_t ticket);
/* After the start: fills them in where a row of the history says that nobody knows. */
void tg_words_adopted(struct tg_broker *b);
/* No end is left to be written: the file may be changed when it is long. */
void tg_words_written(struct tg_broker *b);

#endif
