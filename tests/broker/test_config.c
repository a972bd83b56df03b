/* SPDX-License-Identifier: Apache-2.0
 * Settings as texts: whole values or nothing (N1 to N5), and what comes out is what goes in. */
#include "broker/config.h"
#include "broker/explain.h"
#include "check.h"

static void n1_only_whole_values_are_taken(void)
{
    static const char *const bad[][2] = {
        {"slots", ""},
        {"slots", "-1"},
        {"slots", " 5"},
        {"slots", "5x"},
        {"slots", "1e3"},
        {"slots", "0x10"},
        {"slots", "1000001"},
        {"slots", "4294967296"},
        {"slots", "Auto"},
        {"load", ""},
        {"load", "0"},
        {"load", "0.0"},
        {"load", "1."},
        {"load", ".5"},
        {"load", "1.2345"},
        {"load", "-1"},
        {"load", "1,5"},
        {"load", "nan"},
        {"load", "1000001"},
        {"floor-mb", "-1"},
        {"floor-mb", "1.5G"},
        {"floor-mb", ""},
        {"backfill-mb", "6 G"},
        {"default-mb", "lots"},
        {"default-mb", "99999999999999999999"},
        {"idle-exit", "-1"},
        {"idle-exit", "1y"},
        {"idle-exit", "400d"},
        {"idle-exit", ""},
        {"budget-mb", ""},
        {"budget-mb", "-5"},
        {"budget-mb", "OFF"},
        {"strict", ""},
        {"strict", "1"},
        {"ageing", "0"},
        {"ageing", ""},
        {"ageing", "-1"},
        {"ageing", "366d"},
        {"ageing", "on"},
    };
    struct tg_config c;
    char why[300];
    tg_config_defaults(&c);
    const struct tg_config before = c;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        why[0] = '\0';
        CHECK_EQ(tg_config_set(&c, bad[i][0], bad[i][1], why, sizeof(why)), -22);
        CHECK(strstr(why, bad[i][0]) == why);
        CHECK(memcmp(&c, &before, sizeof(c)) == 0);
    }
    CHECK_EQ(tg_config_set(&c, "slot", "1", why, sizeof(why)), -2);
    CHECK(strstr(why, "'slot'"));
}

static void what_is_set_is_shown(void)
{
    static const char *const good[][3] = {
        {"slots", "0", "0"},         {"slots", "1000000", "1000000"}, {"slots", "auto", "auto"},
        {"load", "2", "2"},          {"load", "1.5", "1.500"},        {"load", "0.001", "0.001"},
        {"load", "off", "off"},      {"load", "auto", "auto"},        {"floor-mb", "2G", "2048"},
        {"backfill-mb", "0", "0"},   {"default-mb", "512", "512"},    {"idle-exit", "5m", "300"},
        {"idle-exit", "0", "0"},     {"idle-exit", "250ms", "250ms"}, {"budget-mb", "8G", "8192"},
        {"budget-mb", "off", "off"}, {"strict", "on", "on"},          {"strict", "off", "off"},
        {"ageing", "10m", "600"},    {"ageing", "1500ms", "1500ms"},  {"ageing", "off", "off"},
    };
    struct tg_config c;
    char why[300], text[TG_CONFIG_VALUE_BYTES];
    tg_config_defaults(&c);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        CHECK_EQ(tg_config_set(&c, good[i][0], good[i][1], why, sizeof(why)), 0);
        CHECK_EQ(tg_config_get(&c, good[i][0], text, sizeof(text)), 0);
        CHECK(strcmp(text, good[i][2]) == 0);
        CHECK_EQ(tg_config_set(&c, good[i][0], text, why, sizeof(why)), 0);
    }
    for (unsigned i = 0; i < TG_CONFIG_KEYS; i++) {
        CHECK_EQ(tg_config_get(&c, tg_config_key(i), text, sizeof(text)), 0);
        CHECK_EQ(tg_config_set(&c, tg_config_key(i), text, why, sizeof(why)), 0);
    }
    CHECK_EQ(tg_config_get(&c, "no", text, sizeof(text)), -2);
}

static void gates_follow_the_settings(void)
{
    struct tg_config c;
    char why[300];
    tg_config_defaults(&c);
    struct tg_gates g = tg_config_gates(&c, 6);
    CHECK_EQ(g.slots, 6);
    CHECK_EQ(g.load_limit_milli, 6000);
    CHECK_EQ(g.floor_mb, 2048);
    CHECK_EQ(g.backfill_mb, 6000);
    CHECK_EQ(g.overtake_bound, 16);
    CHECK(g.budget_mb == TG_NO_BUDGET);
    CHECK_EQ(tg_config_set(&c, "load", "off", why, sizeof(why)), 0);
    CHECK_EQ(tg_config_set(&c, "slots", "3", why, sizeof(why)), 0);
    CHECK_EQ(tg_config_set(&c, "budget-mb", "100", why, sizeof(why)), 0);
    g = tg_config_gates(&c, 6);
    CHECK(g.slots == 3 && g.load_limit_milli == TG_LOAD_OFF && g.budget_mb == 100);
}

static void a9_every_reason_has_words_with_its_numbers(void)
{
    char text[400];
    for (int why = TG_WHY_NONE; why <= TG_WHY_RESERVED; why++) {
        struct tg_verdict v = {
            .why = (enum tg_why)why, .need = 9000, .have = 6336, .limit = 7777, .blocker = 41};
        tg_explain_wait(&v, 2, text, sizeof(text));
        CHECK(strlen(text) > 15 && strcmp(text + strlen(text) - 9, "; 2 ahead") == 0);
    }
    struct tg_verdict v = {.why = TG_WHY_MEMORY, .need = 9000, .have = 6336};
    tg_explain_wait(&v, 2, text, sizeof(text));
    CHECK(strcmp(text, "waits for memory: needs 9000 MB, 6336 MB are free; 2 ahead") == 0);
    v.start_known = true;
    v.start_in_ms = 12301; /* rounded up */
    tg_explain_wait(&v, 0, text, sizeof(text));
    CHECK(strcmp(text, "waits for memory: needs 9000 MB, 6336 MB are free; can start in 12.4 s; 0 ahead") ==
          0);
    v = (struct tg_verdict){.why = TG_WHY_RESERVED, .blocker = 7, .have = 12300, .need = 180000};
    tg_explain_wait(&v, 2, text, sizeof(text));
    CHECK(strcmp(text,
                 "waits behind ticket 7, which can start in 12.3 s: this one would run 3 min; 2 ahead") == 0);
    v.need = 0;
    tg_explain_wait(&v, 2, text, sizeof(text));
    CHECK(strstr(text, "is not known (--time)"));
}

int main(void)
{
    RUN(n1_only_whole_values_are_taken);
    RUN(what_is_set_is_shown);
    RUN(gates_follow_the_settings);
    RUN(a9_every_reason_has_words_with_its_numbers);
    return 0;
}
