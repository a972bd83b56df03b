/* SPDX-License-Identifier: Apache-2.0
 * Paths of socket and store (R2), and directories that nobody else can write (U4, U5). */
#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "proto/paths.h"

static char base[256];
static char why[512];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void open_base(void)
{
    const char *tmp = getenv("TMPDIR");
    CHECK(snprintf(base, sizeof base, "%s/tidegate-test-XXXXXX", tmp && *tmp ? tmp : "/tmp") < 200);
    CHECK(mkdtemp(base) != NULL);
    why[0] = '\0';
}

static void close_base(void)
{
    CHECK(nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

static const char *at(const char *name)
{
    static char path[8][512];
    static unsigned next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", base, name);
    return p;
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    CHECK(lstat(path, &st) == 0);
    return st.st_mode & 07777;
}

static int private_dir(const char *path)
{
    why[0] = '\0';
    int err = tg_private_dir(path, why, sizeof why);
    CHECK((err == 0) == (why[0] == '\0'));
    return err;
}

/* Refused, and the reason names the path. */
static void check_refused(const char *path, const char *named)
{
    CHECK_EQ(private_dir(path), -EPERM);
    CHECK(strstr(why, named) != NULL);
}

static int resolve(struct tg_paths *p)
{
    why[0] = '\0';
    memset(p, 'x', sizeof *p);
    int err = tg_paths_resolve(p, why, sizeof why);
    CHECK((err == 0) == (why[0] == '\0'));
    if (err)
        CHECK(p->socket[0] == 'x' && p->store[0] == 'x');
    return err;
}

static void r2_one_user_one_place(void)
{
    struct tg_paths p;
    setenv("XDG_RUNTIME_DIR", "/run/rt", 1);
    setenv("XDG_STATE_HOME", "/st", 1);
    setenv("HOME", "/h", 1);
    CHECK_EQ(resolve(&p), 0);
    CHECK(strcmp(p.runtime_dir, "/run/rt/tidegate") == 0);
    CHECK(strcmp(p.socket, "/run/rt/tidegate/broker.sock") == 0);
    CHECK(strcmp(p.state_dir, "/st/tidegate") == 0);
    CHECK(strcmp(p.store, "/st/tidegate/store.db") == 0);
    setenv("XDG_STATE_HOME", "", 1); /* empty is unset */
    CHECK_EQ(resolve(&p), 0);
    CHECK(strcmp(p.store, "/h/.local/state/tidegate/store.db") == 0);
    unsetenv("XDG_STATE_HOME");
    CHECK_EQ(resolve(&p), 0);
    CHECK(strcmp(p.state_dir, "/h/.local/state/tidegate") == 0);
    unsetenv("XDG_RUNTIME_DIR");
    CHECK_EQ(resolve(&p), 0);
    char user[64], tmp[64];
    struct stat st;
    snprintf(user, sizeof user, "/run/user/%u", (unsigned)geteuid());
    snprintf(tmp, sizeof tmp, "/tmp/tidegate-%u", (unsigned)geteuid());
    bool mine = lstat(user, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
    if (mine)
        CHECK(strncmp(p.socket, user, strlen(user)) == 0);
    else
        CHECK(strcmp(p.runtime_dir, tmp) == 0);
    CHECK(access("/h", F_OK) != 0); /* no file was touched */
}

static void relative_or_missing_variables_are_refused(void)
{
    struct tg_paths p;
    setenv("XDG_RUNTIME_DIR", "run", 1);
    setenv("XDG_STATE_HOME", "/st", 1);
    CHECK_EQ(resolve(&p), -EINVAL);
    CHECK(strstr(why, "XDG_RUNTIME_DIR") && strstr(why, "'run'") && strstr(why, "absolute"));
    setenv("XDG_RUNTIME_DIR", "/run/rt", 1);
    setenv("XDG_STATE_HOME", "./st", 1);
    CHECK_EQ(resolve(&p), -EINVAL);
    CHECK(strstr(why, "XDG_STATE_HOME") != NULL);
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", "h", 1);
    CHECK_EQ(resolve(&p), -EINVAL);
    CHECK(strstr(why, "HOME") != NULL);
    setenv("HOME", "", 1);
    CHECK_EQ(resolve(&p), -EINVAL);
    unsetenv("HOME");
    CHECK_EQ(resolve(&p), -EINVAL);
    CHECK(strstr(why, "HOME") != NULL);
}

static void long_paths_are_refused(void)
{
    struct tg_paths p;
    char far[TG_PATH_BYTES + 100];
    const size_t tail = strlen("/tidegate/broker.sock"), most = sizeof((struct sockaddr_un *)0)->sun_path - 1;
    memset(far, 'd', sizeof far);
    far[0] = '/';
    far[sizeof far - 1] = '\0';
    setenv("XDG_RUNTIME_DIR", "/run/rt", 1);
    setenv("XDG_STATE_HOME", far, 1);
    CHECK_EQ(resolve(&p), -ENAMETOOLONG);
    CHECK(strstr(why, "XDG_STATE_HOME") != NULL);
    const size_t store_tail = strlen("/tidegate/store.db");
    far[TG_STORE_PATH_BYTES - store_tail + 1] = '\0'; /* one byte too long for a store */
    setenv("XDG_STATE_HOME", far, 1);
    CHECK_EQ(resolve(&p), -ENAMETOOLONG);
    CHECK(strstr(why, "XDG_STATE_HOME") && strstr(why, "504"));
    far[TG_STORE_PATH_BYTES - store_tail] = '\0';
    setenv("XDG_STATE_HOME", far, 1);
    CHECK_EQ(resolve(&p), 0);
    far[TG_STORE_PATH_BYTES - store_tail] = far[TG_STORE_PATH_BYTES - store_tail + 1] = 'd';
    setenv("XDG_STATE_HOME", "/st", 1);
    setenv("XDG_RUNTIME_DIR", far, 1);
    CHECK_EQ(resolve(&p), -ENAMETOOLONG);
    far[most - tail + 1] = '\0'; /* one byte too long for a socket */
    setenv("XDG_RUNTIME_DIR", far, 1);
    CHECK_EQ(resolve(&p), -ENAMETOOLONG);
    CHECK(strstr(why, "XDG_RUNTIME_DIR") != NULL);
    far[most - tail] = '\0';
    setenv("XDG_RUNTIME_DIR", far, 1);
    CHECK_EQ(resolve(&p), 0);
    CHECK_EQ(strlen(p.socket), most);
    char *deep = malloc(TG_PATH_BYTES + 10);
    CHECK(deep != NULL);
    memset(deep, 'd', TG_PATH_BYTES + 9);
    deep[0] = '/';
    deep[TG_PATH_BYTES + 9] = '\0';
    CHECK_EQ(private_dir(deep), -ENAMETOOLONG);
    deep[1000] = '\0'; /* one name longer than a name may be */
    CHECK_EQ(private_dir(deep), -ENAMETOOLONG);
    free(deep);
    CHECK_EQ(private_dir("relative/dir"), -EINVAL);
    CHECK_EQ(private_dir(""), -EINVAL);
    CHECK_EQ(private_dir("/"), -EINVAL);
}

static void u4_made_private_under_any_umask(void)
{
    static const mode_t masks[] = {077, 022, 0, 0277};
    open_base();
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        char name[64];
        snprintf(name, sizeof name, "m%zu/parent/last", i);
        mode_t old = umask(masks[i]);
        int err = private_dir(at(name));
        umask(old);
        CHECK_EQ(err, 0);
        CHECK_EQ(mode_of(at(name)), 0700);
        snprintf(name, sizeof name, "m%zu/parent", i);
        CHECK_EQ(mode_of(at(name)), 0700);
        CHECK_EQ(private_dir(at(name)), 0); /* and again: it is there */
    }
    CHECK_EQ(private_dir(at("//s///t//")), 0);
    CHECK_EQ(mode_of(at("s/t")), 0700);
    close_base();
}

static void u5_a_directory_that_others_may_write_is_refused(void)
{
    open_base();
    CHECK(mkdir(at("d"), 0700) == 0);
    static const mode_t bad[] = {0777, 0770, 0702, 01777, 0720};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(chmod(at("d"), bad[i]) == 0);
        check_refused(at("d"), at("d"));
        CHECK_EQ(mode_of(at("d")), bad[i]); /* it is not repaired behind the owner's back */
    }
    CHECK(chmod(at("d"), 0755) == 0);
    CHECK_EQ(private_dir(at("d")), 0);
    /* Below a directory where everybody may swap names nothing is private; a sticky one (/tmp) is fine. */
    CHECK(chmod(at("d"), 0777) == 0);
    check_refused(at("d/e"), at("d"));
    CHECK(access(at("d/e"), F_OK) != 0);
    CHECK(chmod(at("d"), 01777) == 0);
    CHECK_EQ(private_dir(at("d/e")), 0);
    close_base();
}

static void u4_links_and_files_are_refused(void)
{
    open_base();
    CHECK(mkdir(at("real"), 0700) == 0);
    CHECK(symlink(at("real"), at("link")) == 0);
    CHECK(symlink(at("nowhere"), at("dangling")) == 0);
    CHECK(symlink(at("loop"), at("loop")) == 0);
    FILE *file = fopen(at("file"), "we");
    CHECK(file != NULL && fclose(file) == 0);
    check_refused(at("link"), at("link"));
    check_refused(at("link/"), at("link"));
    check_refused(at("dangling"), at("dangling"));
    check_refused(at("loop"), at("loop"));
    check_refused(at("file"), at("file"));
    check_refused(at("file/below"), at("file"));
    check_refused(at("dangling/below"), at("dangling"));
    CHECK(access(at("nowhere"), F_OK) != 0); /* nothing was made through it */
    /* A link of ours on the way is the user's own arrangement (a home on another disk). */
    CHECK_EQ(private_dir(at("link/below")), 0);
    CHECK_EQ(mode_of(at("real/below")), 0700);
    close_base();
}

static void u4_a_foreign_owner_is_refused(void)
{
    if (geteuid() != 0) {
        fprintf(stderr, "SKIPPED: needs root to make another user's directory\n");
        return;
    }
    open_base();
    CHECK(mkdir(at("d"), 0700) == 0);
    CHECK(chown(at("d"), 65534, 65534) == 0);
    check_refused(at("d"), "65534");
    CHECK(chown(at("d"), 0, 0) == 0);
    CHECK_EQ(private_dir(at("d")), 0);
    /* In a place like /tmp, somebody else's link on the way is not followed. */
    CHECK(mkdir(at("tmp"), 0700) == 0 && chmod(at("tmp"), 01777) == 0);
    CHECK(symlink(at("d"), at("tmp/trap")) == 0);
    CHECK(lchown(at("tmp/trap"), 65534, 65534) == 0);
    check_refused(at("tmp/trap/x"), at("tmp/trap"));
    check_refused(at("tmp/trap"), at("tmp/trap"));
    CHECK(access(at("d/x"), F_OK) != 0);
    CHECK(lchown(at("tmp/trap"), 0, 0) == 0);
    CHECK_EQ(private_dir(at("tmp/trap/x")), 0);
    close_base();
}

static int as_nobody(void)
{
    if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        return 77;
    /* root's directory: another's, although readable; and one that cannot be made */
    if (tg_private_dir(at("d"), why, sizeof why) != -EPERM || !strstr(why, "uid 0"))
        return 1;
    if (tg_private_dir(at("d/e"), why, sizeof why) != -EACCES || !strstr(why, at("d/e")))
        return 2;
    return 0;
}

static void u4_another_user_gets_a_reason(void)
{
    if (geteuid() != 0) {
        fprintf(stderr, "SKIPPED: needs root to become another user\n");
        return;
    }
    open_base();
    CHECK(chmod(base, 0755) == 0);
    CHECK(mkdir(at("d"), 0755) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(as_nobody());
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
    close_base();
}

/* Several clients make the same directory at the same moment: each succeeds, and it is private. */
static void u4_made_by_many_at_once(void)
{
    enum { N = 8, ROUNDS = 20 };
    open_base();
    for (int round = 0; round < ROUNDS; round++) {
        int go[2];
        char name[64], c;
        pid_t pids[N];
        snprintf(name, sizeof name, "r%d/a/b", round);
        CHECK(pipe(go) == 0);
        for (int i = 0; i < N; i++) {
            pids[i] = fork();
            CHECK(pids[i] >= 0);
            if (pids[i] == 0) {
                close(go[1]);
                _exit(read(go[0], &c, 1) == 0 ? -tg_private_dir(at(name), why, sizeof why) : 99);
            }
        }
        close(go[0]);
        close(go[1]);
        for (int i = 0; i < N; i++) {
            int status;
            CHECK_EQ(waitpid(pids[i], &status, 0), pids[i]);
            CHECK(WIFEXITED(status));
            CHECK_EQ(WEXITSTATUS(status), 0);
        }
        CHECK_EQ(mode_of(at(name)), 0700);
    }
    close_base();
}

/* While an attacker swaps the name between a directory and a link, the answer is a refusal or a directory
 * that was private when it was looked at; what the link points to is never taken nor written. */
static void u4_a_name_that_is_swapped_meanwhile(void)
{
    open_base();
    CHECK(mkdir(at("target"), 0700) == 0);
    pid_t attacker = fork();
    CHECK(attacker >= 0);
    if (attacker == 0) {
        const char *target = at("target"), *name = at("name");
        for (int i = 0; i < 5000; i++) {
            if (symlink(target, name) == 0)
                (void)unlink(name);
            (void)rmdir(name);
        }
        _exit(0);
    }
    int status, refused = 0, fine = 0;
    while (waitpid(attacker, &status, WNOHANG) == 0) {
        int err = tg_private_dir(at("name"), why, sizeof why);
        CHECK(err == 0 || err == -EPERM || err == -ENOENT);
        refused += err != 0;
        fine += err == 0;
        CHECK(rmdir(at("target")) == 0 && mkdir(at("target"), 0700) == 0); /* it is still empty */
    }
    fprintf(stderr, "  refused %d, private %d\n", refused, fine);
    CHECK(refused + fine > 0);
    close_base();
}

int main(void)
{
    RUN(r2_one_user_one_place);
    RUN(relative_or_missing_variables_are_refused);
    RUN(long_paths_are_refused);
    RUN(u4_made_private_under_any_umask);
    RUN(u5_a_directory_that_others_may_write_is_refused);
    RUN(u4_links_and_files_are_refused);
    RUN(u4_a_foreign_owner_is_refused);
    RUN(u4_another_user_gets_a_reason);
    RUN(u4_made_by_many_at_once);
    RUN(u4_a_name_that_is_swapped_meanwhile);
    return 0;
}
