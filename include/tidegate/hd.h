/* SPDX-License-Identifier: Apache-2.0
 *
 * TG_HD marks a function that the host and a GPU kernel share: nothing for a C or C++ compiler, host and
 * device for a CUDA compiler. Such a function uses no library call, no allocation and no I/O.
 */
#ifndef TIDEGATE_HD_H
#define TIDEGATE_HD_H

#ifdef __CUDACC__
#define TG_HD __host__ __device__
#else
#define TG_HD
#endif

#endif
