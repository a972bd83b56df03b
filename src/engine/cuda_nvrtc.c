/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA C text into the engine's kernel at run time: NVRTC, the compiler as a library, is opened when it is
 * asked for (no header of a toolkit and no link dependency), and gets the kernel's own text from this
 * library, where the build has put it, so that an installed library works without the tree. It loads nothing
 * onto a device: the image goes to tg_engine_open.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidegate/compile.h>

#include "base/parse.h"
#include "engine/cuda.h"

#define PATH_BYTES 4096
#define MOST_SOURCES 64
#define MOST_FLAGS 64u
#define FIXED_FLAGS 3u
#define NAME "tidegate_bodies.cu"
#define FALLBACK "compute_80"

typedef int result_t;
typedef void *program_t;

struct nvrtc {
    void *library;
    result_t (*version)(int *, int *);
    result_t (*create)(program_t *, const char *, const char *, int, const char *const *,
                       const char *const *);
    result_t (*compile)(program_t, int, const char *const *);
    result_t (*destroy)(program_t *);
    result_t (*log_size)(program_t, size_t *);
    result_t (*log)(program_t, char *);
    result_t (*ptx_size)(program_t, size_t *);
    result_t (*ptx)(program_t, char *);
    result_t (*cubin_size)(program_t, size_t *);
    result_t (*cubin)(program_t, char *);
    const char *(*error)(result_t);
};

static const struct {
    const char *name;
    size_t at;
} names[] = {
    {"nvrtcVersion", offsetof(struct nvrtc, version)},
    {"nvrtcCreateProgram", offsetof(struct nvrtc, create)},
    {"nvrtcCompileProgram", offsetof(struct nvrtc, compile)},
    {"nvrtcDestroyProgram", offsetof(struct nvrtc, destroy)},
    {"nvrtcGetProgramLogSize", offsetof(struct nvrtc, log_size)},
    {"nvrtcGetProgramLog", offsetof(struct nvrtc, log)},
    {"nvrtcGetPTXSize", offsetof(struct nvrtc, ptx_size)},
    {"nvrtcGetPTX", offsetof(struct nvrtc, ptx)},
    {"nvrtcGetCUBINSize", offsetof(struct nvrtc, cubin_size)},
    {"nvrtcGetCUBIN", offsetof(struct nvrtc, cubin)},
    {"nvrtcGetErrorString", offsetof(struct nvrtc, error)},
};

struct message {
    char *text;
    size_t bytes;
};

static int say(struct message *m, int error, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    if (m->bytes)
        vsnprintf(m->text, m->bytes, format, ap);
    va_end(ap);
    return error;
}

/* ---- The library -------------------------------------------------------------------------------------- */

static void *open_below(const char *root)
{
    static const char *const places[] = {"lib64/libnvrtc.so", "lib/libnvrtc.so",
                                         "targets/x86_64-linux/lib/libnvrtc.so"};
    char path[PATH_BYTES];
    void *library = NULL;
    for (size_t i = 0; !library && root && root[0] == '/' && i < sizeof(places) / sizeof(places[0]); i++)
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", root, places[i]) < sizeof(path))
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library;
}

static void *open_some(const char *named)
{
    static const char *const plain[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};
    if (named)
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof(plain) / sizeof(plain[0]); i++)
        library = dlopen(plain[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = open_below(secure_getenv("CUDA_HOME"));
    if (!library)
        library = open_below(secure_getenv("CUDA_PATH"));
    return library ? library : open_below("/usr/local/cuda");
}

/* It stays open: it keeps threads and memory of its own, and who compiles once does it again. */
static int load(const char *named, struct nvrtc *n, struct message *m)
{
    n->library = open_some(named);
    if (!n->library) {
        const char *said = dlerror();
        return say(m, -ENOENT, "no NVRTC (libnvrtc.so) can be opened%s%.600s; set CUDA_HOME to the toolkit",
                   named && said ? ": " : "", named && said ? said : "");
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *function = dlsym(n->library, names[i].name);
        if (!function)
            return say(m, -ENOENT, "the NVRTC found is too old: it has no %s", names[i].name);
        memcpy((char *)n + names[i].at, &function, sizeof(function));
    }
    return 0;
}

/* ---- Compiling ---------------------------------------------------------------------------------------- */

/* Behind what is there already: what the compiler printed. */
static void add_log(const struct nvrtc *n, program_t program, struct message *m)
{
    size_t bytes = 0;
    size_t at = m->bytes ? strlen(m->text) : 0;
    if (m->bytes < at + 2 || n->log_size(program, &bytes) != 0 || bytes < 2)
        return;
    char *log = calloc(1, bytes + 1);
    if (log && n->log(program, log) == 0)
        snprintf(m->text + at, m->bytes - at, "%s", log);
    free(log);
}

static bool is_ptx(const char *arch)
{
    return strncmp(arch, "compute_", 8) == 0;
}

/* PTX ends with a 0, which is the driver's sign that it is text. */
static int take_image(const struct nvrtc *n, program_t program, bool ptx, void **ret, size_t *ret_bytes)
{
    size_t bytes = 0;
    result_t r = ptx ? n->ptx_size(program, &bytes) : n->cubin_size(program, &bytes);
    if (r != 0 || bytes == 0)
        return -EBADMSG;
    char *image = malloc(bytes);
    if (!image)
        return -ENOMEM;
    r = ptx ? n->ptx(program, image) : n->cubin(program, image);
    if (r != 0) {
        free(image);
        return -EBADMSG;
    }
    *ret = image;
    *ret_bytes = bytes;
    return 0;
}

static int compile(const struct nvrtc *n, const char *source, const char *arch,
                   const struct tg_device_compile_options *o, void **ret, size_t *ret_bytes,
                   struct message *m)
{
    const char *header[MOST_SOURCES], *text[MOST_SOURCES], *flags[FIXED_FLAGS + MOST_FLAGS];
    char architecture[64];
    int headers = 0;
    int count = 0;
    program_t program = NULL;
    for (; headers < MOST_SOURCES && tg_device_sources[headers].name; headers++) {
        header[headers] = tg_device_sources[headers].name;
        text[headers] = tg_device_sources[headers].text;
    }
    snprintf(architecture, sizeof(architecture), "--gpu-architecture=%s", arch);
    flags[count++] = architecture;
    flags[count++] = "--std=c++17";
    flags[count++] = "--device-as-default-execution-space";
    for (uint32_t i = 0; i < o->flag_count; i++)
        flags[count++] = o->compiler_flags[i];
    result_t r = n->create(&program, source, NAME, headers, text, header);
    if (r != 0)
        return say(m, -ENOMEM, "NVRTC takes no program: %s", n->error(r));
    r = n->compile(program, count, flags);
    int result = 0;
    if (r != 0) {
        result = say(m, -EBADMSG, "NVRTC refuses the text (%s, %s):\n", n->error(r), arch);
    } else {
        say(m, 0, "%s", "");
        result = take_image(n, program, is_ptx(arch), ret, ret_bytes);
        if (result)
            say(m, result, "%s", "NVRTC gives no image");
    }
    if (result == 0 || result == -EBADMSG)
        add_log(n, program, m);
    n->destroy(&program);
    return result;
}

/* "sm_90", "sm_90a", "compute_80" */
static bool is_arch(const char *arch)
{
    const char *at = strncmp(arch, "sm_", 3) == 0 ? arch + 3 : is_ptx(arch) ? arch + 8 : "";
    size_t n = strspn(at, "0123456789");
    return n >= 2 && n <= 3 && (at[n] == '\0' || (strchr("af", at[n]) && at[n + 1] == '\0'));
}

/* The processor of the device that is there; without one PTX, which a driver translates for any newer. */
static int choose_arch(const struct tg_device_compile_options *o, char arch[16], struct message *m)
{
    uint32_t processor;
    const char *why = "";
    if (o->arch && !is_arch(o->arch))
        return say(m, -EINVAL, "%.40s is no processor: one is sm_90 (machine code) or compute_80 (PTX)",
                   o->arch);
    if (o->arch)
        return snprintf(arch, 16, "%s", o->arch), 0;
    int r = tg_cuda_processor(o->backend ? o->backend : "cuda", &processor, &why);
    if (r && o->backend)
        return say(m, r, "%s", why);
    if (r)
        snprintf(arch, 16, "%s", FALLBACK);
    else
        snprintf(arch, 16, "sm_%u", processor);
    return 0;
}

int tg_device_compile(const char *source, const struct tg_device_compile_options *given, void **ret_image,
                      size_t *ret_image_bytes, char *why, size_t why_bytes)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* older ones compile one program at a time */
    struct tg_device_compile_options o = {.size = sizeof(o)};
    struct message m = {why, why ? why_bytes : 0};
    struct nvrtc n;
    char arch[16];
    say(&m, 0, "%s", "");
    if (given && given->size != sizeof(o))
        return say(&m, -EINVAL, "the options are not of this library");
    if (given)
        o = *given;
    if (o.flag_count > MOST_FLAGS || (o.flag_count && !o.compiler_flags))
        return say(&m, -EINVAL, "more than %u flags for the compiler, or none where some are said",
                   MOST_FLAGS);
    int r = load(o.library, &n, &m);
    if (!r)
        r = choose_arch(&o, arch, &m);
    if (r)
        return r;
    pthread_mutex_lock(&lock);
    r = compile(&n, source, arch, &o, ret_image, ret_image_bytes, &m);
    pthread_mutex_unlock(&lock);
    return r;
}
