/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder each job of the demo runs under: it notes by its own clock when its command began and ended,
 * so that the checks need not believe the broker. See demo_launch.h.
 */
#include "cli/demo_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "client/tool.h"

int tg_demo_record(unsigned job, const char *file, char **argv)
{
    uint64_t granted = 0, start = tg_clock_read_ns(CLOCK_BOOTTIME);
    const char *stamp = getenv("TIDEGATE_GRANTED_NS");
    if (!stamp || tg_parse_u64(stamp, 1, UINT64_MAX, &granted) != 0) {
        fprintf(stderr, "tidegate demo: job %u was started without a grant\n", job);
        return 125;
    }
    pid_t pid = tg_tool_start(argv, -1, -1);
    int status = 127 << 8;
    if (pid > 0) {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    char line[128];
    int n = snprintf(line, sizeof(line), "%u %llu %llu %llu %d\n", job, (unsigned long long)granted,
                     (unsigned long long)start, (unsigned long long)tg_clock_read_ns(CLOCK_BOOTTIME), code);
    int fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0 || write(fd, line, (size_t)n) != n) {
        fprintf(stderr, "tidegate demo: cannot write to %s: %s\n", file, strerror(errno));
        return 125;
    }
    close(fd);
    return code;
}
