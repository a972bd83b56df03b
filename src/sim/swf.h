/* SPDX-License-Identifier: Apache-2.0
 *
 * Workload traces in the Standard Workload Format of the Parallel Workloads Archive: one job a line, 18
 * numbers separated by blanks, -1 for unknown; a line that begins with ';' is a comment. A trace is
 * input like any other: the first thing that is not of this form ends the reading with its line. It does
 * not judge whether a job can be replayed (see replay.h). Nothing here prints.
 */
#ifndef TG_SIM_SWF_H
#define TG_SIM_SWF_H

#include <stddef.h>
#include <stdint.h>

/* Bounds on what a trace may say: seconds (34,000 years), processors, jobs, bytes, characters of a line. */
#define TG_SWF_MAX_TIME (INT64_C(1) << 40)
#define TG_SWF_MAX_PROCS INT64_C(0x7fffffff)
#define TG_SWF_MAX_JOBS (INT64_C(1) << 24)
#define TG_SWF_MAX_BYTES ((size_t)1 << 32)
#define TG_SWF_MAX_LINE 4096

/* What a replay needs of a job; -1 where the trace does not know. */
struct tg_swf_job {
    int64_t number;    /* field 1 */
    int64_t submit_s;  /* field 2 */
    int64_t run_s;     /* field 4 */
    int64_t request_s; /* field 9, requested time */
    int64_t procs;     /* field 5, allocated; else field 8, requested */
};

struct tg_swf {
    struct tg_swf_job *job; /* in the order of the file */
    size_t n;
};

/* Where and why reading ended. */
struct tg_swf_error {
    size_t line;      /* from 1; 0: not a matter of a line */
    const char *what; /* a static phrase */
};

/* Reads a trace from memory (no terminating zero is needed).
 * 0 and *ret, to be freed by tg_swf_free; else nothing is written but *err: -EINVAL a malformed line,
 * -ERANGE a number outside the bounds, -E2BIG too many jobs, -ENOMEM. Thread-safe. */
int tg_swf_parse(const char *text, size_t len, struct tg_swf *ret, struct tg_swf_error *err);
/* The same from a file, "-" for standard input; also -errno of open and read, -EFBIG. */
int tg_swf_load(const char *path, struct tg_swf *ret, struct tg_swf_error *err);
/* Frees what the two returned; takes NULL and an empty trace. */
void tg_swf_free(struct tg_swf *swf);

#endif
