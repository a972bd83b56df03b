/* SPDX-License-Identifier: Apache-2.0
 * See lookup.h. */
#include "client/lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 0, -ENOENT or -EACCES. */
static int check_file(const char *path)
{
    struct stat st;
    if (access(path, X_OK) == 0) {
        if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
            return 0;
        return -EACCES;
    }
    if (errno == ENOENT || errno == ENOTDIR)
        return -ENOENT;
    return -EACCES;
}

static int join(char *to, size_t size, const char *dir, size_t dir_len, const char *name)
{
    size_t name_len = strlen(name);
    if (dir_len == 0) {
        dir = ".";
        dir_len = 1;
    }
    if (dir_len >= size || name_len + 2 > size - dir_len)
        return -ENAMETOOLONG;
    memcpy(to, dir, dir_len);
    to[dir_len] = '/';
    memcpy(to + dir_len + 1, name, name_len + 1);
    return 0;
}

int tg_lookup_command(const char *name, char *ret_path, size_t size)
{
    if (strchr(name, '/')) {
        if (strlen(name) >= size)
            return -ENAMETOOLONG;
        memcpy(ret_path, name, strlen(name) + 1);
        return check_file(name);
    }
    if (name[0] == '\0')
        return -ENOENT;
    const char *dirs = getenv("PATH");
    if (!dirs)
        dirs = "/bin:/usr/bin";
    int result = -ENOENT;
    for (;;) {
        size_t n = strcspn(dirs, ":");
        if (join(ret_path, size, dirs, n, name) == 0) {
            int err = check_file(ret_path);
            if (err == 0)
                return 0;
            if (err == -EACCES)
                result = err;
        }
        if (dirs[n] == '\0')
            return result;
        dirs += n + 1;
    }
}

/* A file that the kernel does not know how to run, handed to the shell. */
static int exec_by_shell(const char *path, char *const argv[])
{
    size_t n = 0;
    while (argv[n])
        n++;
    char **words = calloc(n + 3, sizeof(*words));
    if (!words)
        return -ENOMEM;
    words[0] = (char *)"/bin/sh";
    words[1] = (char *)path;
    for (size_t i = 1; i < n; i++)
        words[i + 1] = argv[i];
    execv("/bin/sh", words);
    int err = -errno;
    free(words);
    return err;
}

int tg_exec(const char *path, char *const argv[])
{
    execv(path, argv);
    return errno == ENOEXEC ? exec_by_shell(path, argv) : -errno;
}
