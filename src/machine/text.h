/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict reading of the kernel's text files, for this folder only. What they hold is input: every number
 * is checked for overflow (N4), a file with a NUL byte in it is refused, nothing is read by a locale.
 */
#ifndef TG_MACHINE_TEXT_H
#define TG_MACHINE_TEXT_H

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>

#include "machine/root.h"

/* The path behind the prefix. 0 or -ENAMETOOLONG. */
int tg_root_path(const struct tg_root *root, const char *path, char *buf, size_t size);

/* The folder behind the prefix, for the caller to close. 0, -ENAMETOOLONG or what opendir(3) says. */
int tg_root_opendir(const struct tg_root *root, const char *path, DIR **ret);

/* tg_root_read for a path below an open directory. */
long tg_text_read_at(int dir_fd, const char *path, char *buf, size_t size);

/* tg_root_read, and -EBADMSG when the file has a NUL byte: what follows would not be seen. 0 or -errno. */
int tg_text_read(const struct tg_root *root, const char *path, char *buf, size_t size);

/* Reads decimal digits at *p and moves *p behind them. 0; -EBADMSG: no digit there, or more than 64 bits. */
int tg_text_u64(const char **p, uint64_t *ret);

/* A file that is one number and an optional line end. 0; -EBADMSG. */
int tg_text_number(const char *text, uint64_t *ret);

/* What follows key in the line that begins with it, or NULL. key includes its separator ("MemTotal:"). */
const char *tg_text_line(const char *text, const char *key);

/* The number of a line "key   123 kB". 0; -ENOENT: no such line; -EBADMSG: not of that form, or more than
 * TG_TEXT_MAX_KB. */
int tg_text_kb(const char *text, const char *key, uint64_t *ret);

/* 2^52 bytes, the most physical memory that a page table entry of a present machine can name. */
#define TG_TEXT_MAX_KB (UINT64_C(1) << 42)

#endif
