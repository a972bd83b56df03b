/* SPDX-License-Identifier: Apache-2.0
 * The engine's kernel with the opcodes of device_ops.h, for tests and benches on the card. */
#include "engine/cuda_warp.cuh"

#include "device_ops.h"

#define TG_DEVICE_OPCODES
#include "engine/cuda.cu"
