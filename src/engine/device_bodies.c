/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine on a device that is opened with bodies made at run time (compile.h): the kernel with them in it
 * takes the place of the built-in one, and their buffers are shown to it. */
#include <errno.h>
#include <stdlib.h>

#include "engine/device_host.h"
#include "engine/kernel.h"
#include "engine/open.h"

int tg_device_bodies_check(struct tg_engine_options *o)
{
    if (!o->kernel)
        return 0;
    if (o->device_image)
        return tg_open_because(-EINVAL, "a device image and a kernel: the device runs one of them");
    if (!o->kernel->image)
        return tg_open_because(-EINVAL, "the kernel was not compiled for a device (TG_COMPILE_DEVICE)");
    o->device_image = o->kernel->image;
    o->device_image_bytes = o->kernel->image_bytes;
    return 0;
}

int tg_device_bodies_lay(struct tg_engine *e, const struct tg_engine_options *o)
{
    struct tg_device *d = e->device;
    const struct tg_ir_memory *memory = o->kernel_memory;
    struct tg_bodies bodies = {{0}, {0}};
    if (!o->kernel)
        return 0;
    for (uint32_t i = TG_IR_FIRST_USER_BUFFER; memory && i < TG_BODY_BUFFERS; i++) {
        if (!memory->words[i] || memory->count[i] == 0)
            continue;
        size_t bytes = (size_t)memory->count[i] * sizeof(uint32_t);
        bodies.words[i] = d->link->adopt(d->state, memory->words[i], bytes);
        bodies.count[i] = memory->count[i];
        if (!bodies.words[i])
            return tg_open_because(-EFAULT, "the device cannot reach the memory of the kernel's buffers");
    }
    void *to = d->link->device_memory(d->state, sizeof(bodies));
    d->params.bodies = to;
    if (!to || d->link->upload(d->state, to, &bodies, sizeof(bodies)) != 0)
        return tg_open_because(-ENOMEM, "no memory on the device");
    return 0;
}

int tg_device_bodies_register(struct tg_engine *e, struct tg_kernel *kernel)
{
    int r = 0;
    tg_add_acqrel_u32(&kernel->users, 1); /* U1 */
    e->kernel = kernel;
    for (uint32_t i = 0; !r && i < kernel->opcode_count; i++)
        r = tg_engine_register_device(e, kernel->opcodes[i], TG_DEVICE_LANE);
    return r;
}
