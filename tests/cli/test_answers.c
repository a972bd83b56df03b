/* SPDX-License-Identifier: Apache-2.0
 * The client against brokers that answer wrongly, late or not at all: whatever came from the socket is
 * input, and nothing but a whole, well-formed HOLD is a grant (R7, S3, U10, U11). The broker here is a
 * socket of the test's own. */
#include <sys/socket.h>
#include <sys/un.h>

#include "client/admit.h"
#include "cli_test.h"

static int listen_at_the_place(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/tidegate", cli_dir);
    mkdir(a.sun_path, 0700);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/tidegate/broker.sock", cli_dir);
    unlink(a.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    CHECK_EQ(listen(fd, 8), 0);
    return fd;
}

/* Answers every connection, after its request has begun to arrive, with the same bytes, until it is ended. */
static pid_t serve(int fd, const void *bytes, size_t n, bool hang_up)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    alarm(120);
    for (;;) {
        char request[4096];
        int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (c < 0 || read(c, request, sizeof(request)) < 0)
            _exit(1);
        if (send(c, bytes, n, MSG_NOSIGNAL) < 0)
            _exit(1);
        if (hang_up)
            close(c);
    }
}

static struct cli_run r;

static void wait_admit_against(const void *bytes, size_t n)
{
    int fd = listen_at_the_place();
    pid_t pid = serve(fd, bytes, n, true);
    CLI(&r, CLI_PATIENCE_MS, "wait-admit", "2", "0", "100", "1", "0");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
    CHECK_EXIT(&r, 125);
    CHECK_EQ(r.out_len, 0);
    CHECK(r.err_len > 0);
}

static void frame(uint8_t *to, size_t *n, unsigned version, const char *json)
{
    size_t len = strlen(json);
    uint8_t head[8] = {'T', 'G', (uint8_t)version, 0, (uint8_t)len, (uint8_t)(len >> 8), 0, 0};
    memcpy(to, head, 8);
    memcpy(to + 8, json, len);
    *n = len + 8;
}

static void u10_another_version_is_refused_with_both_numbers(void)
{
    uint8_t b[512];
    size_t n;
    frame(b, &n, 7, "{\"ok\":true,\"state\":\"HOLD\",\"ticket\":1,\"verdict\":\"ordered\",\"env\":\"1:ab\"}");
    wait_admit_against(b, n);
    CHECK(strstr(r.err, "version 7") && strstr(r.err, "version 1"));
}

static void u11_garbage_is_no_grant(void)
{
    static const char http[] = "HTTP/1.1 200 OK\r\n\r\nGRANT";
    wait_admit_against(http, sizeof(http) - 1);
    wait_admit_against("TG\x01\x00\xff\xff\xff\xff", 8);
    wait_admit_against("TG", 2);
    wait_admit_against("", 0);
}

static void r7_a_half_made_grant_is_no_grant(void)
{
    static const char *const answers[] = {
        "{}",
        "[]",
        "{\"ok\":1}",
        "{\"ok\":true}",
        "{\"ok\":true,\"state\":\"GRANT\",\"ticket\":1}",
        "{\"ok\":true,\"state\":\"HOLD\"}",
        "{\"ok\":true,\"state\":\"HOLD\",\"ticket\":0,\"env\":\"1:ab\"}",
        "{\"ok\":true,\"state\":\"HOLD\",\"ticket\":1}",
        "{\"ok\":true,\"state\":\"HOLD\",\"ticket\":1,\"env\":\"x\"}",
        "{\"ok\":true,\"state\":\"HOLD\",\"ticket\":\"1\",\"env\":\"1:ab\"}",
        "{\"ok\":false,\"error\":{\"code\":\"store\",\"text\":\"disk full\"}}",
        "{\"ok\":false,\"error\":{\"code\":\"hitherto-unknown\",\"text\":\"?\"}}",
        "{\"ok\":false}",
        "{\"ok\":true,\"state\":\"WAIT\",\"ticket\":1,\"ahead\":0,\"text\":\"and then the broker dies\"}",
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        uint8_t b[512];
        size_t n;
        frame(b, &n, 1, answers[i]);
        wait_admit_against(b, n);
    }
}

struct answered {
    const char *answer;
    int code;
};

/* A broker that gives this answer to all. Ends with unserved. */
static pid_t serve_answer(const char *answer, int *ret_fd)
{
    uint8_t b[512];
    size_t n;
    frame(b, &n, 1, answer);
    *ret_fd = listen_at_the_place();
    return serve(*ret_fd, b, n, true);
}

static void unserved(pid_t pid, int fd)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(fd);
}

static void r7_refusals_have_their_codes(void)
{
    static const struct answered cases[] = {
        {"{\"ok\":false,\"error\":{\"code\":\"usage\",\"text\":\"pid 7 is dead\"}}", 2},
        {"{\"ok\":false,\"error\":{\"code\":\"never-fits\",\"text\":\"needs more than there is\"}}", 123},
        {"{\"ok\":false,\"error\":{\"code\":\"cancelled\",\"text\":\"cancelled by user 0\"}}", 125},
        {"{\"ok\":false,\"error\":{\"code\":\"other-store\",\"text\":\"serves another store\"}}", 125},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd;
        pid_t pid = serve_answer(cases[i].answer, &fd);
        CLI(&r, CLI_PATIENCE_MS, "run", "--", "/bin/echo", "ran");
        CHECK_EXIT(&r, cases[i].code);
        CHECK_EQ(r.out_len, 0);
        CLI(&r, CLI_PATIENCE_MS, "wait-admit", "2", "0", "100", "1", "0");
        CHECK_EXIT(&r, cases[i].code);
        CHECK_EQ(r.out_len, 0);
        unserved(pid, fd);
    }
}

/* L17: a broker that gives up has found who survives, or nobody: those it saw had been followed by others.
 * Only DONE says that nobody is left. */
static void l17_what_is_not_done_is_not_cancelled(void)
{
    static const struct answered cases[] = {
        {"{\"ok\":true,\"state\":\"DONE\"}", 0},
        {"{\"ok\":true,\"state\":\"HOLD\",\"survivors\":[12]}", 125},
        {"{\"ok\":true,\"state\":\"HOLD\",\"survivors\":[]}", 125},
        {"{\"ok\":true}", 125},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd;
        pid_t pid = serve_answer(cases[i].answer, &fd);
        CLI(&r, CLI_PATIENCE_MS, "cancel", "1");
        CHECK_EXIT(&r, cases[i].code);
        CHECK_EQ(r.out_len > 0, cases[i].code == 0);
        unserved(pid, fd);
    }
}

static void w16_control_bytes_of_an_answer_do_not_reach_the_terminal(void)
{
    uint8_t b[512];
    size_t n;
    frame(b, &n, 1, "{\"ok\":false,\"error\":{\"code\":\"store\",\"text\":\"\\u001b[2Jgone\\nline\"}}");
    wait_admit_against(b, n);
    CHECK(!strchr(r.err, 27));
    CHECK(strchr(r.err, '\n') == r.err + r.err_len - 1);
}

static void ticket_env_form_is_checked(void)
{
    CHECK(tg_ticket_env_valid("12:0f9c2a80-1111-4222-8333-444455556666"));
    static const char *const bad[] = {"",     ":",     "12",     "12:",     ":ab",
                                      "x:ab", "12:AB", "12:ab ", "12:a\nb", "99999999999999999999:ab"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(!tg_ticket_env_valid(bad[i]));
}

int main(void)
{
    cli_setup();
    RUN(u10_another_version_is_refused_with_both_numbers);
    RUN(u11_garbage_is_no_grant);
    RUN(r7_a_half_made_grant_is_no_grant);
    RUN(r7_refusals_have_their_codes);
    RUN(l17_what_is_not_done_is_not_cancelled);
    RUN(w16_control_bytes_of_an_answer_do_not_reach_the_terminal);
    RUN(ticket_env_form_is_checked);
    return 0;
}
