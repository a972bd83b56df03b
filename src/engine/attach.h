/* SPDX-License-Identifier: Apache-2.0
 * What the files of a client share: attach.c (coming, going, is the server alive), attach_item.c (items). */
#ifndef TG_ENGINE_ATTACH_H
#define TG_ENGINE_ATTACH_H

#include <pthread.h>
#include <stdbool.h>

#include <tidegate/attach.h>

#include "engine/share.h"

struct tg_attached {
    struct tg_share *share;
    size_t share_bytes;
    int socket, bell;
    uint32_t slots, mask, tenant;
    uint32_t spin_us;
    uint32_t dead;  /* 1: the connection has ended; any thread */
    uint32_t polls; /* unsuccessful ones, for an occasional look at the connection */
    uint64_t *use;  /* of each slot: its item * 2, + 1 when it is published; by its publisher */
    /* Sleeping: one thread at a time, the leader, sleeps on SLEEPER, the others on the condition. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_leader;
    /* Hears of the server's end and wakes the leader; both under lock. */
    bool watched; /* its thread was started */
    bool tried;   /* it was to be started */
    pthread_t watcher;
    /* Cancelling: one thread at a time, under cancel_lock. */
    pthread_mutex_t cancel_lock;
    uint32_t next_cancel;
    _Alignas(64) uint64_t next; /* the next item; producers */
};

/* Looks whether the connection has ended; a system call. */
bool tg_attached_check_dead(struct tg_attached *a);
/* Starts the thread that waits for the server's end; once, under lock. False: there is none. */
bool tg_attached_watch(struct tg_attached *a);
/* 0, or why nothing more will come: -ESHUTDOWN, -EPROTO, -EPIPE. */
int tg_attached_ended(struct tg_attached *a);

#endif
