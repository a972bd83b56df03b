/* SPDX-License-Identifier: Apache-2.0
 *
 * Named points of a program at which a test lets it be killed (A8): armed by name, the process ends itself
 * with SIGKILL when it passes the point for the N-th time. Only the executables of the tests can be armed
 * (tidegate-armed, tidegate-broker-armed: built with TG_FAULT_ARMS, never installed). In the others a point
 * is a load and a branch that is never taken, beside a transition that writes to a file or a socket; without
 * TG_FAULT_POINTS (an option of the build) not even that. It decides nothing and knows no point:
 * tests/cli/test_kill_points.sh lists them.
 *
 * Arm before the first thread starts and pass points in one thread alone.
 */
#ifndef TG_BASE_FAULT_H
#define TG_BASE_FAULT_H

#ifdef TG_FAULT_POINTS

#define TG_ENV_FAULT_POINT "TIDEGATE_FAULT_POINT" /* of the command; the broker has an option */

extern const char *tg_fault_armed; /* NULL: none */

/* "NAME" or "NAME:N" (N from 1); the text must stay. NULL disarms. 0 or -EINVAL. */
int tg_fault_arm(const char *spec);
void tg_fault_passed(const char *name);

static inline void tg_fault_point(const char *name)
{
    if (tg_fault_armed)
        tg_fault_passed(name);
}

#else

static inline void tg_fault_point(const char *name)
{
    (void)name;
}

#endif

#endif
