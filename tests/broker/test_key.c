/* SPDX-License-Identifier: Apache-2.0
 * Keys, through a real broker and by themselves: one living ticket of a user and key, whatever happens at the
 * same time and over a restart (row V8 of the cases). */
#include <signal.h>

#include "broker/keys.h"
#include "harness.h"

static json_t *message(pid_t pid, const char *key, const char *if_exists)
{
    json_t *m = admit_message("run", pid, 0, 10, -1);
    json_object_set_new(m, "key", json_string(key));
    if (if_exists)
        json_object_set_new(m, "if_exists", json_string(if_exists));
    return m;
}

/* The state of the answer, or the code of the refusal. */
static const char *word(json_t *r)
{
    static char text[32];
    bool ok = json_is_true(json_object_get(r, "ok"));
    snprintf(text, sizeof(text), "%s", text_at(r, ok ? "state" : "error.code"));
    json_decref(r);
    return text;
}

static void v8_of_many_at_once_one_is_started(void)
{
    enum { N = 40 };
    struct place p;
    struct client c[N];
    pid_t pid[N];
    int started = 0, existing = 0;
    place_make(&p);
    place_ready(&p, N);
    for (int i = 0; i < N; i++) {
        client_open(&c[i], &p);
        pid[i] = owner_make();
    }
    for (int i = 0; i < N; i++)
        client_send(&c[i], message(pid[i], "the same", i % 2 ? "tell" : "refuse"));
    for (int i = 0; i < N; i++) {
        const char *w = word(client_recv(&c[i]));
        started += strcmp(w, "HOLD") == 0;
        existing += strcmp(w, i % 2 ? "EXISTS" : "exists") == 0;
    }
    CHECK_EQ(started, 1);
    CHECK_EQ(existing, N - 1);
    CHECK_EQ(holders_of(&p), 1);
    for (int i = 0; i < N; i++) {
        owner_kill(pid[i]);
        client_close(&c[i]);
    }
    EVENTUALLY(holders_of(&p) == 0);
    place_stop(&p, SIGTERM);
}

/* In each state the key is taken; the owner itself may ask again; after the end it is free. */
static void v8_a_key_is_taken_as_long_as_the_ticket_lives(void)
{
    struct place p;
    struct client h, w, other;
    pid_t hp = owner_make(), wp = owner_make(), op = owner_make();
    place_make(&p);
    place_ready(&p, 1);
    client_open(&h, &p);
    client_open(&w, &p);
    client_open(&other, &p);
    CHECK_TEXT(word(client_ask(&h, message(hp, "h", NULL))), "HOLD");
    CHECK_TEXT(word(client_ask(&w, message(wp, "w", NULL))), "WAIT");
    CHECK_TEXT(word(client_ask(&other, message(op, "h", NULL))), "exists");
    CHECK_TEXT(word(client_ask(&other, message(op, "w", NULL))), "exists");
    json_t *r = client_ask(&other, message(op, "w", "tell"));
    CHECK_TEXT(text_at(r, "state"), "EXISTS");
    CHECK_TEXT(text_at(r, "existing"), "WAIT");
    uint64_t ticket = (uint64_t)number_at(r, "ticket");
    json_decref(r);
    tell(&p, json_pack("{s:s,s:I}", "op", "hold", "ticket", (json_int_t)ticket));
    CHECK_TEXT(word(client_ask(&other, message(op, "w", NULL))), "exists");
    tell(&p, json_pack("{s:s,s:I}", "op", "resume", "ticket", (json_int_t)ticket));
    place_stop(&p, SIGKILL);
    CHECK_TEXT(place_start(&p), "ready");
    client_close(&h);
    client_close(&w);
    client_close(&other);
    client_open(&w, &p);
    client_open(&other, &p);
    CHECK_TEXT(word(client_ask(&other, message(op, "w", NULL))), "exists");
    CHECK_TEXT(word(client_ask(&other, message(op, "h", NULL))), "exists");
    CHECK_TEXT(word(client_ask(&w, message(wp, "w", NULL))), "WAIT"); /* its own place */
    owner_kill(hp);
    CHECK_TEXT(next_state(&w), "HOLD");
    CHECK_TEXT(word(client_ask(&other, message(op, "h", NULL))), "WAIT");
    owner_kill(op);
    owner_kill(wp);
    EVENTUALLY(holders_of(&p) == 0 && waiters_of(&p) == 0);
    client_close(&w);
    client_close(&other);
    place_stop(&p, SIGTERM);
}

static void bad_keys_are_refused(void)
{
    struct place p;
    struct client c;
    pid_t pid = owner_make();
    char longest[300];
    place_make(&p);
    place_ready(&p, 1);
    client_open(&c, &p);
    memset(longest, 'k', sizeof(longest));
    longest[257] = '\0';
    CHECK_TEXT(word(client_ask(&c, message(pid, longest, NULL))), "usage");
    CHECK_TEXT(word(client_ask(&c, message(pid, "a\nb", NULL))), "usage");
    CHECK_TEXT(word(client_ask(&c, message(pid, "k", "join"))), "usage");
    json_t *m = message(pid, "k", NULL);
    json_object_set_new(m, "key", json_integer(7));
    CHECK_TEXT(word(client_ask(&c, m)), "usage");
    CHECK_EQ(holders_of(&p), 0);
    CHECK_TEXT(word(client_ask(&c, message(pid, "", NULL))), "HOLD"); /* no key */
    owner_kill(pid);
    client_close(&c);
    place_stop(&p, SIGTERM);
}

/* The index by itself, against a walk. */
static void any_history_of_keys_is_found(void)
{
    enum { N = 200 };
    struct tg_keys keys = {0};
    static struct tg_ticket *all[N];
    uint64_t seed = 5;
    for (int i = 0; i < 20000; i++) {
        uint64_t r = check_random(&seed);
        uint64_t k = r % N;
        if (all[k]) {
            tg_keys_remove(&keys, all[k]);
            tg_ticket_free(all[k]);
            all[k] = NULL;
        } else {
            char key[16] = "";
            if ((r >> 20) % 8)
                snprintf(key, sizeof(key), "%u", (unsigned)((r >> 24) % 50));
            all[k] = tg_ticket_new("t", "c", "/", key);
            CHECK(all[k]);
            all[k]->uid = (uid_t)((r >> 40) % 3);
            CHECK_EQ(tg_keys_add(&keys, all[k]), 0);
        }
        char look[16];
        uid_t uid = (uid_t)((r >> 50) % 3);
        bool there = false;
        snprintf(look, sizeof(look), "%u", (unsigned)((r >> 44) % 50));
        for (int j = 0; j < N; j++)
            there |= all[j] && all[j]->uid == uid && strcmp(all[j]->key, look) == 0;
        const struct tg_ticket *t = tg_keys_find(&keys, uid, look);
        CHECK_EQ(t != NULL, there);
        CHECK(!t || (t->uid == uid && strcmp(t->key, look) == 0));
        CHECK(!tg_keys_find(&keys, uid, ""));
    }
    for (int j = 0; j < N; j++) {
        if (all[j])
            tg_keys_remove(&keys, all[j]);
        tg_ticket_free(all[j]);
    }
    CHECK_EQ(keys.by_hash.used, 0);
    tg_keys_done(&keys);
}

int main(void)
{
    RUN(v8_of_many_at_once_one_is_started);
    RUN(v8_a_key_is_taken_as_long_as_the_ticket_lives);
    RUN(bad_keys_are_refused);
    RUN(any_history_of_keys_is_found);
    return 0;
}
