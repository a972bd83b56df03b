/* SPDX-License-Identifier: Apache-2.0
 *
 * A device that a child process owns (options.device_process): what the parent's side (device_process.c, a
 * link to a device like any other) and the child's (device_child.c, which holds the real link) say to each
 * other. Only opening, looking and closing pass here: items, their ends and commands go between parent and
 * device through shared memory, as within one process.
 *
 * The memory is one file without a name, mapped at the same address in both, so that a pointer into it means
 * the same to the parent, the child and the device (which has it locked and mapped). It begins with a room
 * for what is longer than a message.
 *
 * Messages are of one size, a call and its answer in turn, over a pair of sockets.
 */
#ifndef TG_ENGINE_DEVICE_PROCESS_H
#define TG_ENGINE_DEVICE_PROCESS_H

#include <stdint.h>

#include "engine/device_host.h"

#define TG_PROCESS_SOCKET 3 /* the child's descriptors */
#define TG_PROCESS_MEMORY 4
/* The words it is started with, and what its environment has so that it starts no other. */
#define TG_PROCESS_WORD_1 "engine"
#define TG_PROCESS_WORD_2 "device"
#define TG_PROCESS_ENV "TIDEGATE_OWNS_A_DEVICE"

#define TG_PROCESS_ROOM (UINT64_C(1) << 20)

enum tg_process_what {
    TG_PROCESS_HELLO = 1, /* a: address, b: bytes, check. -EEXIST: something is there, another one please */
    TG_PROCESS_OPEN,      /* room: struct tg_process_open */
    TG_PROCESS_SHARE,     /* a, b: memory that the device is to see at this address */
    TG_PROCESS_DEVICE,    /* b: bytes; value: their address on the device, or 0 */
    TG_PROCESS_UPLOAD,    /* a: where to, b: bytes, which are in the room */
    TG_PROCESS_WORKERS,   /* b: wanted; value: how many */
    TG_PROCESS_START,     /* room: struct tg_device_params, and again afterwards */
    TG_PROCESS_LOOK,      /* result: as tg_link.look */
    TG_PROCESS_ERROR,     /* value: the number, text: its words */
    TG_PROCESS_CLOSE,     /* no answer: the child ends */
};

struct tg_process_call {
    uint32_t what; /* enum tg_process_what */
    uint32_t reserved;
    uint64_t a, b, check;
};

struct tg_process_answer {
    int32_t result;
    uint32_t reserved;
    uint64_t value;
    char text[240];
};

struct tg_process_open {
    char backend[64];
    uint64_t image, image_bytes; /* 0: the built-in kernel; else its place in the memory */
};

/* The same for two programs exactly when they were built from the same text of the kernel, so that what they
 * lay into the memory is the same too. */
uint64_t tg_process_check(void);

extern const struct tg_link tg_link_process;

/* The child's work, until its parent closes the engine or ends. An exit code. */
int tg_device_child(void);

#endif
