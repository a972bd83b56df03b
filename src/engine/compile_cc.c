/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the system's compiler on generated text and loads the result. What can go wrong here is somebody
 * else's file, somebody else's program, or one that never ends, so
 *   - the files lie in a folder of their own, made by mkdtemp (0700) below TMPDIR or /tmp, are opened by name
 *     once, exclusively, and are removed before this returns, whatever happened;
 *   - the compiler is executed with an argument vector; no shell reads anything, and CC is divided at blanks
 *     only. A program with raised rights looks at no CC, TMPDIR and PATH, and hands no environment on;
 *   - the child has /dev/null, the message file and nothing else open. A limit on processor time, which what
 *     it starts inherits, and an alarm on the clock end it. No signal is sent from here (L13): the child
 *     carries its own end with it, which is why it is forked and not spawned.
 */
#include "engine/compile_cc.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define MAX_WORDS 16
#define PATH_BYTES 4096
#define SECOND UINT64_C(1000000000)
/* The generated text is straight code of its own; -O2 is what the library is built with. */
static const char *const flags[] = {"-std=c11", "-O2", "-fPIC", "-shared", "-o"};
#define FLAGS (sizeof(flags) / sizeof(flags[0]))

struct job {
    char folder[PATH_BYTES];
    char source[PATH_BYTES + 16], object[PATH_BYTES + 16], messages[PATH_BYTES + 16];
    char program[PATH_BYTES];
    char *words; /* cc, divided */
    char *argv[MAX_WORDS + FLAGS + 4];
    char *const *environment;
    char *why;
    size_t why_bytes;
};

static int fail(struct job *j, int error, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    if (j->why_bytes)
        vsnprintf(j->why, j->why_bytes, format, ap);
    va_end(ap);
    return error;
}

/* The file of a program as execvp would find it. */
static bool find_program(const char *name, char *ret, size_t bytes)
{
    if (strchr(name, '/'))
        return (size_t)snprintf(ret, bytes, "%s", name) < bytes && access(ret, X_OK) == 0;
    const char *path = secure_getenv("PATH");
    if (!path || !*path)
        path = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t n = strcspn(path, ":");
        struct stat st;
        /* An empty element means the working folder: not for us. */
        if (n && (size_t)snprintf(ret, bytes, "%.*s/%s", (int)n, path, name) < bytes &&
            access(ret, X_OK) == 0 && stat(ret, &st) == 0 && S_ISREG(st.st_mode))
            return true;
        if (!path[n])
            return false;
        path += n + 1;
    }
}

static int divide(struct job *j, const char *cc)
{
    size_t n = 0;
    j->words = strdup(cc);
    if (!j->words)
        return fail(j, -ENOMEM, "no memory");
    for (char *p = j->words; *p;) {
        while (isspace((unsigned char)*p))
            *p++ = 0;
        if (!*p)
            break;
        if (n == MAX_WORDS)
            return fail(j, -EINVAL, "the compiler has more than %d words", MAX_WORDS);
        j->argv[n++] = p;
        while (*p && !isspace((unsigned char)*p))
            p++;
    }
    if (n == 0)
        return fail(j, -EINVAL, "the name of the compiler is empty");
    if (!find_program(j->argv[0], j->program, sizeof(j->program)))
        return fail(j, -ENOENT, "there is no compiler '%.200s' (set CC, or install a C compiler)",
                    j->argv[0]);
    for (size_t i = 0; i < FLAGS; i++)
        j->argv[n++] = (char *)(uintptr_t)flags[i];
    j->argv[n++] = j->object;
    j->argv[n++] = j->source;
    return 0;
}

static int make_folder(struct job *j)
{
    const char *root = secure_getenv("TMPDIR");
    if (!root || root[0] != '/')
        root = "/tmp";
    if ((size_t)snprintf(j->folder, sizeof(j->folder), "%s/tidegate-ir-XXXXXX", root) >= sizeof(j->folder))
        return j->folder[0] = 0, fail(j, -ENAMETOOLONG, "TMPDIR is too long");
    if (!mkdtemp(j->folder)) {
        int error = errno;
        j->folder[0] = 0;
        return fail(j, -error, "no folder below %.200s: %s", root, strerror(error));
    }
    snprintf(j->source, sizeof(j->source), "%s/kernel.c", j->folder);
    snprintf(j->object, sizeof(j->object), "%s/kernel.so", j->folder);
    snprintf(j->messages, sizeof(j->messages), "%s/messages", j->folder);
    return 0;
}

static void remove_folder(struct job *j)
{
    if (!j->folder[0])
        return;
    unlink(j->source);
    unlink(j->object);
    unlink(j->messages);
    rmdir(j->folder);
}

static int write_source(struct job *j, const char *text, size_t bytes)
{
    int fd = open(j->source, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int error = fd < 0 ? errno : 0;
    while (!error && bytes) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0) {
            error = errno == EINTR ? 0 : errno;
            continue;
        }
        text += n;
        bytes -= (size_t)n;
    }
    if (fd >= 0 && close(fd) != 0 && !error)
        error = errno;
    return error ? fail(j, -error, "cannot write %.200s: %s", j->source, strerror(error)) : 0;
}

/* Between fork and exec only calls that are safe in a copy of a threaded program. */
_Noreturn static void child(const struct job *j, int null, int messages, unsigned seconds)
{
    struct rlimit cpu = {seconds, seconds + 1}, core = {0, 0};
    sigset_t none;
    sigemptyset(&none);
    signal(SIGALRM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(null, 0) < 0 || dup2(messages, 1) < 0 || dup2(messages, 2) < 0)
        _exit(127);
    syscall(SYS_close_range, 3u, ~0u, 0u); /* where the kernel lacks it, close-on-exec is what there is */
    setrlimit(RLIMIT_CPU, &cpu);
    setrlimit(RLIMIT_CORE, &core);
    alarm(seconds);
    execve(j->program, j->argv, j->environment);
    _exit(127);
}

/* Waits for the child, a little longer than it can live. Somebody else may have reaped it (SIGCHLD ignored):
 * then the object says how it went. */
static int await(struct job *j, pid_t pid, unsigned seconds)
{
    uint64_t end = tg_clock_mono_ns() + (seconds + 2) * SECOND;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    int status = 0;
    pid_t got = 0;
    while (got == 0 && tg_clock_mono_ns() < end) {
        if (fd >= 0) {
            struct pollfd p = {.fd = fd, .events = POLLIN};
            uint64_t now = tg_clock_mono_ns();
            poll(&p, 1, now < end ? (int)((end - now) / 1000000) + 1 : 0);
        }
        got = waitpid(pid, &status, fd >= 0 ? WNOHANG : 0);
        if (got < 0 && errno == EINTR)
            got = 0;
    }
    if (fd >= 0)
        close(fd);
    if (got == 0 ||
        (got > 0 && WIFSIGNALED(status) && (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGXCPU)))
        return fail(j, -ETIMEDOUT, "%.200s did not end in %u s", j->program, seconds);
    if (got > 0 && WIFSIGNALED(status))
        return fail(j, -EBADMSG, "%.200s was ended by signal %d", j->program, WTERMSIG(status));
    return got > 0 && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : 0;
}

/* What the compiler printed, behind a line that says who. */
static int refused(struct job *j, int messages, int status)
{
    fail(j, -EBADMSG, "%.200s ended with %d:\n", j->program, status);
    size_t at = j->why_bytes ? strlen(j->why) : 0;
    if (j->why_bytes > at + 1) {
        ssize_t n = pread(messages, j->why + at, j->why_bytes - at - 1, 0);
        j->why[at + (n > 0 ? (size_t)n : 0)] = 0;
    }
    return -EBADMSG;
}

static int run_compiler(struct job *j, uint64_t timeout_ns)
{
    uint64_t whole = timeout_ns / SECOND + (timeout_ns % SECOND != 0);
    unsigned seconds = whole < 1 ? 1 : whole > 3600 ? 3600 : (unsigned)whole;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int messages = open(j->messages, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = 0;
    if (null < 0 || messages < 0)
        r = fail(j, -errno, "cannot open %.200s: %s", j->messages, strerror(errno));
    pid_t pid = r ? -1 : fork();
    if (pid == 0)
        child(j, null, messages, seconds);
    if (!r && pid < 0)
        r = fail(j, -errno, "cannot start %.200s: %s", j->program, strerror(errno));
    if (!r)
        r = await(j, pid, seconds);
    if (r > 0)
        r = refused(j, messages, r);
    if (null >= 0)
        close(null);
    if (messages >= 0)
        close(messages);
    return r;
}

static int compile(struct job *j, const char *text, size_t bytes, const char *cc, uint64_t timeout_ns,
                   void **ret_library)
{
    static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
    static char *const plain[] = {path, NULL};
    j->environment = getauxval(AT_SECURE) ? plain : environ;
    int r = divide(j, cc);
    if (!r)
        r = make_folder(j);
    if (!r)
        r = write_source(j, text, bytes);
    if (!r)
        r = run_compiler(j, timeout_ns);
    if (r)
        return r;
    void *library = dlopen(j->object, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *said = dlerror();
        return fail(j, -EBADMSG, "what %.200s wrote cannot be loaded: %.600s", j->program, said ? said : "?");
    }
    *ret_library = library;
    return 0;
}

int tg_cc_load(const char *text, size_t bytes, const char *cc, uint64_t timeout_ns, void **ret_library,
               char *why, size_t why_bytes)
{
    struct job *j = calloc(1, sizeof(*j));
    if (!j)
        return -ENOMEM;
    j->why = why;
    j->why_bytes = why_bytes;
    if (why_bytes)
        why[0] = 0;
    if (!cc)
        cc = secure_getenv("CC");
    if (!cc || !*cc)
        cc = "cc";
    int r = compile(j, text, bytes, cc, timeout_ns, ret_library);
    remove_folder(j);
    free(j->words);
    free(j);
    return r;
}
