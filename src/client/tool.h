/* SPDX-License-Identifier: Apache-2.0
 * Runs a command of ours and reads what it prints, within a time limit. */
#ifndef TG_CLIENT_TOOL_H
#define TG_CLIENT_TOOL_H

#include <stddef.h>
#include <sys/types.h>

/* Starts argv with stdin from /dev/null, stdout to out_fd (or /dev/null when < 0) and stderr to err_fd (or
 * inherited when < 0). The pid, or -errno. */
pid_t tg_tool_start(char *const argv[], int out_fd, int err_fd);

/* Runs argv to its end (at most limit_ms, then it is killed) and returns its exit code, 128 + n for a signal,
 * or -errno (-ETIMEDOUT). *ret_out, when wanted, is its NUL-terminated stdout, to be freed. */
int tg_tool_run(char *const argv[], int limit_ms, char **ret_out);

/* Signals a child of the caller that has not been reaped yet. 0 or -errno. */
int tg_tool_signal(pid_t child, int sig);

#endif
