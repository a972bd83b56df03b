/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel's text needs of the standard headers, for a compiler at run time that has none of them
 * (cuda_nvrtc.c hands this over under each of their names). It is for 64-bit Linux, as the driver is. */
#ifndef TG_ENGINE_CUDA_STD_CUH
#define TG_ENGINE_CUDA_STD_CUH

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;

#define INT32_MAX 0x7FFFFFFF
#define UINT8_MAX 0xFFu
#define UINT16_MAX 0xFFFFu
#define UINT32_MAX 0xFFFFFFFFu
#define UINT64_MAX 0xFFFFFFFFFFFFFFFFul
#define INT64_C(x) x##l
#define UINT32_C(x) x##u
#define UINT64_C(x) x##ul

#define offsetof(type, member) ((size_t)__INTADDR__(&((type *)0)->member))

/* The numbers of Linux, as far as shared functions name them. */
#define ENOENT 2
#define EIO 5
#define EAGAIN 11
#define ENOMEM 12
#define EFAULT 14
#define EINVAL 22
#define ENOSPC 28
#define ERANGE 34
#define ENOTSUP 95

#endif
