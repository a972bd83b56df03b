/* SPDX-License-Identifier: Apache-2.0
 * What an event of the server's epoll set names: a kind and a guest's place. */
#ifndef TG_ENGINE_SERVE_EVENTS_H
#define TG_ENGINE_SERVE_EVENTS_H

#include <stdint.h>

enum { TG_EVENT_LISTENER = 0, TG_EVENT_WAKE = 1, TG_EVENT_SOCKET = 2, TG_EVENT_BELL = 3 };

static inline uint64_t tg_event(uint32_t kind, uint32_t place)
{
    return (uint64_t)place << 2 | kind;
}

#endif
