/* SPDX-License-Identifier: Apache-2.0
 * Who may use a served engine, as which tenant, and how much of it. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "serve_test.h"

#define NOBODY 65534u
#define SOMEBODY 65533u

/* What a client of some uid expects. */
struct expected {
    uint32_t uid;
    int error;
    uint32_t tenant;
};

static uintptr_t as_word(const struct expected *x)
{
    return (uintptr_t)x->uid << 32 | (uintptr_t)(uint32_t)-x->error << 16 | x->tenant;
}

static void uid_client(uintptr_t word)
{
    const struct expected expected = {(uint32_t)(word >> 32), -(int)(word >> 16 & 0xFFFFu), word & 0xFFFFu};
    const struct expected *x = &expected;
    struct tg_attached *a;
    struct tg_outcome o;
    CHECK_EQ(setresgid(x->uid, x->uid, x->uid), 0);
    CHECK_EQ(setresuid(x->uid, x->uid, x->uid), 0);
    CHECK_EQ(tg_engine_attach(serve_path, NULL, &a), x->error);
    if (x->error)
        return;
    CHECK_EQ(tg_attached_tenant(a), x->tenant);
    CHECK_EQ(tg_attached_wait(a, put_mix(a, 2, 5), LIMIT, &o), 0);
    CHECK_EQ(o.value[1], x->tenant);
    tg_attached_detach(a);
}

static void with_rules(const struct tg_serve_rule *rules, uint32_t n, const struct expected *x,
                       uint32_t clients)
{
    struct served s;
    struct tg_serve_options o;
    serve_options(&o);
    o.mode = 0666;
    o.rules = rules;
    o.rule_count = n;
    serve_start(&s, test_engine(320, 1), &o);
    for (uint32_t i = 0; i < clients; i++)
        child_passed(child_start(uid_client, as_word(&x[i])));
    serve_end(&s);
}

static void e4_tenant_follows_from_the_uid(void)
{
    static const struct tg_serve_rule named[] = {{NOBODY, 7, 0, 0}, {0, 3, 0, 0}};
    static const struct expected by_name[] = {{NOBODY, 0, 7}, {0, 0, 3}, {SOMEBODY, -EACCES, 0}};
    static const struct tg_serve_rule any[] = {{0, 28, 0, 0}, {TG_SERVE_ANY_UID, 9, 0, 0}};
    static const struct expected by_any[] = {{0, 0, 28}, {NOBODY, 0, 9}, {SOMEBODY, 0, 9}};
    static const struct expected by_default[] = {{0, 0, 0}, {NOBODY, -EACCES, 0}};
    if (geteuid() != 0) {
        fprintf(stderr, "  not root: cannot be other users\n");
        return;
    }
    with_rules(named, 2, by_name, 3);
    with_rules(any, 2, by_any, 3);
    with_rules(NULL, 0, by_default, 2);
}

static void e4_the_socket_is_private(void)
{
    struct served s;
    struct stat st;
    static const struct expected outsider = {NOBODY, -EACCES, 0};
    serve_start(&s, test_engine(320, 1), NULL);
    CHECK_EQ(lstat(serve_path, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
    if (geteuid() == 0)
        child_passed(child_start(uid_client, as_word(&outsider)));
    serve_end(&s);
}

static void e4_a_quota_is_counted_and_refilled(void)
{
    struct served s;
    struct tg_serve_options o;
    const struct tg_serve_rule rules[] = {{TG_SERVE_ANY_UID, 5, 1, 10}};
    uint64_t item[15];
    serve_options(&o);
    o.rules = rules;
    o.rule_count = 1;
    serve_start(&s, test_engine(320, 1), &o);
    struct tg_attached *a = attach_now();
    for (uint32_t i = 0; i < 15; i++)
        item[i] = put_mix(a, 2, i);
    CHECK_EQ(tg_attached_wait(a, item[9], LIMIT, NULL), 0);
    for (uint32_t i = 0; i < 10; i++)
        CHECK_EQ(tg_attached_wait(a, item[i], LIMIT, NULL), 0);
    CHECK_EQ(tg_attached_wait(a, item[10], 20000000, NULL), -ETIMEDOUT);
    CHECK_EQ(tg_load_relaxed_u32(&s.runs), 10);
    CHECK_EQ(tg_engine_set_quota(s.engine, 5, 3), 0);
    CHECK_EQ(tg_attached_wait(a, item[12], LIMIT, NULL), 0);
    CHECK_EQ(tg_attached_wait(a, item[13], 20000000, NULL), -ETIMEDOUT);
    /* A client without quota leaves: its items leave with it. */
    tg_attached_detach(a);
    AWAIT(serve_stats(&s).gone == 1 && serve_stats(&s).leaving == 0);
    CHECK_EQ(serve_stats(&s).lost, 2);
    CHECK_EQ(tg_load_relaxed_u32(&s.runs), 13);
    serve_end(&s);
}

/* A tenant that may not run fills what it may; another has room beside it. */
static void e4_a_blocked_tenant_leaves_room(void)
{
    struct served s;
    struct tg_serve_options o;
    const struct tg_serve_rule rules[] = {{TG_SERVE_ANY_UID, 1, 1, 0}};
    serve_options(&o);
    o.rules = rules;
    o.rule_count = 1;
    serve_start(&s, test_engine(160, 1), &o);
    struct tg_attached *a = attach_now(), *b = attach_now();
    for (uint32_t i = 0; i < 64; i++) {
        put_mix(a, TG_PRIORITY_LOW, i);
        put_mix(b, TG_PRIORITY_LOW, i);
    }
    AWAIT(serve_stats(&s).taken == 128);
    AWAIT(outstanding(&s, TG_PRIORITY_LOW) >= 12);
    pause_ms(5);
    CHECK(outstanding(&s, TG_PRIORITY_LOW) <= 16); /* a half of the 32, both clients together */
    for (uint32_t i = 0; i < 100; i++)
        CHECK_EQ(run_ticket(s.engine, 0, TG_OP_NOP, NULL, 0, &(struct tg_item){0}), 0);
    /* With quota all of it runs. */
    CHECK_EQ(tg_engine_set_quota(s.engine, 1, TG_TENANT_QUOTA_UNLIMITED), 0);
    AWAIT(tg_load_relaxed_u32(&s.runs) == 128);
    tg_attached_detach(a);
    tg_attached_detach(b);
    serve_end(&s);
}

static void e4_places_are_bounded(void)
{
    struct served s;
    struct tg_serve_options o;
    struct tg_attached *a[8], *more;
    serve_options(&o);
    o.max_clients = 8;
    o.clients_per_uid = 0;
    serve_start(&s, test_engine(320, 1), &o);
    for (int i = 0; i < 4; i++)
        a[i] = attach_now();
    for (int i = 0; i < 20; i++)
        CHECK_EQ(tg_engine_attach(serve_path, NULL, &more), -EUSERS); /* this uid has half of the places */
    CHECK_EQ(serve_stats(&s).refused, 20);
    CHECK_EQ(serve_stats(&s).clients, 4);
    tg_attached_detach(a[0]);
    AWAIT(serve_stats(&s).clients == 3);
    a[0] = attach_now();
    CHECK_EQ(tg_attached_wait(a[0], put_mix(a[0], 0, 1), LIMIT, NULL), 0);
    for (int i = 0; i < 4; i++)
        tg_attached_detach(a[i]);
    serve_end(&s);
}

static void e6_wrong_options_are_refused(void)
{
    struct tg_engine *e = test_engine(320, 1);
    struct tg_server *server, *second;
    struct tg_serve_options o;
    char long_path[300];
    const struct tg_serve_rule outside[] = {{0, 29, 0, 0}}, two[] = {{0, 1, 1, 5}, {1, 1, 1, 6}};
    memset(long_path, 'a', sizeof(long_path));
    long_path[sizeof(long_path) - 1] = '\0';
    CHECK_EQ(tg_engine_serve(e, long_path, NULL, &server), -ENAMETOOLONG);
    CHECK_EQ(tg_engine_serve(e, "", NULL, &server), -EINVAL);
    CHECK_EQ(tg_engine_serve(e, "/no/such/folder/x", NULL, &server), -ENOENT);
    serve_options(&o);
    o.slots = 48;
    CHECK_EQ(tg_engine_serve(e, serve_path, &o, &server), -EINVAL);
    serve_options(&o);
    o.rules = outside;
    o.rule_count = 1;
    CHECK_EQ(tg_engine_serve(e, serve_path, &o, &server), -EINVAL);
    o.rules = two;
    o.rule_count = 2;
    CHECK_EQ(tg_engine_serve(e, serve_path, &o, &server), -EINVAL);
    CHECK_EQ(tg_engine_serve(e, serve_path, NULL, &server), 0);
    CHECK_EQ(tg_engine_serve(e, serve_path, NULL, &second), -EBUSY);
    CHECK_EQ(tg_engine_close(e, LIMIT, NULL), -EBUSY);
    struct tg_engine *other = test_engine(320, 1);
    CHECK_EQ(tg_engine_serve(other, serve_path, NULL, &second), -EADDRINUSE);
    CHECK_EQ(tg_server_stop(server, LIMIT), 0);
    CHECK_EQ(tg_engine_serve(other, serve_path, NULL, &second), 0);
    CHECK_EQ(tg_server_stop(second, LIMIT), 0);
    test_close(other);
    test_close(e);
    struct tg_engine_options eo = test_options(320, 1);
    eo.flags |= TG_ENGINE_UNRESTRICTED;
    e = test_open(&eo);
    CHECK_EQ(tg_engine_serve(e, serve_path, NULL, &server), -EPERM);
    test_close(e);
}

/* What a killed server left is replaced; what is no socket is not. */
static void e8_a_stale_socket_is_replaced(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct tg_attached *a;
    struct tg_server *server;
    struct served s;
    memcpy(address.sun_path, serve_path, strlen(serve_path));
    CHECK_EQ(tg_engine_attach(serve_path, NULL, &a), -ENOENT);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    CHECK_EQ(tg_engine_attach(serve_path, NULL, &a), -ECONNREFUSED);
    serve_start(&s, test_engine(320, 1), NULL);
    a = attach_now();
    tg_attached_detach(a);
    serve_end(&s);
    fd = open(serve_path, O_CREAT | O_WRONLY, 0600);
    struct tg_engine *e = test_engine(320, 1);
    CHECK_EQ(tg_engine_serve(e, serve_path, NULL, &server), -EADDRINUSE);
    close(fd);
    unlink(serve_path);
    test_close(e);
}

int main(int argc, char **argv)
{
    child_main(argc, argv);
    serve_folder_make();
    RUN(e4_tenant_follows_from_the_uid);
    RUN(e4_the_socket_is_private);
    RUN(e4_a_quota_is_counted_and_refilled);
    RUN(e4_a_blocked_tenant_leaves_room);
    RUN(e4_places_are_bounded);
    RUN(e6_wrong_options_are_refused);
    RUN(e8_a_stale_socket_is_replaced);
    serve_folder_remove();
    return 0;
}
