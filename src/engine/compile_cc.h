/* SPDX-License-Identifier: Apache-2.0
 *
 * C text to loaded code: the system's compiler in a private folder. Not a public header; <tidegate/compile.h>
 * is what users see. It knows nothing of kernels or engines. */
#ifndef TG_ENGINE_COMPILE_CC_H
#define TG_ENGINE_COMPILE_CC_H

#include <stddef.h>
#include <stdint.h>

/* Compiles text (bytes long) to a shared object and loads it, symbols local. cc: the compiler and its first
 * arguments, divided by blanks; NULL: $CC, then "cc". timeout_ns bounds the compiler's time, rounded up to
 * seconds. why (why_bytes long) gets one message, cut to fit, when it fails; an error of the compiler has
 * what the compiler printed. 0           *ret_library is for dlsym and dlclose; nothing is left in the file
 * system -ENOENT     there is no such compiler -EINVAL     cc is empty or has more than 16 words -EBADMSG the
 * compiler refused the text, or what it wrote cannot be loaded -ETIMEDOUT  the compiler did not end in time
 * -ENOMEM, -EIO, and the errors of mkdtemp, open, write, fork */
int tg_cc_load(const char *text, size_t bytes, const char *cc, uint64_t timeout_ns, void **ret_library,
               char *why, size_t why_bytes);

#endif
