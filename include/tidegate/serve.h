/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine that serves other processes: each gets a ring of its own in shared memory, through a Unix socket
 * (attach.h is their side). The engine's own threads go on using engine.h beside it.
 *
 *     struct tg_server *server;
 *     tg_engine_open(NULL, &engine);
 *     tg_engine_register(engine, 8, my_handler, my_context);
 *     tg_engine_serve(engine, "/run/user/1000/engine", NULL, &server);
 *     ...
 *     tg_server_stop(server, 5000000000);
 *     tg_engine_close(engine, 5000000000, NULL);
 *
 * What a client may do: publish items of any publishable opcode and priority, as the tenant that the
 * server's table names for its uid (the kernel tells the uid; nothing in the ring does), and read how they
 * ended. What it may not: everything else. A client that writes garbage, rings without end, sleeps on its
 * results, or dies at any instruction harms its own ring only; docs/serve.md says how each is kept.
 *
 * Rules kept: E1 (an item a client published is run once, or faults, or is cancelled), E4 (tenant by uid;
 * no tenant and no client can hold all slots of a level), E6, E8, E10 (no client busy: the server sleeps).
 *
 * Errors are 0 or -errno. Every function may be called from any thread, one at a time for a server.
 */
#ifndef TIDEGATE_SERVE_H
#define TIDEGATE_SERVE_H

#include <stdint.h>

#include <tidegate/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tg_server;

#define TG_SERVE_ANY_UID 0xFFFFFFFFu
#define TG_SERVE_MAX_CLIENTS 1024u
#define TG_SERVE_MAX_SLOTS 65536u

/* Which tenant a uid's clients are. The first rule that fits decides; a uid that none fits is refused. */
struct tg_serve_rule {
    uint32_t uid;       /* or TG_SERVE_ANY_UID */
    uint32_t tenant;    /* 0 .. 28 */
    uint32_t set_quota; /* 1: tg_engine_serve sets the tenant's quota to the next word */
    uint32_t quota;
};

/* Fill with tg_serve_options_init, then change what you want. Fields are only ever added at the end. */
struct tg_serve_options {
    uint32_t size; /* sizeof(struct tg_serve_options), set by init */
    uint32_t mode; /* permissions of the socket, at most 0777; default 0600 */
    /* None: the uid this process runs as, as tenant 0. Read by tg_engine_serve only. */
    const struct tg_serve_rule *rules;
    uint32_t rule_count;      /* at most 1024 */
    uint32_t max_clients;     /* connected at once, 1 .. 1024; default 64 */
    uint32_t clients_per_uid; /* 0, the default: a uid may have as many as there are places left, so that it
                               * never takes the last one: of 64 at most 32 */
    uint32_t slots;           /* of each client's ring: a power of two, 1 .. 65,536; default 256 */
    uint32_t spin_us;         /* how long the server looks at a client's ring after its last item, before it
                               * sleeps and must be woken by a system call; default 20 */
    int32_t cpu;              /* pin the server's thread; -1, the default: not */
};

void tg_serve_options_init(struct tg_serve_options *options);

/* Starts serving at path, with one thread. options NULL means the defaults. A socket file that nobody serves
 * any more is replaced; the folder should be writable by its owner only.
 * -EINVAL     an option is outside what is written above, two rules give one tenant different quotas
 * -EPERM      the engine was opened with TG_ENGINE_UNRESTRICTED (its opcodes could touch everything)
 * -EBUSY      this engine is being served already
 * -EADDRINUSE somebody serves at path, or something that is no socket is there
 * -ENAMETOOLONG, -ENOMEM, -EAGAIN (no thread), and what socket(2) and bind(2) return */
int tg_engine_serve(struct tg_engine *engine, const char *path, const struct tg_serve_options *options,
                    struct tg_server **ret_server);

struct tg_serve_stats {
    uint64_t accepted;  /* connections that got a ring */
    uint64_t refused;   /* that got none: no rule for the uid, too many, no memory */
    uint64_t dropped;   /* that were ended by the server: they broke the protocol */
    uint64_t gone;      /* that ended, for whatever reason */
    uint64_t taken;     /* items read from clients' rings */
    uint64_t invalid;   /* of them answered with a fault without reaching the engine */
    uint64_t lost;      /* of them cancelled because their client was gone or the server stopped */
    uint64_t rings;     /* times a client had to wake the server */
    uint64_t sleeps;    /* times the server slept */
    uint32_t clients;   /* connected now */
    uint32_t leaving;   /* gone, but an item of theirs still runs */
    uint64_t cancelled; /* of taken: cancelled because their client asked for it */
};

void tg_server_stats(struct tg_server *server, struct tg_serve_stats *ret_stats);

/* Ends serving: no new clients, items that do not run yet are cancelled, those that run are waited for, every
 * client is told (-ESHUTDOWN); then frees everything and removes the socket. NULL is fine. Must come before
 * tg_engine_close, which says -EBUSY otherwise.
 * -ETIMEDOUT an item still runs after timeout_ns: call again; nothing is freed, nobody is served. */
int tg_server_stop(struct tg_server *server, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
