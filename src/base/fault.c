/* SPDX-License-Identifier: Apache-2.0
 * See fault.h. */
#include "base/fault.h"

#ifdef TG_FAULT_POINTS

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/parse.h"

const char *tg_fault_armed;
static size_t armed_length;
static uint64_t passings_left;

int tg_fault_arm(const char *spec)
{
    uint64_t n = 1;
    tg_fault_armed = NULL;
    if (!spec)
        return 0;
    const char *colon = strchr(spec, ':');
    if (spec[0] == '\0' || colon == spec || (colon && tg_parse_u64(colon + 1, 1, INT64_MAX, &n)))
        return -EINVAL;
    armed_length = colon ? (size_t)(colon - spec) : strlen(spec);
    passings_left = n;
    tg_fault_armed = spec;
    return 0;
}

void tg_fault_passed(const char *name)
{
    if (strlen(name) == armed_length && memcmp(name, tg_fault_armed, armed_length) == 0 &&
        --passings_left == 0)
        raise(SIGKILL);
}

#else

typedef int tg_fault_points_are_off; /* a file must not be empty */

#endif
