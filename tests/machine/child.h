/* SPDX-License-Identifier: Apache-2.0
 * Children that tests of processes make. */
#ifndef TG_TESTS_MACHINE_CHILD_H
#define TG_TESTS_MACHINE_CHILD_H

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* A child that runs body and then waits to be killed; returns when body has been run. */
static inline pid_t spawn(void (*body)(void))
{
    int ready[2];
    CHECK(pipe2(ready, O_CLOEXEC) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (body)
            body();
        if (write(ready[1], "r", 1) != 1)
            _exit(99);
        for (;;)
            pause();
    }
    char c;
    close(ready[1]);
    CHECK(read(ready[0], &c, 1) == 1);
    close(ready[0]);
    return pid;
}

static inline int reap(pid_t pid)
{
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

#endif
