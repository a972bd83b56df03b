/* SPDX-License-Identifier: Apache-2.0
 * See cgroup.h. */
#include "machine/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "machine/kept.h"
#include "machine/text.h"

#define MOUNT "/sys/fs/cgroup"

static bool present(const struct tg_root *root, const char *path)
{
    char full[PATH_MAX];
    return tg_root_path(root, path, full, sizeof full) == 0 && access(full, F_OK) == 0;
}

/* A line of /proc/self/cgroup, cut up in place: "4:cpu,cpuacct:/user.slice" or, for version 2, "0::/". */
struct line {
    const char *controllers;
    const char *path;
};

static int next_line(char **text, struct line *ret)
{
    char *p = *text;
    char *end = strchr(p, '\n');
    if (end)
        *end = '\0';
    *text = end ? end + 1 : p + strlen(p);
    size_t digits = strspn(p, "0123456789");
    if (digits == 0 || p[digits] != ':')
        return -EBADMSG;
    char *controllers = p + digits + 1;
    char *colon = strchr(controllers, ':');
    if (!colon || colon[1] != '/')
        return -EBADMSG;
    *colon = '\0';
    *ret = (struct line){.controllers = controllers, .path = colon + 1};
    return 0;
}

/* Whether name is one of the comma-separated list. */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p; p = strchr(p, ',')) {
        if (*p == ',')
            p++;
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }
    return false;
}

static int set_mount(struct tg_cgroup *g, int version, const char *below)
{
    int n = snprintf(g->dir, sizeof g->dir, MOUNT "%s%s", *below ? "/" : "", below);
    if (n < 0 || (size_t)n >= sizeof g->dir)
        return -ENAMETOOLONG;
    g->version = version;
    g->mount_bytes = (size_t)n;
    return 0;
}

/* The usual places; a controller of version 1 lies under its own name or under that of the whole list. */
static int find_mount(const struct tg_root *root, const char *controller, const struct line *line,
                      struct tg_cgroup *g)
{
    if (*line->controllers == '\0') {
        bool unified = present(root, MOUNT "/cgroup.controllers");
        int err = set_mount(g, 2, unified ? "" : "unified");
        return err ? err : unified || present(root, g->dir) ? 0 : -ENOENT;
    }
    int err = set_mount(g, 1, controller);
    if (err || present(root, g->dir))
        return err;
    err = set_mount(g, 1, line->controllers);
    return err ? err : present(root, g->dir) ? 0 : -ENOENT;
}

/* ".." stands in the path of a process outside its cgroup namespace; the walk must not leave the mount. */
static bool has_dotdot(const char *path)
{
    for (const char *p = strstr(path, "/.."); p; p = strstr(p + 1, "/..")) {
        if (p[3] == '/' || p[3] == '\0')
            return true;
    }
    return false;
}

/* Appends path to the mount when that group is there. */
static bool descend(const struct tg_root *root, struct tg_cgroup *g, const char *path)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    if (n >= sizeof g->dir - g->mount_bytes)
        return false;
    memcpy(g->dir + g->mount_bytes, path, n);
    g->dir[g->mount_bytes + n] = '\0';
    return n == 0 || present(root, g->dir);
}

/* The n-th blank-separated word of a line, from 0; its length is written to *len. */
static const char *word(const char *p, int n, size_t *len)
{
    for (; n > 0; n--) {
        p += strcspn(p, " \n");
        if (*p != ' ')
            return NULL;
        p++;
    }
    *len = strcspn(p, " \n");
    return p;
}

/* The part of path below the group that is mounted here, as /proc/self/mountinfo tells ("... ROOT POINT
 * ..." are its words 3 and 4), or NULL. The last mount on a point is the one that is seen. */
static const char *below_mounted(const struct tg_cgroup *g, const char *mounts, const char *path)
{
    const char *found = NULL;
    for (const char *line = mounts; line && *line;) {
        size_t root_len, point_len;
        const char *top = word(line, 3, &root_len), *point = word(line, 4, &point_len);
        if (top && point && point_len == g->mount_bytes && strncmp(point, g->dir, point_len) == 0) {
            bool inside = strncmp(path, top, root_len) == 0 && (!path[root_len] || path[root_len] == '/');
            found = inside ? path + root_len : NULL;
        }
        line = strchr(line, '\n');
        if (line)
            line++;
    }
    return found;
}

/* The same, with the path as it is seen in a container that has only a part of the tree mounted. */
static bool descend_from_part(const struct tg_root *root, struct tg_cgroup *g, const char *path)
{
    char mounts[65536];
    if (tg_text_read(root, "/proc/self/mountinfo", mounts, sizeof mounts) != 0)
        return false;
    const char *below = below_mounted(g, mounts, path);
    return below && descend(root, g, below);
}

/* The group at path, or the nearest one above it that can be seen. */
static void find_dir(const struct tg_root *root, struct tg_cgroup *g, const char *path)
{
    if (has_dotdot(path) || descend(root, g, path) || descend_from_part(root, g, path))
        return;
    descend(root, g, path);
    while (!present(root, g->dir) && tg_cgroup_up(g))
        ;
}

static int search(const struct tg_root *root, const char *controller, struct tg_cgroup *ret)
{
    char buf[16384];
    int err = tg_text_read(root, "/proc/self/cgroup", buf, sizeof buf);
    if (err)
        return err;
    struct line v1 = {NULL, NULL}, v2 = {NULL, NULL}, line;
    for (char *p = buf; *p;) {
        err = next_line(&p, &line);
        if (err)
            return err;
        if (*line.controllers == '\0')
            v2 = line;
        else if (listed(line.controllers, controller))
            v1 = line;
    }
    /* A controller is in one hierarchy: what version 1 has is not in version 2. */
    const struct line *mine = v1.path ? &v1 : &v2;
    if (!mine->path)
        return -ENOENT;
    err = find_mount(root, controller, mine, ret);
    if (err)
        return err;
    find_dir(root, ret, mine->path);
    return 0;
}

int tg_cgroup_find(const struct tg_root *root, const char *controller, struct tg_cgroup *ret)
{
    int err;
    struct tg_kept *kept = root->prefix[0] == '\0' ? root->kept : NULL;
    if (kept && tg_kept_group_get(kept, controller, &err, ret))
        return err;
    err = search(root, controller, ret);
    if (kept)
        tg_kept_group_put(kept, controller, err, ret);
    return err;
}

bool tg_cgroup_up(struct tg_cgroup *group)
{
    size_t n = strlen(group->dir);
    if (n <= group->mount_bytes)
        return false;
    while (n > group->mount_bytes && group->dir[n - 1] != '/')
        n--;
    while (n > group->mount_bytes && group->dir[n - 1] == '/')
        n--;
    group->dir[n] = '\0';
    return true;
}

int tg_cgroup_read(const struct tg_root *root, const struct tg_cgroup *group, const char *file, char *buf,
                   size_t size)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", group->dir, file);
    if (n < 0 || (size_t)n >= sizeof path)
        return -ENAMETOOLONG;
    return tg_text_read(root, path, buf, size);
}
