// Preloaded into the driver: cuts the power of its state disk, an ext4 file system on a loop device, at a chosen call.
//
// EXT4_IOC_SHUTDOWN drops all that was not durable; what its journal holds is found again at the next mount. Before that
// a few dirty pages, chosen by the seed, may still reach the disk, as they may when the power fails.
//
// COVE_POWER_DISK     where the disk is mounted
// COVE_POWER_AT       the call to die at, with status 99; making DISK/power-off dies at once, with status 98
// COVE_POWER_SEED     chooses what arrives
// COVE_POWER_SWALLOW  content or log: a broken program, whose syncs of those files do nothing
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXT4_IOC_SHUTDOWN _IOR('X', 125, __u32)

static const char *disk, *swallow;
static int disk_descriptor = -1;
static dev_t device;
static long last_call;
static unsigned seed;
static atomic_long calls;
static atomic_int is_off;

static long (*real_syscall)(long, ...);

__attribute__((constructor)) static void start(void) {
    struct stat status;
    real_syscall = dlsym(RTLD_NEXT, "syscall");
    disk = getenv("COVE_POWER_DISK");
    if (!disk) return;
    swallow = getenv("COVE_POWER_SWALLOW");
    last_call = getenv("COVE_POWER_AT") ? atol(getenv("COVE_POWER_AT")) : 0;
    seed = getenv("COVE_POWER_SEED") ? (unsigned)atol(getenv("COVE_POWER_SEED")) : 1;
    disk_descriptor = open(disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (disk_descriptor < 0 || fstat(disk_descriptor, &status) != 0) abort();
    device = status.st_dev;
}

static unsigned pick(unsigned count) { return (unsigned)rand_r(&seed) % count; }

static void power_off(int status) {
    if (atomic_exchange(&is_off, 1))
        for (;;) pause();
    for (int descriptor = 3; descriptor < 1024; descriptor++) {
        struct stat file;
        if (fstat(descriptor, &file) != 0 || file.st_dev != device || !S_ISREG(file.st_mode)) continue;
        if (pick(3) != 0) continue;
        long long pages = file.st_size / 4096 + 1;
        long long first = pick((unsigned)pages), count = 1 + pick((unsigned)pages);
        real_syscall(SYS_sync_file_range, descriptor, first * 4096, count * 4096, 7);
    }
    // 1: the journal arrives, though not the bytes it speaks of; 2: nothing does.
    __u32 how = 1 + pick(2);
    if (ioctl(disk_descriptor, EXT4_IOC_SHUTDOWN, &how) != 0) abort();
    _exit(status);
}

static void point(void) {
    if (last_call > 0 && atomic_fetch_add(&calls, 1) + 1 == last_call) power_off(99);
}

// Between the power's failure and the death of the process other threads may read nonsense: none of them ends it first.
__attribute__((noreturn)) void exit(int status) {
    while (atomic_load(&is_off)) pause();
    void (*real_exit)(int) __attribute__((noreturn)) = dlsym(RTLD_NEXT, "exit");
    real_exit(status);
}

// No sync is answered any more once the power fails: one that was under way then may return 0 though nothing arrived.
static int answer(int result) {
    while (atomic_load(&is_off)) pause();
    return result;
}

static int is_on_disk(int descriptor) {
    struct stat status;
    return disk && fstat(descriptor, &status) == 0 && status.st_dev == device;
}

static int is_below(const char *path) {
    return disk && path && strncmp(path, disk, strlen(disk)) == 0 && path[strlen(disk)] == '/';
}

static int is_swallowed(int descriptor) {
    char link[64], path[4096];
    if (!swallow) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (strcmp(swallow, "content") == 0) return strstr(path, "/content/") != NULL;
    return strcmp(swallow, "log") == 0 && strstr(path, "-wal") != NULL;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = dlsym(RTLD_NEXT, #name)

#define DESCRIPTOR_CALL(type, name, parameters, arguments) \
    type name parameters { \
        REAL(name); \
        if (is_on_disk(descriptor)) point(); \
        return real arguments; \
    }

#define PATH_CALL(name, parameters, arguments) \
    int name parameters { \
        REAL(name); \
        if (is_below(path)) point(); \
        return real arguments; \
    }

#define SYNC_CALL(name) \
    int name(int descriptor) { \
        REAL(name); \
        if (is_on_disk(descriptor)) { \
            point(); \
            if (is_swallowed(descriptor)) return 0; \
        } \
        return answer(real(descriptor)); \
    }

DESCRIPTOR_CALL(ssize_t, write, (int descriptor, const void *bytes, size_t count), (descriptor, bytes, count))
DESCRIPTOR_CALL(ssize_t, pwrite, (int descriptor, const void *bytes, size_t count, off_t offset),
                (descriptor, bytes, count, offset))
DESCRIPTOR_CALL(ssize_t, pwrite64, (int descriptor, const void *bytes, size_t count, off64_t offset),
                (descriptor, bytes, count, offset))
DESCRIPTOR_CALL(int, ftruncate, (int descriptor, off_t size), (descriptor, size))
DESCRIPTOR_CALL(int, ftruncate64, (int descriptor, off64_t size), (descriptor, size))
SYNC_CALL(fsync)
SYNC_CALL(fdatasync)
PATH_CALL(unlink, (const char *path), (path))
PATH_CALL(rename, (const char *path, const char *target), (path, target))

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    if (is_below(path)) {
        if (strcmp(path + strlen(disk), "/power-off") == 0) power_off(98);
        point();
    }
    return real(path, mode);
}

// The program makes the calls that Swift doesn't show it through this one.
long syscall(long number, ...) {
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (!real_syscall) real_syscall = dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_copy_file_range && is_on_disk((int)a[2])) point();
    if (number == SYS_syncfs && is_on_disk((int)a[0])) point();
    long result = real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return number == SYS_syncfs ? answer((int)result) : result;
}
