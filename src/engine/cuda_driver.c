/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend "cuda": the way to a GPU through NVIDIA's driver, which is opened at run time (libcuda.so.1),
 * so that the library loads and works without it. It knows memory, streams and the start of the kernel; no
 * item passes through here. No header of a CUDA toolkit is needed; the kernel's image comes from nvcc where
 * there is one (cmake/cuda.cmake), else this backend says that it was built without.
 *
 * Living with the rest of CUDA: the device's primary context (the one the CUDA runtime uses) is retained, or
 * the caller's own is used, and it is current only during a call; a stream of its own that waits for nobody;
 * modules are loaded eagerly, because a lazy load may wait for a kernel that never ends.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>

#include "base/clock.h"
#include "base/parse.h"
#include "engine/cuda.h"
#include "engine/device_host.h"
#include "engine/futex.h"

#define CUDA_SUCCESS 0
#define CUDA_NOT_READY 600
#define ATTRIBUTE_MULTIPROCESSORS 16
#define ATTRIBUTE_MAJOR 75
#define ATTRIBUTE_MINOR 76
#define ATTRIBUTE_COOPERATIVE 95
#define HOST_PORTABLE 1u
#define HOST_DEVICEMAP 2u
#define STREAM_NON_BLOCKING 1u
#define POINTER_OF_DEVICE 3
#define MOST_BLOCKS 512u
#define MOST_MEMORY 64u
#define LARGE_PAGE ((size_t)2 << 20)
#define CLOSE_NS UINT64_C(5000000000)

/* The kernel's image; a build without nvcc has none. */
#ifdef TG_CUDA_IMAGE
extern const unsigned char tg_cuda_image[];
static const unsigned char *const built_in_image = tg_cuda_image;
#else
static const unsigned char *const built_in_image = NULL;
#endif

typedef int result_t;
typedef int device_t;
typedef unsigned long long pointer_t;

/* The functions of the driver that are used, by their names in libcuda.so.1. */
struct driver {
    void *library;
    result_t (*init)(unsigned);
    result_t (*device_count)(int *);
    result_t (*device_get)(device_t *, int);
    result_t (*device_attribute)(int *, int, device_t);
    result_t (*context_retain)(void **, device_t);
    result_t (*context_release)(device_t);
    result_t (*context_push)(void *);
    result_t (*context_pop)(void **);
    result_t (*context_device)(device_t *);
    result_t (*module_load)(void **, const void *);
    result_t (*module_unload)(void *);
    result_t (*module_function)(void **, void *, const char *);
    result_t (*module_global)(pointer_t *, size_t *, void *, const char *);
    result_t (*host_alloc)(void **, size_t, unsigned);
    result_t (*host_free)(void *);
    result_t (*host_register)(void *, size_t, unsigned);
    result_t (*host_unregister)(void *);
    result_t (*host_pointer)(pointer_t *, void *, unsigned);
    result_t (*pointer_attribute)(void *, int, pointer_t);
    result_t (*mem_alloc)(pointer_t *, size_t);
    result_t (*mem_free)(pointer_t);
    result_t (*memset8)(pointer_t, unsigned char, size_t, void *);
    result_t (*copy_to)(pointer_t, const void *, size_t, void *);
    result_t (*stream_create)(void **, unsigned, int);
    result_t (*stream_destroy)(void *);
    result_t (*error_name)(result_t, const char **);
    result_t (*error_text)(result_t, const char **);
    result_t (*stream_query)(void *);
    result_t (*stream_wait)(void *);
    result_t (*priority_range)(int *, int *);
    result_t (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                       void **);
};

static const struct {
    const char *name;
    size_t at;
} names[] = {
    {"cuInit", offsetof(struct driver, init)},
    {"cuDeviceGetCount", offsetof(struct driver, device_count)},
    {"cuDeviceGet", offsetof(struct driver, device_get)},
    {"cuDeviceGetAttribute", offsetof(struct driver, device_attribute)},
    {"cuDevicePrimaryCtxRetain", offsetof(struct driver, context_retain)},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(struct driver, context_release)},
    {"cuCtxPushCurrent_v2", offsetof(struct driver, context_push)},
    {"cuCtxPopCurrent_v2", offsetof(struct driver, context_pop)},
    {"cuCtxGetDevice", offsetof(struct driver, context_device)},
    {"cuModuleLoadData", offsetof(struct driver, module_load)},
    {"cuModuleUnload", offsetof(struct driver, module_unload)},
    {"cuModuleGetFunction", offsetof(struct driver, module_function)},
    {"cuModuleGetGlobal_v2", offsetof(struct driver, module_global)},
    {"cuMemHostAlloc", offsetof(struct driver, host_alloc)},
    {"cuMemFreeHost", offsetof(struct driver, host_free)},
    {"cuMemHostRegister_v2", offsetof(struct driver, host_register)},
    {"cuMemHostUnregister", offsetof(struct driver, host_unregister)},
    {"cuMemHostGetDevicePointer_v2", offsetof(struct driver, host_pointer)},
    {"cuPointerGetAttribute", offsetof(struct driver, pointer_attribute)},
    {"cuMemAlloc_v2", offsetof(struct driver, mem_alloc)},
    {"cuMemFree_v2", offsetof(struct driver, mem_free)},
    {"cuMemsetD8Async", offsetof(struct driver, memset8)},
    {"cuMemcpyHtoDAsync_v2", offsetof(struct driver, copy_to)},
    {"cuStreamCreateWithPriority", offsetof(struct driver, stream_create)},
    {"cuStreamDestroy_v2", offsetof(struct driver, stream_destroy)},
    {"cuGetErrorName", offsetof(struct driver, error_name)},
    {"cuGetErrorString", offsetof(struct driver, error_text)},
    {"cuStreamQuery", offsetof(struct driver, stream_query)},
    {"cuStreamSynchronize", offsetof(struct driver, stream_wait)},
    {"cuCtxGetStreamPriorityRange", offsetof(struct driver, priority_range)},
    {"cuLaunchCooperativeKernel", offsetof(struct driver, launch)},
};

struct cuda;
static struct driver driver; /* filled once, under driver_lock */
static struct cuda *opened;  /* under driver_lock: those whose kernel may run */
static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

struct cuda {
    device_t device;
    void *context, *module, *kernel, *stream, *copies;
    void *host[MOST_MEMORY], *locked[MOST_MEMORY];
    struct {
        void *at;
        size_t bytes;
    } large[MOST_MEMORY]; /* locked ones that are the engine's own */
    pointer_t memory[MOST_MEMORY];
    uint32_t host_count, locked_count, large_count, memory_count;
    uint32_t blocks;
    pthread_mutex_t lock;
    bool started, retained;
    result_t error; /* of a kernel that died; under lock */
    bool left;      /* closed while its kernel ran on */
    struct cuda *next;
};

/* driver_lock is held. */
static int load_driver(const char **ret_why)
{
    if (driver.library)
        return 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        *ret_why = "no NVIDIA driver: libcuda.so.1 cannot be opened";
        return -ENODEV;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *function = dlsym(library, names[i].name);
        if (!function) {
            *ret_why = "the NVIDIA driver is too old: it lacks a function that is needed";
            dlclose(library);
            return -ENODEV;
        }
        memcpy((char *)&driver + names[i].at, &function, sizeof(function));
    }
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    if (driver.init(0) != CUDA_SUCCESS) {
        *ret_why = "the NVIDIA driver does not start (cuInit): no usable GPU";
        dlclose(library);
        return -ENODEV;
    }
    driver.library = library;
    return 0;
}

static int device_number(const char *backend, uint64_t *ret_number)
{
    *ret_number = 0;
    if (backend[4] == '\0')
        return 0;
    return tg_parse_u64(backend + 5, 0, 1023, ret_number);
}

static void enter(struct cuda *c)
{
    driver.context_push(c->context);
}

static void leave(void)
{
    void *ignored;
    driver.context_pop(&ignored);
}

static void cuda_close(void *state);

/* Errors that stay with a context, so that nothing runs in it any more. */
static bool is_lasting(result_t r)
{
    return r == 700 || r == 702 || r == 709 || r == 710 || (r >= 714 && r <= 719);
}

/* The driver says no with r. */
static int refused(result_t r, int result, const char *why, const char **ret_why)
{
    *ret_why = why;
    if (!is_lasting(r))
        return result;
    *ret_why = "a kernel of this process faulted, and CUDA keeps that error until the process ends: open the "
               "engine in another process";
    return -ENOTRECOVERABLE;
}

static int find_number(const char *backend, device_t *ret_device, const char **ret_why)
{
    uint64_t number;
    int count = 0;
    if (device_number(backend, &number) != 0) {
        *ret_why = "the device after \"cuda:\" is no number";
        return -EINVAL;
    }
    if (driver.device_count(&count) != CUDA_SUCCESS || number >= (uint64_t)count ||
        driver.device_get(ret_device, (int)number) != CUDA_SUCCESS) {
        *ret_why = "no such GPU";
        return -ENODEV;
    }
    return 0;
}

int tg_cuda_processor(const char *backend, uint32_t *ret_processor, const char **ret_why)
{
    device_t device;
    int major = 0;
    int minor = 0;
    if (strncmp(backend, "cuda", 4) != 0 || (backend[4] != '\0' && backend[4] != ':')) {
        *ret_why = "the backend is no cuda or cuda:N";
        return -EINVAL;
    }
    pthread_mutex_lock(&driver_lock);
    int r = load_driver(ret_why);
    pthread_mutex_unlock(&driver_lock);
    if (!r)
        r = find_number(backend, &device, ret_why);
    if (r)
        return r;
    driver.device_attribute(&major, ATTRIBUTE_MAJOR, device);
    driver.device_attribute(&minor, ATTRIBUTE_MINOR, device);
    *ret_processor = (uint32_t)(major * 10 + minor);
    return 0;
}

/* The caller's own context: of this device. */
static int borrow_context(struct cuda *c, void *context, const char **ret_why)
{
    device_t device = -1;
    c->context = context;
    result_t r = driver.context_push(context);
    if (r == CUDA_SUCCESS) {
        r = driver.context_device(&device);
        leave();
    }
    if (r == CUDA_SUCCESS && device == c->device)
        return 0;
    c->context = NULL;
    return refused(r, -EINVAL, "device_context is no context of that GPU", ret_why);
}

static int find_device(struct cuda *c, const struct tg_engine_options *o, const char **ret_why)
{
    int cooperative = 0;
    int r = find_number(o->backend, &c->device, ret_why);
    if (r)
        return r;
    driver.device_attribute(&cooperative, ATTRIBUTE_COOPERATIVE, c->device);
    if (!cooperative) {
        *ret_why = "the GPU has no cooperative launch, on which the engine's progress rests";
        return -ENODEV;
    }
    if (o->device_context)
        return borrow_context(c, o->device_context, ret_why);
    result_t got = driver.context_retain(&c->context, c->device);
    c->retained = got == CUDA_SUCCESS;
    if (c->retained)
        return 0;
    c->context = NULL;
    return refused(got, -ENODEV, "the GPU's context cannot be had: another process may hold it", ret_why);
}

static int prepare(struct cuda *c, const struct tg_engine_options *o, const char **ret_why)
{
    int least = 0;
    int greatest = 0;
    const void *image = o->device_image ? o->device_image : built_in_image;
    driver.priority_range(&least, &greatest);
    result_t r = driver.stream_create(&c->stream, STREAM_NON_BLOCKING, greatest);
    if (r == CUDA_SUCCESS)
        r = driver.stream_create(&c->copies, STREAM_NON_BLOCKING, greatest);
    if (r != CUDA_SUCCESS)
        return refused(r, -ENODEV, "the driver gives no stream", ret_why);
    r = driver.module_load(&c->module, image);
    if (r == CUDA_SUCCESS)
        r = driver.module_function(&c->kernel, c->module, "tg_engine_kernel");
    if (r != CUDA_SUCCESS)
        return refused(
            r, -ENODEV,
            "the driver refuses the kernel's image: a GPU older than sm_80, or another program's image",
            ret_why);
    return 0;
}

/* Gives back everything, when its kernel has ended. driver_lock is held. */
static void release(struct cuda *c)
{
    struct cuda **at = &opened;
    while (*at && *at != c)
        at = &(*at)->next;
    if (*at)
        *at = c->next;
    if (c->context) {
        enter(c);
        for (uint32_t i = 0; i < c->host_count; i++)
            driver.host_free(c->host[i]);
        for (uint32_t i = 0; i < c->locked_count; i++)
            driver.host_unregister(c->locked[i]);
        for (uint32_t i = 0; i < c->large_count; i++)
            munmap(c->large[i].at, c->large[i].bytes);
        for (uint32_t i = 0; i < c->memory_count; i++)
            driver.mem_free(c->memory[i]);
        if (c->stream)
            driver.stream_destroy(c->stream);
        if (c->copies)
            driver.stream_destroy(c->copies);
        if (c->module)
            driver.module_unload(c->module);
        leave();
        if (c->retained)
            driver.context_release(c->device);
    }
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* One engine a context: while its kernel runs, what a second one asks of the driver there does not come back
 * before that kernel ends (seen with driver 580). Who was closed with a kernel that ran on is looked at
 * again. */
static int enlist(struct cuda *c, const char **ret_why)
{
    int r = 0;
    pthread_mutex_lock(&driver_lock);
    for (struct cuda *next, *other = opened; other; other = next) {
        next = other->next;
        if (other->context != c->context)
            continue;
        enter(other);
        bool over = other->left && driver.stream_query(other->stream) != CUDA_NOT_READY;
        leave();
        if (over) {
            release(other);
            continue;
        }
        *ret_why = other->left
                       ? "a body of an engine of this process that was closed has not returned: open the "
                         "engine in another process"
                       : "an engine of this process is open on that GPU: one in a context; another process "
                         "may open one beside it";
        r = -EBUSY;
    }
    if (!r) {
        c->next = opened;
        opened = c;
    }
    pthread_mutex_unlock(&driver_lock);
    return r;
}

static int cuda_open(const struct tg_engine_options *o, void **ret_state, const char **ret_why)
{
    if (!built_in_image && !o->device_image) {
        *ret_why = "built without nvcc: the library has no kernel for a GPU";
        return -ENOTSUP;
    }
    pthread_mutex_lock(&driver_lock);
    int r = load_driver(ret_why);
    pthread_mutex_unlock(&driver_lock);
    if (r)
        return r;
    struct cuda *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    pthread_mutex_init(&c->lock, NULL);
    r = find_device(c, o, ret_why);
    if (!r)
        r = enlist(c, ret_why);
    if (!r) {
        enter(c);
        r = prepare(c, o, ret_why);
        leave();
    }
    if (r)
        cuda_close(c);
    else
        *ret_state = c;
    return r;
}

/* Memory in large pages, where the system has them, zeroed and locked: a device that walks through small ones
 * waits for the place of each (p99 of one item after the other, a ring of 1,048,576 slots: 6.0 us
 * against 7.5). NULL: not here. */
static void *large_memory(struct cuda *c, size_t bytes)
{
    size_t all = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    if (bytes < LARGE_PAGE || c->locked_count == MOST_MEMORY || c->large_count == MOST_MEMORY)
        return NULL;
    char *room = mmap(NULL, all + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    char *p = room + (LARGE_PAGE - (uintptr_t)room % LARGE_PAGE) % LARGE_PAGE;
    pointer_t at = 0;
    madvise(p, all, MADV_HUGEPAGE); /* small ones do, too */
    /* A child that has a copy would make us write to other pages than the device has. */
    madvise(p, all, MADV_DONTFORK);
    memset(p, 0, all);
    if (driver.host_register(p, all, HOST_PORTABLE | HOST_DEVICEMAP) != CUDA_SUCCESS) {
        munmap(room, all + LARGE_PAGE);
        return NULL;
    }
    c->locked[c->locked_count++] = p;
    c->large[c->large_count].at = room;
    c->large[c->large_count++].bytes = all + LARGE_PAGE;
    /* Both sides use one address; where the driver gives another, other memory is to be had. */
    return driver.host_pointer(&at, p, 0) == CUDA_SUCCESS && at == (pointer_t)(uintptr_t)p ? p : NULL;
}

static void *host_memory(void *state, size_t bytes)
{
    struct cuda *c = state;
    void *p = NULL;
    pthread_mutex_lock(&c->lock);
    enter(c);
    p = large_memory(c, bytes);
    if (!p && c->host_count < MOST_MEMORY &&
        driver.host_alloc(&p, bytes, HOST_PORTABLE | HOST_DEVICEMAP) == CUDA_SUCCESS) {
        memset(p, 0, bytes);
        c->host[c->host_count++] = p;
    }
    leave();
    pthread_mutex_unlock(&c->lock);
    return p;
}

static void *device_memory(void *state, size_t bytes)
{
    struct cuda *c = state;
    pointer_t p = 0;
    pthread_mutex_lock(&c->lock);
    enter(c);
    if (c->memory_count < MOST_MEMORY && driver.mem_alloc(&p, bytes) == CUDA_SUCCESS) {
        c->memory[c->memory_count++] = p;
        if (driver.memset8(p, 0, bytes, c->copies) != CUDA_SUCCESS ||
            driver.stream_wait(c->copies) != CUDA_SUCCESS)
            p = 0;
    } else {
        p = 0;
    }
    leave();
    pthread_mutex_unlock(&c->lock);
    return (void *)(uintptr_t)p;
}

static int upload(void *state, void *to, const void *from, size_t bytes)
{
    struct cuda *c = state;
    enter(c);
    bool ok = driver.copy_to((pointer_t)(uintptr_t)to, from, bytes, c->copies) == CUDA_SUCCESS &&
              driver.stream_wait(c->copies) == CUDA_SUCCESS;
    leave();
    return ok ? 0 : -EIO;
}

/* Memory that CUDA knows has an address on the device; other memory of the host gets one by being locked. */
static void *adopt(void *state, void *memory, size_t bytes)
{
    struct cuda *c = state;
    pointer_t at = 0;
    enter(c);
    if (driver.pointer_attribute(&at, POINTER_OF_DEVICE, (pointer_t)(uintptr_t)memory) != CUDA_SUCCESS) {
        at = 0;
        if (c->locked_count < MOST_MEMORY &&
            driver.host_register(memory, bytes, HOST_PORTABLE | HOST_DEVICEMAP) == CUDA_SUCCESS) {
            c->locked[c->locked_count++] = memory;
            if (driver.host_pointer(&at, memory, 0) != CUDA_SUCCESS)
                at = 0;
        }
    }
    leave();
    return (void *)(uintptr_t)at;
}

static uint32_t workers(void *state, uint32_t wanted)
{
    struct cuda *c = state;
    int multiprocessors = 1;
    driver.device_attribute(&multiprocessors, ATTRIBUTE_MULTIPROCESSORS, c->device);
    c->blocks = wanted ? wanted : multiprocessors > 1 ? (uint32_t)multiprocessors - 1 : 1;
    c->blocks = c->blocks < MOST_BLOCKS ? c->blocks : MOST_BLOCKS;
    return c->blocks * (TG_BLOCK_LANES / 32u);
}

static int start(void *state, struct tg_device_params *params)
{
    struct cuda *c = state;
    params->blocks = c->blocks;
    enter(c);
    pointer_t at;
    size_t bytes;
    c->started = driver.module_global(&at, &bytes, c->module, "tg_engine_params") == CUDA_SUCCESS &&
                 bytes == sizeof(*params) && driver.copy_to(at, params, bytes, c->stream) == CUDA_SUCCESS &&
                 driver.launch(c->kernel, 1 + c->blocks, 1, 1, TG_BLOCK_LANES, 1, 1, 0, c->stream, NULL) ==
                     CUDA_SUCCESS;
    leave();
    return c->started ? 0 : -EIO;
}

static int look(void *state)
{
    struct cuda *c = state;
    enter(c);
    result_t r = driver.stream_query(c->stream);
    leave();
    if (r == CUDA_NOT_READY || r == CUDA_SUCCESS)
        return r == CUDA_NOT_READY ? 1 : 0;
    pthread_mutex_lock(&c->lock);
    c->error = r;
    pthread_mutex_unlock(&c->lock);
    return -EIO;
}

static int error(void *state, char *text, size_t bytes)
{
    struct cuda *c = state;
    const char *name = NULL;
    const char *words = NULL;
    pthread_mutex_lock(&c->lock);
    result_t r = c->error;
    pthread_mutex_unlock(&c->lock);
    if (driver.error_name(r, &name) == CUDA_SUCCESS && driver.error_text(r, &words) == CUDA_SUCCESS)
        snprintf(text, bytes, "%s: %s", name, words);
    return r;
}

/* Until the kernel has ended; false when it does not. */
static bool ended(struct cuda *c)
{
    uint64_t start_ns = tg_clock_mono_ns();
    uint32_t nobody = 0;
    uint32_t step = 0;
    while (c->started && driver.stream_query(c->stream) == CUDA_NOT_READY) {
        if (tg_clock_mono_ns() - start_ns > CLOSE_NS)
            return false;
        tg_device_pause_host(&nobody, 0, &step, CLOSE_NS);
    }
    return true;
}

static void cuda_close(void *state)
{
    struct cuda *c = state;
    bool over = true;
    if (c->context) {
        enter(c);
        over = ended(c);
        leave();
    }
    pthread_mutex_lock(&driver_lock);
    if (over)
        release(c);
    else
        c->left =
            true; /* what its kernel may still touch is left to it, until somebody opens another engine */
    pthread_mutex_unlock(&driver_lock);
}

const struct tg_link tg_link_cuda = {
    .open = cuda_open,
    .host_memory = host_memory,
    .device_memory = device_memory,
    .upload = upload,
    .adopt = adopt,
    .workers = workers,
    .start = start,
    .look = look,
    .error = error,
    .close = cuda_close,
};
