/* SPDX-License-Identifier: Apache-2.0
 * See words.h. */
#include "broker/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/broker.h"
#include "broker/log.h"
#include "proto/paths.h"

static void folder(const struct tg_broker *b, char ret[TG_PATH_BYTES])
{
    const char *store = tg_store_path(b->store);
    const char *slash = strrchr(store, '/');
    snprintf(ret, TG_PATH_BYTES, "%.*s", (int)(slash ? slash - store : 0), store);
}

/* A row with a number beyond its bound is dropped when it is read, and the ticket with it: no word makes one.
 */
static size_t keep_possible(struct tg_word *words, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (words[i].peak_mb <= TG_EST_MAX_MB)
            words[kept++] = words[i];
    }
    return kept;
}

/* S10: a number that a word tells of was given, although a store whose end was lost (no power, a damaged log)
 * may not know; the word would be taken for that of the next ticket with its number. One far beyond is no
 * word of this store. */
static void pass_over_given(struct tg_broker *b)
{
    for (size_t i = b->n_words; i-- > 0 && b->words[i].ticket >= b->next_id;) {
        if (b->words[i].ticket - b->next_id < TG_STORE_LEAP) {
            b->next_id = b->words[i].ticket + 1;
            break;
        }
    }
}

void tg_words_begin(struct tg_broker *b)
{
    char path[TG_PATH_BYTES];
    folder(b, path);
    int err = tg_words_read(path, tg_store_uuid(b->store), &b->words, &b->n_words);
    b->n_words = keep_possible(b->words, b->n_words);
    pass_over_given(b);
    if (!err)
        err = tg_words_make(path);
    if (err)
        tg_log("%s/words: %s: how a command ended may not be known after a crash", path, strerror(-err));
}

const struct tg_word *tg_words_find(const struct tg_broker *b, uint64_t ticket)
{
    size_t from = 0;
    size_t to = b->n_words;
    while (from < to) { /* the last one that is not beyond it */
        size_t mid = from + (to - from) / 2;
        if (b->words[mid].ticket <= ticket)
            from = mid + 1;
        else
            to = mid;
    }
    return from > 0 && b->words[from - 1].ticket == ticket ? &b->words[from - 1] : NULL;
}

void tg_words_adopted(struct tg_broker *b)
{
    for (size_t i = 0; i < b->n_words; i++) {
        const struct tg_word *w = &b->words[i];
        struct tg_filled filled;
        if (tg_store_fill_status(b->store, w->ticket, 0, w->status, tg_outcome_of_status(w->status, w->oom),
                                 w->peak_mb, &filled) != 0)
            break; /* the store refuses; the next broker tries again */
    }
    free(b->words);
    b->words = NULL;
    b->n_words = 0;
}

void tg_words_written(struct tg_broker *b)
{
    char path[TG_PATH_BYTES];
    folder(b, path);
    (void)tg_words_turn(path); /* else it grows, and is tried again */
}
