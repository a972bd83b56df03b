/* SPDX-License-Identifier: Apache-2.0
 *
 * The real files the demo works on: a bounded, sorted list of readable regular files under a directory, and
 * their bytes in memory, cut into 4 KiB blocks.
 */
#ifndef TG_CLI_DEMO_FILES_H
#define TG_CLI_DEMO_FILES_H

#include <stddef.h>
#include <stdint.h>

#define TG_DEMO_BLOCK_BYTES 4096u

struct tg_demo_files {
    char **paths; /* sorted, absolute or as DIR was given */
    uint64_t *sizes;
    size_t count;
    uint64_t total_bytes;
    uint8_t *bytes; /* the files one after another, each starting on a block of its own */
    size_t blocks;
    uint32_t *block_bytes; /* bytes used in each block, 1 to 4096 */
};

/* Collects files under dir (links are not followed; at most max_files and max_bytes) and reads them. Files
 * that change or cannot be read meanwhile are left out. 0; -ENOENT and other -errno of dir; -ENODATA: no
 * readable file with content there. Free with tg_demo_files_done. */
int tg_demo_files_read(const char *dir, size_t max_files, uint64_t max_bytes, struct tg_demo_files *ret);
void tg_demo_files_done(struct tg_demo_files *files);

/* CRC-32C (Castagnoli) of n bytes; the check value of "123456789" is 0xE3069283. */
uint32_t tg_crc32c(const uint8_t *bytes, size_t n);

#endif
