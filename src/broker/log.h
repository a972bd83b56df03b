/* SPDX-License-Identifier: Apache-2.0
 *
 * The broker's log: one line an error or event worth a person's time, never one a request. It goes to
 * standard error, or to a file that is bounded: when it has grown to TG_LOG_BYTES it becomes FILE.old.
 */
#ifndef TG_BROKER_LOG_H
#define TG_BROKER_LOG_H

#define TG_LOG_BYTES (256 * 1024)

/* From now on into this file instead of standard error. 0 or -errno (then standard error stays). */
int tg_log_open(const char *path);

void tg_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
