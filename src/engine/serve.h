/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the server share. serve.c: its life and its one thread; serve_guest.c: connections come
 * and go; serve_item.c: items from a guest's ring into the engine and their ends back; serve_batch.c: fences
 * over them, and taking them back. A "guest" is the server's side of one client.
 *
 * Who touches what: everything belongs to who holds the engine's serve_lock (the server's thread, or a worker
 * that helps), but for what is marked "ends": that is touched by whoever ends an item (a
 * worker, the IO side, a drain), in tg_served_end.
 */
#ifndef TG_ENGINE_SERVE_H
#define TG_ENGINE_SERVE_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <tidegate/serve.h>

#include "engine/internal.h"
#include "engine/share.h"

#define TG_NO_ITEM 0xFFFFFFFFu
#define TG_ITEM_OVER 0xFFFFFFFEu

/* The state of an item; ends. */
enum {
    TG_ITEM_FREE = 0,    /* its slot may be taken */
    TG_ITEM_PENDING = 1, /* copied, not yet in the engine */
    TG_ITEM_FLYING = 2,  /* in the engine */
    TG_ITEM_LANDING = 3, /* its end is being told; FREE is the last touch */
    TG_ITEM_WAITING = 4, /* a fence whose items have not all ended; not in the engine */
};

/* One a slot of a guest's ring: the server's own copy. */
struct tg_served {
    struct tg_guest *guest;
    uint32_t state; /* ends */
    uint32_t index; /* of its slot */
    uint32_t level;
    uint32_t next, prev; /* in the pending list of its level */
    uint32_t opcode;
    uint32_t args[TG_ARGS_PER_SLOT];
    struct tg_item ticket; /* when FLYING */
    uint32_t fence;        /* the fence that counts it, TG_NO_ITEM, or TG_ITEM_OVER when it ended; ends */
    uint32_t remaining;    /* of a fence: items that have not ended; ends */
    uint32_t next_ready;   /* of a fence in the list of those with none; ends */
    bool cancelled;        /* a WAITING fence that is not to have its effect */
};

struct tg_pending {
    uint32_t first, last;
};

struct tg_guest {
    struct tg_server *server;
    struct tg_share *share;
    size_t share_bytes;
    struct tg_served *item;
    uint32_t place; /* its index in tg_server.guest */
    uint32_t mask;  /* slots - 1 */
    uint32_t next;  /* counts the items taken; the next one lies in slot next & mask */
    uint32_t tenant;
    uint32_t uid;
    int socket, bell;
    bool active;       /* in the list of those looked at; else PARKED says so */
    bool waits;        /* in the list of those with pending items */
    bool leaving;      /* dropped; freed when its last item has landed */
    uint32_t pendings; /* items in the lists below */
    struct tg_pending pending[TG_PRIORITY_LEVELS];
    uint32_t sent[TG_PRIORITY_LEVELS]; /* items given to the engine, modulo 2^32 */
    uint32_t uncovered;                /* the last items taken that no fence counts, at most mask */
    uint32_t next_cancel;              /* counts the cancel words looked at */
    uint64_t taken, rings;
    uint64_t last_ns; /* when something was taken */
    uint32_t closing; /* 1: tell the server of each end; ends read it */
    uint32_t ready;   /* fences whose items have all ended: place + 1 of the first, 0: none; ends */
    _Alignas(64) uint32_t ended[TG_PRIORITY_LEVELS]; /* ends: items of sent that left the engine */
};

struct tg_server {
    struct tg_engine *engine;
    struct tg_serve_options options;
    struct tg_serve_rule *rules;
    char *path;
    dev_t path_dev;
    ino_t path_ino;
    int listener, epoll, spare; /* spare: a descriptor to give up when there is none left */
    pthread_t thread;
    bool started;
    uint32_t stop;     /* 1: asked to; by tg_server_stop */
    uint32_t finished; /* 1: the thread is done; a futex */
    uint64_t spin_ns;
    uint32_t places;          /* length of the lists */
    uint32_t guests;          /* used places, those that leave included */
    uint32_t top;             /* no place from here on is used */
    struct tg_guest **guest;  /* by place; NULL: free */
    struct tg_guest **active; /* looked at */
    uint32_t actives;
    struct tg_guest **waiting; /* with pending items */
    uint32_t waitings;
    uint32_t turn;                                 /* where the next pass over them starts */
    uint32_t help_from;                            /* where the next worker that helps starts */
    uint32_t full;                                 /* 1: the engine had no slot for an item */
    uint32_t wanted;                               /* tenants at their bound, bit t */
    uint32_t held[TG_TENANTS][TG_PRIORITY_LEVELS]; /* at least the tenant's items in the engine */
    uint64_t now_ns;
    struct tg_serve_stats stats; /* written by the thread, relaxed */
};

/* ---- serve_guest.c ---- */
/* One connection from the listener. */
void tg_guest_accept(struct tg_server *s);
/* Ends a connection: error is what the client is told. Its items are cancelled; it stays until they landed.
 */
void tg_guest_drop(struct tg_guest *g, int error);
/* Frees the guests that left and whose items have all landed. */
void tg_guests_reap(struct tg_server *s);
void tg_guest_activate(struct tg_guest *g);
/* Asks to be rung for this guest's next item. False: there is one already. */
bool tg_guest_park(struct tg_guest *g);

/* ---- serve_item.c ---- */
/* Takes what active guests published, gives what is pending to the engine. True when anything moved. */
bool tg_serve_pass(struct tg_server *s);
/* The second half of it alone. */
bool tg_serve_submit(struct tg_server *s);
/* Is there an item in the guest's next slot? */
bool tg_guest_has_item(const struct tg_guest *g);
/* Cancels all of the guest's items. */
void tg_guest_cancel_items(struct tg_guest *g);
bool tg_guest_landed(const struct tg_guest *g);
/* Writes the answer into the item's slot, and counts it for its fence. */
void tg_item_answer(struct tg_served *it, uint32_t status, const struct tg_fault *fault,
                    const uint32_t *result);
void tg_item_append(struct tg_guest *g, struct tg_served *it);
/* Out of the pending list. */
void tg_item_unlink(struct tg_guest *g, struct tg_served *it);

/* ---- serve_batch.c ---- */
/* A fence over earlier items was taken: WAITING, or PENDING. False: it names items it may not. */
bool tg_fence_take(struct tg_guest *g, struct tg_served *it);
/* The item ended; after its answer. */
void tg_fence_count(struct tg_served *it);
/* Appends the fences whose items have all ended. True when there was one. */
bool tg_fences_collect(struct tg_server *s);
/* Is there a cancel word that could be looked at now? */
bool tg_guest_has_cancel(const struct tg_guest *g);
/* Looks at the guest's cancel words, a few of them. */
bool tg_guest_cancels(struct tg_guest *g);
/* Wakes the client if it sleeps. */
void tg_guest_wake(struct tg_guest *g);

/* Statistics: one writer, any reader; C4 relaxed. */
static inline void tg_serve_count(uint64_t *counter)
{
    tg_store_relaxed_u64(counter, *counter + 1);
}

static inline void tg_serve_set(uint32_t *gauge, uint32_t value)
{
    tg_store_relaxed_u32(gauge, value); /* C4 */
}

/* The bound of everything that is scarce and shared: nobody may hold more than is left, so that something
 * always is; a small share is free of it. */
static inline bool tg_serve_may_hold(uint32_t held, uint32_t left, uint32_t all)
{
    return held < all / 32 + 1 || held < left;
}

#endif
