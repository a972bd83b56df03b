/* SPDX-License-Identifier: Apache-2.0
 *
 * The word of a command's wrapper on how that ended, left in a file beside the store: words, one line each,
 * appended before the broker is told. So a wrapper need not wait for the broker to have heard it: killed at
 * any moment, or not there at all, the next broker reads the line (A8), and a broker may write the end of a
 * ticket whose word is kept later, with others.
 *
 * The broker makes the file and takes it out of the way when it is long: words and words.old change places,
 * so that there always is one, and a line is found in one of them until as many others have followed. A
 * line is input: one that is damaged, or cut off, is no word, and harms no other. Thread-safe. Never prints.
 */
#ifndef TG_PROTO_WORDS_H
#define TG_PROTO_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TG_WORD_MARK_BYTES 80u    /* "ID:STORE-UUID", as in TIDEGATE_TICKET */
#define TG_WORDS_MAX_BYTES 65536u /* then the two files change places */

struct tg_word {
    uint64_t ticket;
    int32_t status; /* as of waitpid, 0 or more */
    bool oom;
    uint64_t peak_mb;
    uint64_t ended_boot_ms; /* CLOCK_BOOTTIME of the boot in which it ran */
    uint64_t ended_wall_ms; /* for showing */
};

/* Appends a word on the ticket that mark names; the ticket of w is not looked at. 0; -ENOENT: no broker has
 * made the file; -EINVAL: no mark; another -errno: it is not kept. */
int tg_words_append(const char *state_dir, const char *mark, const struct tg_word *w);

/* The same in two steps, for a wrapper that opens the file while its command runs: a descriptor, or the same
 * errors. It is good for TG_WORDS_FRESH_MS: the files may change places meanwhile, once. */
#define TG_WORDS_FRESH_MS 1000u
int tg_words_open(const char *state_dir);
int tg_words_write(int fd, const char *mark, const struct tg_word *w);

/* Makes the file where there is none. 0 or -errno. */
int tg_words_make(const char *state_dir);

/* All words on tickets of the store uuid, in order of their tickets, the later of two on the same one last;
 * a file that is not there has none. *ret is the caller's to free. 0 or -errno. */
int tg_words_read(const char *state_dir, const char *uuid, struct tg_word **ret, size_t *ret_n);

/* Lets the files change places when the present one is long: whoever calls has written what the words of the
 * older one say. 0 or -errno, and nothing is lost. */
int tg_words_turn(const char *state_dir);

#endif
