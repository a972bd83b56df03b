/* SPDX-License-Identifier: Apache-2.0
 * See run.h. */
#include "client/run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "client/forward.h"
#include "client/lookup.h"
#include "client/plain.h"
#include "machine/oom.h"
#include "proto/words.h"

/* How much likelier than its wrapper a command is chosen when memory runs out, of 1000 (E8). */
#define OOM_STEP 200
/* How long the broker may take to look for what a command left, before the wrapper ends all the same. */
#define LEFT_MS 1000u

/* A command that was over at once and small has nothing to be told. */
#define NOTE_AFTER_MS 1000u
#define NOTE_ABOVE_MB 16u

enum stage {
    STAGE_ASKING = 0, /* the child waits for its turn */
    STAGE_RUNNING,    /* it has it, and becomes the command */
    STAGE_REFUSED,    /* it never got it: err, text */
    STAGE_NO_EXEC,    /* execve failed: err, text */
    STAGE_JOINED,     /* another ticket with the same key has ended: joined_status (V8) */
};

/* Shared by the wrapper and its child until the exec; the child writes, the wrapper reads after it ended
 * (waitpid orders the two). */
struct report {
    enum stage stage;
    int err;
    int joined_status;
    uint64_t granted_boot_ns;
    uint64_t ticket; /* to report as done; 0 for a nested one, which is its parent's */
    char mark[TG_TICKET_ENV_BYTES];
    char text[TG_CLIENT_TEXT_BYTES];
};

static void refuse(struct report *report, enum stage stage, int err, const char *text)
{
    report->err = err;
    memcpy(report->text, text, strlen(text) + 1);
    report->stage = stage;
    _exit(125);
}

/* What is asked for the child, whose number is not known yet. */
static struct tg_admit_ask admit_of(const struct tg_run_ask *ask)
{
    struct tg_admit_ask admit = ask->admit;
    admit.kind = "run";
    admit.reaper = ask->alone;
    admit.detached = ask->detached;
    admit.tell_existing = ask->if_exists != TG_IF_EXISTS_REFUSE;
    return admit;
}

static int send_request(struct tg_client *c, const struct tg_admit_ask *admit)
{
    uint8_t frame[TG_PLAIN_BYTES];
    size_t n = tg_plain_admit(admit, c->paths.store, frame);
    if (n > 0)
        return tg_client_send_frame(c, frame, n);
    json_t *request = tg_admit_message(admit);
    int err = request ? tg_client_send(c, request) : -ENOMEM;
    json_decref(request);
    return err;
}

/* The wrapper asks for the child while that gets ready: nothing but the answer is left for it. Where this
 * cannot be sent the child finds the connection ended, and asks itself. */
static void ask_for(struct tg_client *c, const struct tg_run_ask *ask, pid_t child)
{
    struct tg_admit_ask admit = admit_of(ask);
    admit.pid = child;
    if (send_request(c, &admit) != 0 && c->fd >= 0)
        shutdown(c->fd, SHUT_RDWR);
}

/* The child, from the fork to the exec. */
static void become_command(struct tg_client *c, const struct tg_run_ask *ask, bool asked, pid_t wrapper,
                           struct report *report)
{
    const struct tg_keyed_ask keyed = {ask->if_exists, ask->waiting, ask->existing, ask->ctx};
    struct tg_admit_ask admit = admit_of(ask);
    struct tg_admit_answer answer;
    struct tg_ended ended;
    bool joined;
    static const struct tg_root machine = {.prefix = ""};
    admit.pid = getpid();
    admit.asked = asked;
    /* A wrapper that dies while we wait takes us along; it may have died before this call. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != wrapper)
        _exit(125);
    tg_oom_volunteer(&machine, OOM_STEP);

    int err = tg_admit_keyed(c, &admit, &keyed, &answer, &ended, &joined);
    if (!err && joined) {
        report->joined_status = ended.status;
        report->stage = STAGE_JOINED;
        _exit(0);
    }
    if (!err && answer.state != TG_ADMIT_HOLD)
        err = answer.unanswered ? -ETIME : tg_client_fail(c, -ETIME, "waited too long for its turn");
    if (err)
        refuse(report, STAGE_REFUSED, err, c->text);
    if (ask->granted)
        ask->granted(ask->ctx, &answer);
    report->ticket = strcmp(answer.verdict, "nested") == 0 ? 0 : answer.ticket;
    report->granted_boot_ns = answer.granted_boot_ns;
    memcpy(report->mark, answer.env, sizeof(report->mark));
    report->stage = STAGE_RUNNING;
    prctl(PR_SET_PDEATHSIG, 0);
    tg_fault_point("client.before-exec");
    char granted[24];
    snprintf(granted, sizeof(granted), "%llu", (unsigned long long)answer.granted_boot_ns);
    if (setenv(TG_ENV_TICKET, answer.env, 1) || setenv(TG_ENV_GRANTED, granted, 1))
        refuse(report, STAGE_REFUSED, -ENOMEM, "no memory for the environment");
    err = tg_exec(ask->path, ask->argv);
    tg_client_fail(c, err, "cannot execute %s: %s", ask->path, strerror(-err));
    refuse(report, STAGE_NO_EXEC, err, c->text);
}

/* The largest process of all that has been waited for, in MB. */
static uint64_t largest_mb(void)
{
    struct rusage used;
    if (getrusage(RUSAGE_CHILDREN, &used) != 0 || used.ru_maxrss < 0)
        return 0;
    return (uint64_t)used.ru_maxrss / 1024;
}

/* What the broker answers to done is for a person, and matters where much was used: then it is awaited. A
 * broker that dies instead has perhaps not read it: the next one is told (A8). */
static void hear_answer(struct tg_client *c, const struct tg_run_ask *ask, uint64_t ticket,
                        const json_t *done, uint64_t ms)
{
    json_t *reply;
    const char *note;
    int err = tg_client_recv(c, tg_deadline_ns(ms), &reply);
    if (err == -ECONNRESET)
        err = tg_client_call(c, done, &reply);
    if (err)
        return;
    if (ask->noted && tg_field_string(reply, "note", 400, &note) == 0) {
        char *shown = tg_display_text(note, 400);
        if (shown)
            ask->noted(ask->ctx, ticket, shown);
        free(shown);
    }
    json_decref(reply);
}

/* The file of the words, opened while nobody waits for the wrapper. */
struct words {
    int fd; /* or an error */
    uint64_t opened_ms;
};

/* The word is left beside the store before the broker is told: whatever becomes of that broker, the next one
 * reads it (A8), and nobody need wait for an answer. */
static bool keep_word(const struct tg_client *c, const struct report *report, const struct tg_run_end *end,
                      const struct words *words, int status, uint64_t peak_mb)
{
    const struct tg_word word = {.status = status,
                                 .oom = end->oom,
                                 .peak_mb = peak_mb,
                                 .ended_boot_ms = tg_clock_boot_ms(),
                                 .ended_wall_ms = tg_clock_wall_ms()};
    bool fresh = words->fd >= 0 && word.ended_boot_ms - words->opened_ms < TG_WORDS_FRESH_MS;
    int err = fresh ? tg_words_write(words->fd, report->mark, &word)
                    : tg_words_append(c->paths.state_dir, report->mark, &word);
    return err == 0;
}

/* The broker sees the end by itself; this adds the wait status, the largest process, and whether anything is
 * left. If so, we stay until the broker has looked: what has no mark is found as long as we are its parent.
 */
static void report_done(struct tg_client *c, const struct tg_run_ask *ask, const struct report *report,
                        const struct tg_run_end *end, const struct words *words, int status)
{
    uint64_t peak_mb = largest_mb();
    bool was_long = tg_clock_boot_ms() - report->granted_boot_ns / 1000000 >= NOTE_AFTER_MS;
    bool awaits = end->left || was_long || peak_mb >= NOTE_ABOVE_MB;
    bool kept = keep_word(c, report, end, words, status, peak_mb);
    tg_fault_point("wrapper.kept");
    const struct tg_done done = {.ticket = report->ticket,
                                 .status = status,
                                 .peak_mb = peak_mb,
                                 .left_known = end->left_known,
                                 .left = end->left,
                                 .oom = end->oom,
                                 .kept = kept,
                                 .quiet = !awaits};
    uint8_t frame[TG_PLAIN_BYTES];
    size_t n = awaits || c->fd < 0 ? 0 : tg_plain_done(&done, c->paths.store, frame);
    if (n > 0 && tg_client_send_frame(c, frame, n) == 0)
        return;
    json_t *message = tg_done_message(&done);
    if (message)
        tg_client_tell(c, message);
    if (message && c->fd >= 0 && awaits)
        hear_answer(c, ask, report->ticket, message, end->left ? LEFT_MS : TG_CLIENT_TELL_MS);
    json_decref(message);
}

static int judge(struct tg_client *c, const struct report *report, int status, int *ret_status,
                 struct tg_run_end *end)
{
    if (status < 0)
        return tg_client_fail(c, -ECHILD, "somebody else has taken the command's wait status");
    if (report->stage == STAGE_REFUSED || report->stage == STAGE_NO_EXEC) {
        end->exec_failed = report->stage == STAGE_NO_EXEC;
        return tg_client_fail(c, report->err, "%s", report->text);
    }
    *ret_status = report->stage == STAGE_JOINED ? report->joined_status : status;
    return 0;
}

/* The wrapper, from the fork to the end of the command. */
static int mind_command(struct tg_client *c, const struct tg_run_ask *ask, const struct report *report,
                        struct tg_forward *f, pid_t child, int *ret_status, struct tg_run_end *end)
{
    tg_fault_point("wrapper.forked");
    /* Nobody waits for us yet: what costs time at the end is done now. */
    const struct words words = {tg_words_open(c->paths.state_dir), tg_clock_boot_ms()};
    int status = tg_forward_wait(f, child);
    tg_fault_point("wrapper.ended");
    tg_forward_end(f, child);
    end->ticket = report->ticket;
    end->left_known = f->adopts;
    end->left = f->adopts && f->left;
    end->oom = status >= 0 && tg_forward_was_oom(f, status);
    char text[TG_CLIENT_TEXT_BYTES];
    int err = judge(c, report, status, ret_status, end);
    memcpy(text, c->text, sizeof(text));
    if (report->ticket != 0 && status >= 0)
        report_done(c, ask, report, end, &words, status);
    if (words.fd >= 0)
        close(words.fd);
    tg_fault_point("wrapper.told");
    memcpy(c->text, text, sizeof(text));
    return err;
}

int tg_client_run(struct tg_client *c, const struct tg_run_ask *ask, int *ret_status,
                  struct tg_run_end *ret_end)
{
    struct tg_forward f;
    *ret_end = (struct tg_run_end){0};
    c->connect_by_ns = tg_deadline_ns(ask->admit.wait_ms);
    int err = tg_client_connect(c);
    if (err && err != -ETIMEDOUT) /* nobody lets us in: the child minds the limit, and says so */
        return err;
    struct report *report =
        mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED)
        return tg_client_fail(c, -errno, "no memory: %s", strerror(errno));
    tg_forward_begin(&f);
    /* After the connection: a broker that had to be started is nobody's orphan here. */
    f.adopts = ask->alone && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    tg_fault_point("client.connected");
    bool asks = err == 0;
    pid_t wrapper = getpid();
    pid_t child = fork();
    if (child == 0) {
        tg_forward_restore(&f);
        become_command(c, ask, asks, wrapper, report);
    }
    if (asks && child > 0)
        ask_for(c, ask, child);
    if (child < 0) {
        err = tg_client_fail(c, -errno, "cannot fork: %s", strerror(errno));
        tg_forward_restore(&f);
    } else {
        err = mind_command(c, ask, report, &f, child, ret_status, ret_end);
    }
    if (!ask->alone) /* else the process ends, and the kernel does that along the way */
        munmap(report, sizeof(*report));
    return err;
}
