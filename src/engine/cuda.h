/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that know CUDA offer the rest of the engine, besides the link (device_host.h). */
#ifndef TG_ENGINE_CUDA_H
#define TG_ENGINE_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* The processor of a GPU as "major * 10 + minor", for instance 90. -ENODEV without driver or device, -EINVAL
 * for a backend that is no "cuda" or "cuda:N"; *ret_why says so in words (static). */
int tg_cuda_processor(const char *backend, uint32_t *ret_processor, const char **ret_why);

/* The kernel's text, by the names it is included by; the last has no name. Made by the build. */
struct tg_device_source {
    const char *name, *text;
};
extern const struct tg_device_source tg_device_sources[];

#endif
