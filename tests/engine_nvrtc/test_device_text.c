/* SPDX-License-Identifier: Apache-2.0
 * CUDA C text compiled at run time into the engine's kernel (tg_device_compile). No card is needed; skips
 * (77) where there is no NVRTC. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidegate/compile.h>

#include "check.h"

static char why[TG_COMPILE_WHY_BYTES];

static const char good[] =
    "#include <tidegate/device.cuh>\n"
    "TG_DEVICE int tg_device_run(struct tg_device_op *op)\n"
    "{\n"
    "    uint32_t before;\n"
    "    if (op->opcode != 8)\n"
    "        return TG_DEVICE_UNKNOWN;\n"
    "    return tg_device_add(op, op->args[0], SUMMAND, &before) ? TG_OP_FINISHED : -14;\n"
    "}\n";

static int compile(const char *source, const struct tg_device_compile_options *o, void **ret, size_t *bytes)
{
    int r = tg_device_compile(source, o, ret, bytes, why, sizeof(why));
    if (r == -ENOENT && !o->library) {
        CHECK(strlen(why) > 0);
        fprintf(stderr, "SKIPPED: %s\n", why);
        exit(77);
    }
    return r;
}

static int contains(const void *image, size_t bytes, const char *word)
{
    return memmem(image, bytes, word, strlen(word)) != NULL;
}

/* Machine code for one processor: an ELF file with the kernel in it. Flags reach the compiler. */
static void text_becomes_machine_code(void)
{
    static const char *const flags[] = {"-DSUMMAND=7"};
    struct tg_device_compile_options o = {
        .size = sizeof(o), .arch = "sm_90", .compiler_flags = flags, .flag_count = 1};
    void *image = NULL;
    size_t bytes = 0;
    int r = compile(good, &o, &image, &bytes);
    if (r)
        fprintf(stderr, "%s\n", why);
    CHECK_EQ(r, 0);
    CHECK(bytes > 1000 && memcmp(image, "\177ELF", 4) == 0);
    CHECK(contains(image, bytes, "tg_engine_kernel") && contains(image, bytes, "tg_engine_params"));
    free(image);
}

static void the_compilers_log_reaches_the_caller(void)
{
    struct tg_device_compile_options o = {.size = sizeof(o), .arch = "compute_80"};
    void *image = NULL;
    size_t bytes = 0;
    CHECK_EQ(compile(good, &o, &image, &bytes), -EBADMSG);
    CHECK(strstr(why, "SUMMAND") && strstr(why, "undefined") && strstr(why, "tidegate_bodies.cu(7)"));
    CHECK(!image);
    o.arch = "sm_10";
    CHECK_EQ(compile(good, &o, &image, &bytes), -EBADMSG);
    CHECK(strstr(why, "sm_10"));
}

static void what_is_wrong_with_the_options_is_said(void)
{
    struct tg_device_compile_options o = {.size = sizeof(o), .arch = "h200"};
    void *image = NULL;
    size_t bytes = 0;
    CHECK_EQ(compile(good, &o, &image, &bytes), -EINVAL);
    CHECK(strstr(why, "h200"));
    o.arch = "sm_90; rm";
    CHECK_EQ(compile(good, &o, &image, &bytes), -EINVAL);
    o.arch = NULL;
    o.backend = "cpu";
    CHECK_EQ(compile(good, &o, &image, &bytes), -EINVAL);
    o.backend = NULL;
    o.flag_count = 65;
    CHECK_EQ(compile(good, &o, &image, &bytes), -EINVAL);
    o.size = 3;
    CHECK_EQ(compile(good, &o, &image, &bytes), -EINVAL);
    o = (struct tg_device_compile_options){.size = sizeof(o), .library = "/dev/null/libnvrtc.so"};
    CHECK_EQ(compile(good, &o, &image, &bytes), -ENOENT);
    CHECK(strstr(why, "/dev/null/libnvrtc.so"));
}

int main(void)
{
    RUN(what_is_wrong_with_the_options_is_said);
    RUN(the_compilers_log_reaches_the_caller);
    RUN(text_becomes_machine_code);
    return 0;
}
