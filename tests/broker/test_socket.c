/* SPDX-License-Identifier: Apache-2.0
 * The socket file disappears while the broker lives: it is bound again, privately, and nobody who is
 * connected notices (A8, U5, R2). */
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static bool can_connect(const struct place *p)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%.100s", p->socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    bool yes = connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
    close(fd);
    return yes;
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    CHECK(stat(path, &st) == 0);
    return st.st_mode & 07777;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void a8_a_removed_socket_is_bound_again(void)
{
    struct place p;
    struct client h, w;
    place_make(&p);
    place_ready(&p, 1);
    client_open(&h, &p);
    client_open(&w, &p);
    pid_t holder = owner_make(), waiter = owner_make();
    CHECK_TEXT(admit(&h, "run", holder, 0, 1, NULL), "HOLD");
    CHECK_TEXT(admit(&w, "run", waiter, 0, 1, NULL), "WAIT");
    for (int with_directory = 0; with_directory < 2; with_directory++) {
        CHECK(unlink(p.socket) == 0);
        if (with_directory)
            CHECK(rmdir(p.runtime) == 0);
        EVENTUALLY(can_connect(&p));
        CHECK_EQ(mode_of(p.socket), 0600);
        CHECK_EQ(mode_of(p.runtime), 0700);
        CHECK_EQ(holders_of(&p), 1);
        CHECK_EQ(waiters_of(&p), 1);
    }
    owner_kill(holder);
    CHECK_TEXT(next_state(&w), "HOLD"); /* over the connection of before */
    owner_kill(waiter);
    client_close(&h);
    client_close(&w);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
    CHECK(access(p.socket, F_OK) != 0);
}

/* U5: what somebody else has put there meanwhile is not taken away, now or at the end. */
static void u5_somebody_elses_socket_is_left_alone(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct place p;
    struct client c;
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%.100s.new", p.socket);
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(other >= 0 && bind(other, (struct sockaddr *)&addr, sizeof(addr)) == 0 && listen(other, 8) == 0);
    CHECK(rename(addr.sun_path, p.socket) == 0);
    struct stat before, after;
    CHECK(stat(p.socket, &before) == 0);
    pause_ms(1500);
    CHECK(stat(p.socket, &after) == 0 && after.st_ino == before.st_ino);
    json_decref(client_ask(&c, json_pack("{s:s}", "op", "status"))); /* it serves who is connected */
    close(other);                                                    /* nobody listens there any more */
    EVENTUALLY(({
        json_t *s = client_ask(&c, json_pack("{s:s}", "op", "status"));
        json_decref(s);
        can_connect(&p);
    }));
    CHECK_EQ(holders_of(&p), 0);
    client_close(&c);
    CHECK_EQ(place_stop(&p, SIGTERM), 0);
}

/* With its store gone as well there is nothing to come back to: it ends and makes nothing anew. */
static void without_store_and_socket_it_ends(void)
{
    struct place p;
    int status;
    place_make(&p);
    place_ready(&p, 1);
    CHECK(nftw(p.state, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
    CHECK(nftw(p.runtime, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
    CHECK_EQ(waitpid(p.broker, &status, 0), p.broker);
    CHECK_EQ(status, 0);
    CHECK(access(p.runtime, F_OK) != 0 && access(p.state, F_OK) != 0);
}

int main(void)
{
    alarm(280);
    RUN(a8_a_removed_socket_is_bound_again);
    RUN(u5_somebody_elses_socket_is_left_alone);
    RUN(without_store_and_socket_it_ends);
    return 0;
}
