/* SPDX-License-Identifier: Apache-2.0
 * See demo_files.h. */
#include "cli/demo_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int add_path(struct tg_demo_files *f, const char *path, uint64_t size, size_t *room)
{
    if (f->count == *room) {
        size_t grown = *room ? *room * 2 : 64;
        char **paths = realloc(f->paths, grown * sizeof(*paths));
        if (!paths)
            return -ENOMEM;
        f->paths = paths;
        uint64_t *sizes = realloc(f->sizes, grown * sizeof(*sizes));
        if (!sizes)
            return -ENOMEM;
        f->sizes = sizes;
        *room = grown;
    }
    f->paths[f->count] = strdup(path);
    if (!f->paths[f->count])
        return -ENOMEM;
    f->sizes[f->count++] = size;
    f->total_bytes += size;
    return 0;
}

static int collect(const char *dir, size_t max_files, uint64_t max_bytes, struct tg_demo_files *f)
{
    struct stat st;
    if (stat(dir, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    char *const roots[] = {(char *)dir, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW | FTS_XDEV, by_name);
    if (!tree)
        return -errno;
    size_t room = 0;
    int err = 0;
    for (FTSENT *e = fts_read(tree); e && !err && f->count < max_files; e = fts_read(tree)) {
        uint64_t size = e->fts_info == FTS_F ? (uint64_t)e->fts_statp->st_size : 0;
        if (size == 0 || f->total_bytes + size > max_bytes || access(e->fts_path, R_OK) != 0)
            continue;
        err = add_path(f, e->fts_path, size, &room);
    }
    fts_close(tree);
    return err ? err : f->count ? 0 : -ENODATA;
}

/* Reads up to size bytes; returns how many there were. */
static size_t read_file(const char *path, uint8_t *into, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    size_t got = 0;
    if (fd < 0)
        return 0;
    while (got < size) {
        ssize_t r = read(fd, into + got, size - got);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            break;
        got += (size_t)r;
    }
    close(fd);
    return got;
}

static int load_blocks(struct tg_demo_files *f)
{
    size_t blocks = 0;
    for (size_t i = 0; i < f->count; i++)
        blocks += (f->sizes[i] + TG_DEMO_BLOCK_BYTES - 1) / TG_DEMO_BLOCK_BYTES;
    f->bytes = calloc(blocks, TG_DEMO_BLOCK_BYTES);
    f->block_bytes = calloc(blocks, sizeof(*f->block_bytes));
    if (!f->bytes || !f->block_bytes)
        return -ENOMEM;
    for (size_t i = 0; i < f->count; i++) {
        size_t got = read_file(f->paths[i], f->bytes + f->blocks * TG_DEMO_BLOCK_BYTES, f->sizes[i]);
        for (size_t at = 0; at < got; at += TG_DEMO_BLOCK_BYTES) {
            size_t left = got - at;
            f->block_bytes[f->blocks++] = (uint32_t)(left < TG_DEMO_BLOCK_BYTES ? left : TG_DEMO_BLOCK_BYTES);
        }
    }
    return f->blocks ? 0 : -ENODATA;
}

int tg_demo_files_read(const char *dir, size_t max_files, uint64_t max_bytes, struct tg_demo_files *ret)
{
    struct tg_demo_files f = {0};
    int err = collect(dir, max_files, max_bytes, &f);
    if (!err)
        err = load_blocks(&f);
    if (err) {
        tg_demo_files_done(&f);
        return err;
    }
    *ret = f;
    return 0;
}

void tg_demo_files_done(struct tg_demo_files *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++)
        free(f->paths[i]);
    free(f->paths);
    free(f->sizes);
    free(f->bytes);
    free(f->block_bytes);
    memset(f, 0, sizeof(*f));
}

/* Slicing by 4: fast enough that the queue, not the sum, is what the demo measures. */
static uint32_t crc_table[4][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_init(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
        crc_table[0][i] = c;
    }
    for (uint32_t t = 1; t < 4; t++) {
        for (uint32_t i = 0; i < 256; i++)
            crc_table[t][i] = crc_table[t - 1][i] >> 8 ^ crc_table[0][crc_table[t - 1][i] & 0xff];
    }
}

uint32_t tg_crc32c(const uint8_t *p, size_t n)
{
    pthread_once(&crc_once, crc_init);
    uint32_t c = ~0u;
    for (; n >= 4; n -= 4, p += 4) {
        c ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        c = crc_table[3][c & 0xff] ^ crc_table[2][c >> 8 & 0xff] ^ crc_table[1][c >> 16 & 0xff] ^
            crc_table[0][c >> 24];
    }
    for (; n; n--, p++)
        c = c >> 8 ^ crc_table[0][(c ^ *p) & 0xff];
    return ~c;
}
