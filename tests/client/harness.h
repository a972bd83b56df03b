/* SPDX-License-Identifier: Apache-2.0
 *
 * For the tests of the C API: a private place whose broker the library itself starts, with the load gate off;
 * what a person would do to that broker; and the end of both with the test.
 */
#ifndef TG_TESTS_CLIENT_HARNESS_H
#define TG_TESTS_CLIENT_HARNESS_H

#include <stdint.h>
#include <sys/types.h>
#include <tidegate/launch.h>

#include "check.h"

#define PATIENCE_MS 60000u /* for what must come */
#define A_MOMENT_MS 100u   /* for what must not */

/* Once a program: the place, and a handle to it. */
struct tg_launch *place_make(void);
/* Ends the broker there, in good order, whoever waits. */
void place_stop_broker(void);
/* Sets a value of the configuration. */
void place_set(const char *key, const char *value);
/* {"op":OP,"ticket":ID} must be answered with ok. */
void place_tell(const char *op, uint64_t ticket);
/* A number of status at a path of two names, and how many there are in a list of it. */
int64_t place_number(struct tg_launch *launch, const char *object, const char *key);
size_t place_count(struct tg_launch *launch, const char *list);
/* kill -9, and waits until it is gone. */
void place_kill_broker(struct tg_launch *launch);

/* Options for a step that uses nothing but its slot. */
struct tg_launch_options light(void);
struct tg_launch_ticket *request_light(struct tg_launch *launch);
/* Runs body in a forked process with a pipe to write to; returns its pid when it has written a byte. */
pid_t in_child(void (*body)(struct tg_launch *launch, int ready), struct tg_launch *launch);
void kill_and_reap(pid_t pid);

#endif
