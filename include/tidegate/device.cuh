/* SPDX-License-Identifier: Apache-2.0
 *
 * Opcodes of your own on the GPU: compile this header and your bodies into one image, the engine's kernel
 * with them in it, and hand the image to tg_engine_open.
 *
 *     // bodies.cu
 *     #include <tidegate/device.cuh>
 *     TG_DEVICE int tg_device_run(struct tg_device_op *op)
 *     {
 *         switch (op->opcode) {
 *         case 8:
 *             return my_body(op->args[0], op->args[1]);
 *         default:
 *             return TG_DEVICE_UNKNOWN; // FAULT with the reason unknown opcode
 *         }
 *     }
 *
 *     nvcc -std=c++17 -O3 -fatbin -gencode=arch=compute_90,code=sm_90 -I PREFIX/include/tidegate/device
 * bodies.cu
 *
 * The image goes into tg_engine_options as device_image (the bytes of the fat binary, in memory), and each
 * opcode is named with tg_engine_register_device: by one lane beside up to 31 other items, or by a whole
 * warp or block, each lane called with the same item and its number in op->lane. tg_device_compile
 * (compile.h) makes an image of the same text at run time.
 *
 * What a body may do. It returns TG_OP_FINISHED (DONE), TG_OP_REQUEUE (again, behind what waits) or a
 * negative errno (FAULT, reason TG_FAULT_HANDLER); of a warp or block lane 0's answer counts. All lanes of a
 * block may meet in tg_device_block_sync, and share memory of the block. Observable words:
 * tg_device_load, tg_device_store and tg_device_add below, in device_op.h. Other memory: whatever the primary
 * context of the device can reach, so what cudaMalloc and cudaHostAlloc gave; addresses travel as two
 * argument words. What a body wrote is visible to the host that sees DONE (E7), in memory of the device to
 * later kernels and bodies. What it may not do. Wait for another item (its worker is not there to run it),
 * call device printf or malloc, use block barriers unless it is for a whole block (else the warps of a block
 * run different items), or never return. While an engine is open cudaFree, cudaFreeHost,
 * cudaDeviceSynchronize and work in the default stream wait for its kernel, which does not end: allocate
 * before, use streams made with cudaStreamNonBlocking, free after the close.
 */
#ifndef TIDEGATE_DEVICE_CUH
#define TIDEGATE_DEVICE_CUH

#define TG_DEVICE_OPCODES
#include <engine/cuda_warp.cuh>
#include <engine/cuda.cu>

#endif
