/* SPDX-License-Identifier: Apache-2.0
 * See detach.h. Three processes: the caller, the wrapper, and the one that asks for the turn and becomes the
 * command (run.h). The last one learns the number first, names the output, and tells the caller. */
#include "client/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/output.h"

/* What the caller is told, in one write; shorter than PIPE_BUF. */
struct news {
    uint64_t ticket; /* 0: err and text say why there is none */
    int err;
    char text[TG_CLIENT_TEXT_BYTES];
};

struct job {
    struct tg_client *c;
    struct tg_run_ask ask; /* as the caller has it */
    int tell_fd;
    int output_fd;
    char unnamed[TG_PATH_BYTES];
    uint64_t *ticket; /* shared by wrapper and command; 0: not known yet */
};

static bool tell(int fd, const struct news *news)
{
    return write(fd, news, sizeof(*news)) == (ssize_t)sizeof(*news);
}

/* A line of ours in the kept output: nobody else is there to be told. */
static void note(const struct job *job, const char *text)
{
    char line[TG_CLIENT_TEXT_BYTES + 32];
    int n = snprintf(line, sizeof(line), "tidegate: run: %s\n", text);
    if (n > 0 && write(job->output_fd, line, strnlen(line, sizeof(line))) < 0)
        return;
}

/* In the process that becomes the command: the first word of the broker. Nobody knows of the job if this goes
 * wrong, so there shall be none. */
static void take_number(struct job *job, uint64_t ticket)
{
    struct news news = {.ticket = ticket};
    if (*job->ticket != 0)
        return;
    news.err = tg_output_name(job->c, job->unnamed, ticket);
    if (!news.err && (dup2(job->output_fd, STDOUT_FILENO) < 0 || dup2(job->output_fd, STDERR_FILENO) < 0))
        news.err = tg_client_fail(job->c, -errno, "cannot redirect the output: %s", strerror(errno));
    if (news.err) {
        news.ticket = 0;
        memcpy(news.text, job->c->text, sizeof(news.text));
    }
    if (!tell(job->tell_fd, &news) || news.err)
        _exit(125);
    *job->ticket = ticket;
    close(job->tell_fd);
}

static void on_waiting(void *ctx, const struct tg_admit_answer *now)
{
    struct job *job = ctx;
    take_number(job, now->ticket);
    if (job->ask.waiting)
        job->ask.waiting(job->ask.ctx, now);
}

/* In the process that would have become the command: the same thing waits or runs already, so the job that
 * was asked for is that one (V8). What is replaced is ended before we are enqueued. */
static void on_existing(void *ctx, const struct tg_admit_answer *answer, enum tg_if_exists then)
{
    struct job *job = ctx;
    struct news news = {.ticket = answer->ticket};
    if (then != TG_IF_EXISTS_JOIN)
        return;
    unlink(job->unnamed);
    *job->ticket = answer->ticket;
    _exit(tell(job->tell_fd, &news) ? 0 : 125);
}

static void on_granted(void *ctx, const struct tg_admit_answer *answer)
{
    struct job *job = ctx;
    take_number(job, answer->ticket);
    if (job->ask.granted)
        job->ask.granted(job->ask.ctx, answer);
}

/* The mark in our own environment, as others read it, names no ticket any more: this wrapper and what it
 * starts are not part of the job that we were started under. */
static void scrub_mark(void)
{
    char *mark = getenv(TG_ENV_TICKET);
    for (; mark && *mark >= '0' && *mark <= '9'; mark++)
        *mark = '0';
}

static int prepare_wrapper(struct job *job)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (setsid() < 0 || null < 0)
        return tg_client_fail(job->c, -errno, "cannot detach: %s", strerror(errno));
    int fd = tg_output_make(job->c, job->unnamed);
    if (fd < 0)
        return fd;
    job->output_fd = fd;
    for (fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
    scrub_mark();
    return 0;
}

/* The wrapper: an ordinary run, but that its failures are told to the caller or, later, noted. */
static void be_wrapper(struct job *job)
{
    struct tg_run_ask ask = job->ask;
    struct tg_run_end end;
    struct news news = {0};
    int status = 0;
    int err = prepare_wrapper(job);
    ask.admit.parent = NULL;
    ask.detached = true;
    ask.alone = true;
    ask.waiting = on_waiting;
    ask.existing = on_existing;
    ask.granted = on_granted;
    ask.ctx = job;
    if (!err)
        err = tg_client_run(job->c, &ask, &status, &end);
    if (*job->ticket != 0) {
        if (err)
            note(job, job->c->text);
        else if (end.oom)
            note(job, "OOM-killed (the kernel killed it, most likely, for lack of memory)");
        _exit(0);
    }
    if (job->output_fd >= 0)
        unlink(job->unnamed);
    news.err = err ? err : -ECANCELED;
    snprintf(news.text, sizeof(news.text), "%s", err ? job->c->text : "it was ended before it was enqueued");
    _exit(tell(job->tell_fd, &news) ? 0 : 1);
}

/* What the wrapper or its child says; the end of the pipe without a word is a failure too. */
static int listen_to(struct tg_client *c, int fd, uint64_t *ret_ticket)
{
    struct news news;
    ssize_t n;
    do
        n = read(fd, &news, sizeof(news));
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(news))
        return tg_client_fail(c, -ECANCELED, "the job was ended before it was enqueued");
    if (news.ticket == 0) {
        news.text[sizeof(news.text) - 1] = '\0';
        return tg_client_fail(c, news.err < 0 ? news.err : -EPROTO, "%s", news.text);
    }
    *ret_ticket = news.ticket;
    return 0;
}

int tg_client_detach(struct tg_client *c, const struct tg_run_ask *ask, uint64_t *ret_ticket)
{
    struct job job = {.c = c, .ask = *ask, .output_fd = -1};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return tg_client_fail(c, -errno, "cannot make a pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        ends[i] = tg_fd_above_stdio(ends[i]);
    job.ticket = mmap(NULL, sizeof(*job.ticket), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t wrapper = -1;
    if (ends[0] < 0 || ends[1] < 0 || job.ticket == MAP_FAILED)
        errno = ENOMEM;
    else
        wrapper = fork();
    if (wrapper == 0) {
        close(ends[0]);
        job.tell_fd = ends[1];
        be_wrapper(&job);
    }
    int err = wrapper < 0 ? tg_client_fail(c, -errno, "cannot fork: %s", strerror(errno)) : 0;
    if (ends[1] >= 0)
        close(ends[1]);
    if (!err)
        err = listen_to(c, ends[0], ret_ticket);
    if (ends[0] >= 0)
        close(ends[0]);
    if (job.ticket != MAP_FAILED)
        munmap(job.ticket, sizeof(*job.ticket));
    return err;
}
