/* SPDX-License-Identifier: Apache-2.0
 *
 * A store that was damaged is moved aside, and with it the record of who holds. Those who run carry the mark
 * TIDEGATE_TICKET=ID:UUID of the former store: each mark with a living process becomes a ticket again that
 * holds (A8: no false grant), with its old number, one slot and the default estimate; its owner is the oldest
 * process of the mark. What they had stated is lost, like the waiters' places, the settings and the history.
 * The new store goes on under the former name, so the marks stay good for what they start (A6) and leave
 * behind (A4), and its numbers begin far above all marks.
 *
 * The same for a part that was lost: when the store was not closed, its log had to be replayed and may have
 * ended too early (a damaged block ends it, and is no error to the database), or rows were dropped. Then a
 * living mark of which neither queue nor history know is a holder.
 *
 * The name of the store is kept beside it too. It is written last: a broker that is killed in the middle of
 * this finds the same work again. Without that file (lost as well) every mark of the user's counts.
 *
 * What wait-admit granted carries no mark; its files beside the store tell (held.h), and with what it had
 * stated.
 *
 * Not found: a command between its grant and its exec. A process that had detached on purpose counts again
 * while it lives: nobody can tell any more.
 */
#include "broker/marks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/fault.h"
#include "broker/held.h"
#include "broker/log.h"
#include "machine/mark.h"
#include "proto/fields.h"

#define UUID_LENGTH (TG_STORE_UUID_BYTES - 1)

static int name_path(const char *state_dir, const char *suffix, char *ret, size_t size)
{
    int n = snprintf(ret, size, "%s/store.uuid%s", state_dir, suffix);
    return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* The name that the state directory remembers, or "". */
static void read_name(const char *path, char ret[TG_STORE_UUID_BYTES])
{
    char text[TG_STORE_UUID_BYTES + 1] = "";
    ret[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n >= (ssize_t)UUID_LENGTH && strspn(text, "0123456789abcdef-") == UUID_LENGTH) {
        memcpy(ret, text, UUID_LENGTH);
        ret[UUID_LENGTH] = '\0';
    }
}

/* Whole or not at all. */
static int write_name(const char *state_dir, const char *path, const char *uuid)
{
    char fresh[TG_STORE_UUID_BYTES + 4096];
    int err = name_path(state_dir, ".new", fresh, sizeof(fresh));
    if (err)
        return err;
    (void)unlink(fresh); /* of one that was killed, or whatever it is */
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    if (write(fd, uuid, UUID_LENGTH) != (ssize_t)UUID_LENGTH || fdatasync(fd) != 0)
        err = -EIO;
    close(fd);
    if (!err && rename(fresh, path) != 0)
        err = -errno;
    return err;
}

static char *shown_command(const struct tg_broker *b, pid_t pid)
{
    char path[64], buf[TG_CMD_BYTES * 2];
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    long n = tg_root_read(&b->root, path, buf, sizeof(buf));
    if (n <= 0) { /* none, or a very long one */
        snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        n = tg_root_read(&b->root, path, buf, sizeof(buf));
        n = n > 0 ? n : 0;
        buf[n] = '\0';
        buf[strcspn(buf, "\n")] = '\0';
        return tg_display_text(buf, TG_CMD_BYTES);
    }
    for (long i = 0; i + 1 < n; i++)
        buf[i] = buf[i] ? buf[i] : ' ';
    buf[n] = '\0';
    return tg_display_text(buf, TG_CMD_BYTES);
}

/* held: of wait-admit, or NULL. */
static struct tg_ticket *make_ticket(const struct tg_broker *b, const struct tg_marked *m,
                                     const struct tg_held *held)
{
    char tenant[32];
    snprintf(tenant, sizeof(tenant), "uid:%u", (unsigned)m->uid);
    char *cmd = shown_command(b, m->pid);
    struct tg_ticket *t = cmd ? tg_ticket_new(tenant, cmd, "", "") : NULL;
    free(cmd);
    if (!t)
        return NULL;
    t->id = m->id;
    t->owner = (struct tg_owner){.pid = m->pid, .start_ticks = m->start_ticks};
    memcpy(t->owner.boot_id, b->boot_id, sizeof(t->owner.boot_id));
    t->uid = m->uid;
    t->kind = TG_KIND_RUN;
    t->state = TG_HOLD;
    t->prio = 2;
    t->est_mb = b->config.default_mb;
    t->est_source = TG_SOURCE_DEFAULT;
    t->slots = 1;
    t->max_conc = TG_UNLIMITED;
    t->verdict = TG_GRANT_ORDERED;
    t->acked = true;
    t->session = m->session;
    if (held) {
        t->kind = TG_KIND_WAIT_ADMIT;
        t->owner = held->owner; /* whose boot, too, the first look at it compares */
        t->step = held->step;
        t->prio = held->prio;
        t->est_mb = held->est_mb;
        t->est_source = TG_SOURCE_STATED;
        t->slots = held->slots;
    }
    t->asked_boot_ms = t->held_boot_ms = tg_clock_boot_ms();
    t->asked_wall_ms = t->held_wall_ms = tg_clock_wall_ms();
    return t;
}

/* One mark, by its oldest process. It may be known: from the first half of a start that was killed. */
static int adopt_one(struct tg_broker *b, const struct tg_marked *m, const struct tg_held *held)
{
    bool step = held && held->step != 0;
    if (tg_queue_by_id(&b->queue, m->id) ||
        (step ? tg_queue_by_step(&b->queue, held->step) : tg_queue_by_pid(&b->queue, m->pid)))
        return 0;
    struct tg_ticket *t = make_ticket(b, m, held);
    if (!t)
        return -ENOMEM;
    int err = tg_watch_start(b, t);
    if (!err)
        err = tg_store_insert(b->store, t);
    if (err) {
        tg_life_free(b, t);
        return err == -ESRCH ? 0 : err;
    }
    t->saved = true;
    err = tg_queue_add(&b->queue, t);
    if (err) {
        tg_life_free(b, t);
        return err;
    }
    tg_log("process %d %s ticket %llu and holds %u slots and %llu MB", (int)m->pid,
           held ? "was granted" : "carries the mark of", (unsigned long long)m->id, (unsigned)t->slots,
           (unsigned long long)t->est_mb);
    b->store_report.recognised++;
    return 0;
}

/* A mark is what its process says: one with a number that no ticket has yet must not use up those that are
 * left. Of a store that was lost nobody knows how far it came, but half of all numbers it never gave. */
static uint64_t first_not_given(const struct tg_broker *b, bool lost)
{
    return lost ? (uint64_t)TG_STORE_ID_MAX / 2 : tg_sat_add_u64(tg_store_next_id(b->store), TG_STORE_LEAP);
}

/* Whether a mark is of a ticket that this broker should know of; former "": of any store; numbers from beyond
 * on are nobody's. */
static bool counts(const struct tg_broker *b, const struct tg_marked *m, const char *former, uint64_t beyond)
{
    if (m->pid == getpid() || (geteuid() != 0 && m->uid != geteuid()) || m->id >= beyond)
        return false;
    if (strcmp(m->uuid, tg_store_uuid(b->store)) == 0)
        return !tg_queue_by_id(&b->queue, m->id) && !tg_store_has_ended(b->store, m->id);
    return former[0] == '\0' || strcmp(m->uuid, former) == 0;
}

/* Keeps those that count; a number that two stores gave is the older process's. */
static int adopt_marks(struct tg_broker *b, const struct tg_marked *list, size_t n,
                       const struct tg_held *held, size_t n_held, const char *former, uint64_t beyond)
{
    const char *name = NULL;
    uint64_t last = tg_store_next_id(b->store);
    int err = 0;
    for (size_t i = 0; i < n && !err; i++) {
        if (!counts(b, &list[i], former, beyond))
            continue;
        name = name ? name : list[i].uuid;
        last = list[i].id > last ? list[i].id : last;
        err = adopt_one(b, &list[i], NULL);
    }
    for (size_t i = 0; i < n_held && !err; i++) {
        struct tg_marked m = {.pid = held[i].owner.pid,
                              .start_ticks = held[i].owner.start_ticks,
                              .uid = held[i].uid,
                              .id = held[i].id};
        memcpy(m.uuid, held[i].uuid, sizeof(m.uuid));
        if (!counts(b, &m, former, beyond) || tg_owner_alive(&b->root, &held[i].owner) != TG_ALIVE)
            continue;
        name = name ? name : held[i].uuid;
        last = held[i].id > last ? held[i].id : last;
        err = adopt_one(b, &m, &held[i]);
    }
    if (err || !name)
        return err;
    tg_fault_point("marks.taken");
    err = tg_store_continue(b->store, name, tg_sat_add_u64(last, TG_STORE_LEAP));
    b->next_id = tg_store_next_id(b->store);
    tg_fault_point("marks.named");
    return err;
}

int tg_marks_adopt(struct tg_broker *b, const char *state_dir)
{
    const struct tg_store_report *found = &b->store_report;
    char path[TG_STORE_UUID_BYTES + 4096], former[TG_STORE_UUID_BYTES];
    int err = name_path(state_dir, "", path, sizeof(path));
    if (err)
        return err;
    read_name(path, former);
    bool same = strcmp(former, tg_store_uuid(b->store)) == 0;
    bool lost = found->quarantined[0] || (!same && former[0]);
    if (lost || found->unclean || found->dropped_rows > 0) {
        struct tg_marked *list = NULL;
        size_t n = 0;
        struct tg_held *held = NULL;
        size_t n_held = 0;
        err = tg_marks_read(&b->root, &list, &n);
        if (!err)
            err = tg_held_read(b, &held, &n_held);
        if (!err)
            err = adopt_marks(b, list, n, held, n_held, lost ? former : tg_store_uuid(b->store),
                              first_not_given(b, lost));
        free(list);
        free(held);
    }
    if (!err && !same && write_name(state_dir, path, tg_store_uuid(b->store)) != 0)
        tg_log("%s cannot be written: should the store be lost, running commands would not be recognised",
               path);
    return err;
}
