/* SPDX-License-Identifier: Apache-2.0
 * The wrapper on a terminal: the interrupt and suspend keys, a command that makes itself a foreground group
 * and dies (W4, W7); and words that are hard to pass on (W10). The terminal is a pty of the test's own,
 * and a child of the test leads its session as a shell would. */
#include <sys/ioctl.h>
#include <termios.h>

#include "cli_test.h"

static char self[4096];

/* W10. The command writes down the words it got: each with its length. */
static int dump_words(int argc, char **argv)
{
    int fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (int i = 3; i < argc; i++) {
        uint32_t n = (uint32_t)strlen(argv[i]);
        CHECK_EQ(write(fd, &n, sizeof(n)), sizeof(n));
        CHECK_EQ(write(fd, argv[i], n), n);
    }
    return 0;
}

static void check_words(const char *path, char **words)
{
    FILE *f = fopen(path, "re");
    CHECK(f != NULL);
    static char got[200000];
    uint32_t n;
    for (; *words; words++) {
        CHECK_EQ(fread(&n, sizeof(n), 1, f), 1);
        CHECK_EQ(n, strlen(*words));
        CHECK_EQ(fread(got, 1, n, f), n);
        CHECK(memcmp(got, *words, n) == 0);
    }
    CHECK_EQ(fread(&n, 1, 1, f), 0);
    fclose(f);
}

static void w10_words_arrive_as_they_are(void)
{
    enum { MANY = 20000 };
    static char *argv[MANY + 32];
    static struct cli_run r;
    static char hundred_kb[100001], path[128];
    snprintf(path, sizeof(path), "%s/words", cli_dir);
    memset(hundred_kb, 'x', sizeof(hundred_kb) - 1);
    char *hard[] = {(char *)"",
                    hundred_kb,
                    (char *)"new\nline",
                    (char *)"'q\"u`o$te\\",
                    (char *)"\xff\xfe\x80",
                    (char *)"--",
                    (char *)"-p",
                    (char *)"\x1b[2J",
                    (char *)" ",
                    (char *)"*",
                    (char *)""};
    size_t n = 0;
    argv[n++] = cli_command;
    argv[n++] = (char *)"run";
    argv[n++] = (char *)"--";
    argv[n++] = self;
    argv[n++] = (char *)"words";
    argv[n++] = path;
    size_t first = n;
    for (size_t i = 0; i < sizeof(hard) / sizeof(hard[0]); i++)
        argv[n++] = hard[i];
    for (int i = 0; i < MANY; i++) /* 20,000 words of 50 bytes: 1 MB */
        argv[n++] = (char *)"fifty bytes of a word that are there to make a lot";
    cli_run(&r, CLI_PATIENCE_MS, (const char *const *)argv);
    CHECK_EXIT(&r, 0);
    check_words(path, argv + first);
}

/* A bare chroot has no /dev/pts. */
static bool have_terminals(void)
{
    char name[64];
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    bool have = fd >= 0 && grantpt(fd) == 0 && unlockpt(fd) == 0 && ptsname_r(fd, name, sizeof(name)) == 0 &&
                access(name, R_OK | W_OK) == 0;
    if (fd >= 0)
        close(fd);
    return have;
}

/* A session of its own on a new pty, as a shell's: runs body there, in the foreground. */
static pid_t on_a_terminal(int *master, int (*body)(void))
{
    *master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(*master >= 0 && grantpt(*master) == 0 && unlockpt(*master) == 0);
    char name[64];
    CHECK_EQ(ptsname_r(*master, name, sizeof(name)), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    setsid();
    int tty = open(name, O_RDWR);
    if (tty < 0 || ioctl(tty, TIOCSCTTY, 0))
        _exit(98);
    for (int fd = 0; fd <= 2; fd++)
        dup2(tty, fd);
    if (tty > 2)
        close(tty);
    alarm(120);
    _exit(body());
}

/* Reads the terminal until the word has come. */
static void expect(int master, const char *word)
{
    static char seen[65536];
    size_t used = 0;
    uint64_t end = tg_clock_mono_ns() + UINT64_C(60000000000);
    for (;;) {
        struct pollfd p = {.fd = master, .events = POLLIN};
        if (tg_clock_mono_ns() > end) {
            fprintf(stderr, "waited for %s, saw: %s\n", word, seen);
            exit(1);
        }
        if (poll(&p, 1, 100) <= 0)
            continue;
        ssize_t n = read(master, seen + used, sizeof(seen) - 1 - used);
        if (n > 0)
            used += (size_t)n;
        seen[used] = '\0';
        if (strstr(seen, word))
            return;
    }
}

static void type(int master, char key)
{
    CHECK_EQ(write(master, &key, 1), 1);
}

static int end_of(pid_t pid)
{
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* As a shell with job control starts a job: a process group of its own, in the foreground. */
static pid_t start_job(const char *script)
{
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        signal(SIGTTOU, SIG_IGN);
        tcsetpgrp(0, getpgrp());
        signal(SIGTTOU, SIG_DFL);
        execl(cli_command, cli_command, "run", "-q", "--", "/bin/bash", "-c", script, (char *)NULL);
        _exit(99);
    }
    setpgid(pid, pid);
    return pid;
}

static int wait_exit(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid)
        return 90;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 91;
}

static int body_interrupt_kills(void)
{
    return wait_exit(start_job("echo up; exec sleep 100")) == 130 ? 0 : 1;
}

/* The command takes the interrupts as they come: each key is one signal, from the terminal, though the
 * wrapper gets it too. */
enum { KEYS = 5 };

static int count_interrupts(void)
{
    sigset_t set;
    siginfo_t info;
    const struct timespec one_more = {.tv_nsec = 400000000}, patience = {.tv_sec = 60};
    int n = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("up\n");
    fflush(stdout);
    while (sigtimedwait(&set, &info, n < KEYS ? &patience : &one_more) == SIGINT) {
        if (info.si_code <= 0)
            return 50; /* a process sent it: doubled */
        printf("got %d\n", ++n);
        fflush(stdout);
    }
    return n;
}

static int body_interrupt_counted(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        signal(SIGTTOU, SIG_IGN);
        tcsetpgrp(0, getpgrp());
        signal(SIGTTOU, SIG_DFL);
        execl(cli_command, cli_command, "run", "-q", "--", self, "count", (char *)NULL);
        _exit(99);
    }
    return wait_exit(pid) == KEYS ? 0 : 1;
}

static void w4_the_interrupt_key_arrives_once_as_itself(void)
{
    int master;
    pid_t pid = on_a_terminal(&master, body_interrupt_kills);
    expect(master, "up");
    type(master, 3);
    CHECK_EQ(end_of(pid), 0);
    close(master);

    pid = on_a_terminal(&master, body_interrupt_counted);
    expect(master, "up");
    for (int i = 1; i <= KEYS; i++) {
        char word[16];
        snprintf(word, sizeof(word), "got %d", i);
        type(master, 3);
        expect(master, word);
    }
    CHECK_EQ(end_of(pid), 0);
    close(master);
}

/* Suspend: the shell sees its job stopped, continues it, and it ends with its own code. */
static int body_suspend(void)
{
    int status;
    signal(SIGTTOU, SIG_IGN);
    pid_t job = start_job("echo up; read line; echo line=$line; exit 6");
    if (waitpid(job, &status, WUNTRACED) != job || !WIFSTOPPED(status))
        return 1;
    if (tcsetpgrp(0, getpgrp()))
        return 2;
    if (write(1, "stopped\n", 8) != 8 || tcsetpgrp(0, job) || kill(-job, SIGCONT))
        return 3;
    return wait_exit(job) == 6 ? 0 : 4;
}

static void w7_suspend_and_continue(void)
{
    int master;
    pid_t pid = on_a_terminal(&master, body_suspend);
    expect(master, "up");
    type(master, 26);
    expect(master, "stopped");
    CHECK_EQ(write(master, "hello\n", 6), 6);
    expect(master, "line=hello");
    CHECK_EQ(end_of(pid), 0);
    close(master);
}

/* The command puts a group of its own in front and is killed: the wrapper's group has the terminal again
 * when the wrapper has ended. The caller is a script: same group as the wrapper, takes nothing back itself.
 */
static int body_foreground_group(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(cli_command, cli_command, "run", "-q", "--", self, "grab", (char *)NULL);
        _exit(99);
    }
    if (wait_exit(pid) != 137)
        return 1;
    return tcgetpgrp(0) == getpgrp() ? 0 : 2;
}

static int grab_terminal_and_die(void)
{
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);
    if (tcsetpgrp(0, getpgrp()))
        return 1;
    raise(SIGKILL);
    return 2;
}

static void w7_the_terminal_comes_back(void)
{
    int master;
    pid_t pid = on_a_terminal(&master, body_foreground_group);
    CHECK_EQ(end_of(pid), 0);
    close(master);
}

/* While it waits on a terminal, it says so without being asked (W13). */
static int body_waits(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl(cli_command, cli_command, "run", "--slots", "1", "--timeout", "200ms", "--", "true",
              (char *)NULL);
        _exit(99);
    }
    return wait_exit(pid) == 124 ? 0 : 1;
}

static void w13_on_a_terminal_it_says_what_it_waits_for(void)
{
    int master;
    static struct cli_run r;
    CLI(&r, CLI_PATIENCE_MS, "config", "slots", "0");
    CHECK_EXIT(&r, 0);
    pid_t pid = on_a_terminal(&master, body_waits);
    expect(master, "slots");
    int code = end_of(pid);
    CLI(&r, CLI_PATIENCE_MS, "config", "slots", "2");
    CHECK_EXIT(&r, 0);
    CHECK_EQ(code, 0);
    close(master);
}

int main(int argc, char **argv)
{
    static struct cli_run r;
    if (argc > 2 && strcmp(argv[1], "words") == 0)
        return dump_words(argc, argv);
    if (argc > 1 && strcmp(argv[1], "grab") == 0)
        return grab_terminal_and_die();
    if (argc > 1 && strcmp(argv[1], "count") == 0)
        return count_interrupts();
    alarm(280);
    cli_setup();
    CHECK(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    CLI(&r, CLI_PATIENCE_MS, "config", "load", "off");
    CHECK_EXIT(&r, 0);
    CLI(&r, CLI_PATIENCE_MS, "config", "slots", "2");
    CHECK_EXIT(&r, 0);
    RUN(w10_words_arrive_as_they_are);
    if (!have_terminals())
        SKIP("no pseudo-terminal can be had here (is /dev/pts mounted?): W10 passed, W4, W7 and W13 were not "
             "run");
    RUN(w4_the_interrupt_key_arrives_once_as_itself);
    RUN(w7_suspend_and_continue);
    RUN(w7_the_terminal_comes_back);
    RUN(w13_on_a_terminal_it_says_what_it_waits_for);
    return 0;
}
