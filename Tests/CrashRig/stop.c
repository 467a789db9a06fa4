// Ends the process that it is preloaded into at one of its own file-system calls, as `kill -9` does.
//
//   CRASH_ROOT    calls on what is below this folder's `state` and `source` count
//   CRASH_MATCH   only those whose "CALL PATH" matches this fnmatch(3) pattern, the path being relative to the root
//   CRASH_AT      the number of the call that is the last one; 0 for none
//   CRASH_MODE    `before` it, `after` it, when `half` of its bytes are written, or `late`: a while after it, in which
//                 its thread waits and all others go on
//   CRASH_TRACE   a file that gets the line of the last call; with CRASH_AT=0, of every call that counts
//
// Of what SQLite writes to its log only the frame that commits a transaction counts, under the name `commit`. Counting
// begins with `crash_count(1)`; `crash_ignore(1)` leaves out what a thread does in the name of somebody else.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// The function that would have been called. `__asm__` names keep glibc's inline redirections out.
#define NEXT(name) \
    ({ \
        static __typeof__(&name) next; \
        if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
        next; \
    })

enum stop { NOT, AFTER, HALF, LATE };

static atomic_int counting;
static atomic_long count;
static __thread int ignored;

void crash_count(int on) { atomic_store(&counting, on); }
void crash_ignore(int on) { ignored = on; }

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value ? value : otherwise;
}

__attribute__((noreturn)) static void die(void) {
    for (;;) kill(getpid(), SIGKILL);
}

static void end(enum stop stop) {
    if (stop == LATE) usleep(200 * 1000);
    if (stop != NOT) die();
}

static void trace(long number, const char *call) {
    const char *file = setting("CRASH_TRACE", "");
    if (!*file) return;
    int out = NEXT(open64)(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%ld %s\n", number, call);
    if (out >= 0 && NEXT(write)(out, line, (size_t)length) < 0) die();
    close(out);
}

// The absolute path of a call's target in `out`; false when there is none.
static int locate(int dir, const char *path, char *out) {
    char link[64];
    const char *rest = path ? path : "";
    int descriptor, end = 0;
    if (path && sscanf(path, "/proc/self/fd/%d%n", &descriptor, &end) == 1) {
        rest = path + end + (path[end] == '/');
    } else if (path && path[0] == '/') {
        return snprintf(out, PATH_MAX, "%s", path) > 0;
    } else {
        descriptor = dir;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    if (length <= 0) return 0;
    snprintf(out + length, (size_t)(PATH_MAX - length), *rest ? "/%s" : "", rest);
    return 1;
}

static const char *inside(const char *path) {
    const char *root = setting("CRASH_ROOT", "");
    size_t length = strlen(root);
    if (!length || strncmp(path, root, length) || path[length] != '/') return NULL;
    const char *rest = path + length + 1;
    return !strncmp(rest, "state/", 6) || !strncmp(rest, "source/", 7) ? rest : NULL;
}

// Counts a call, and dies if it is not to happen; tells what is to be done about it else.
static enum stop reach(const char *name, int dir, const char *path) {
    char absolute[PATH_MAX], call[PATH_MAX + 32];
    if (!atomic_load(&counting) || ignored || !locate(dir, path, absolute)) return NOT;
    const char *relative = inside(absolute);
    if (!relative || strstr(relative, ".db-shm")) return NOT;
    snprintf(call, sizeof call, "%s %s", name, relative);
    if (fnmatch(setting("CRASH_MATCH", "*"), call, 0)) return NOT;
    long number = atomic_fetch_add(&count, 1) + 1, at = atol(setting("CRASH_AT", "0"));
    const char *mode = setting("CRASH_MODE", "before");
    if (at && number != at) return NOT;
    trace(number, call);
    if (!at) return NOT;
    if (!strcmp(mode, "before")) die();
    return !strcmp(mode, "half") ? HALF : !strcmp(mode, "late") ? LATE : AFTER;
}

#define CALL(name, dir, path, run) \
    ({ \
        enum stop stop = reach(name, dir, path); \
        __auto_type result = (run); \
        end(stop); \
        result; \
    })

// A write of so many bytes, of which only half arrive when it is the last.
#define WRITE(name, fd, bytes, run) \
    ({ \
        enum stop stop = reach(name, fd, NULL); \
        size_t size = stop == HALF ? (bytes) / 2 : (bytes); \
        __auto_type result = (run); \
        end(stop); \
        result; \
    })

// What a write to SQLite's log is called: nothing unless it commits.
static const char *logged(int fd, const void *bytes, size_t size) {
    static __thread int commits;
    char path[PATH_MAX];
    if (!atomic_load(&counting) || !locate(fd, NULL, path) || !strstr(path, ".db-wal")) return "pwrite";
    // wal.c: a frame is a header and a page; the header has the size of the database after a commit, or 0. They are
    // written one by one, or all frames of a transaction at once.
    enum { HEADER = 24, PAGE = 4096 };
    const unsigned char *field = (const unsigned char *)bytes + 4;
    if (size > HEADER && size % (HEADER + PAGE) == 0) field += size - (HEADER + PAGE);
    int is_last = field[0] || field[1] || field[2] || field[3];
    if (size == HEADER) {
        commits = is_last;
        return NULL;
    }
    if (size == PAGE) {
        int was = commits;
        commits = 0;
        return was ? "commit" : NULL;
    }
    if (size % (HEADER + PAGE) != 0) return "pwrite";
    return is_last ? "commit" : NULL;
}

static ssize_t pwritten(ssize_t (*next)(int, const void *, size_t, off64_t), int fd, const void *b, size_t n, off64_t at) {
    const char *name = logged(fd, b, n);
    return name ? WRITE(name, fd, n, next(fd, b, size, at)) : next(fd, b, n, at);
}

ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { return pwritten(NEXT(pwrite64), fd, b, n, at); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at) { return pwritten(NEXT(pwrite64), fd, b, n, at); }
ssize_t write(int fd, const void *b, size_t n) { return WRITE("write", fd, n, NEXT(write)(fd, b, size)); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) {
    return CALL("pwritev", fd, NULL, NEXT(pwritev)(fd, v, n, at));
}
int ftruncate(int fd, off_t size) { return CALL("ftruncate", fd, NULL, NEXT(ftruncate)(fd, size)); }
int ftruncate64(int fd, off64_t size) { return CALL("ftruncate", fd, NULL, NEXT(ftruncate64)(fd, size)); }
int fsync(int fd) { return CALL("fsync", fd, NULL, NEXT(fsync)(fd)); }
int fdatasync(int fd) { return CALL("fdatasync", fd, NULL, NEXT(fdatasync)(fd)); }
int fchmod(int fd, mode_t mode) { return CALL("fchmod", fd, NULL, NEXT(fchmod)(fd, mode)); }
int fchown(int fd, uid_t u, gid_t g) { return CALL("fchown", fd, NULL, NEXT(fchown)(fd, u, g)); }
int futimens(int fd, const struct timespec t[2]) { return CALL("futimens", fd, NULL, NEXT(futimens)(fd, t)); }
int chmod(const char *p, mode_t mode) { return CALL("chmod", AT_FDCWD, p, NEXT(chmod)(p, mode)); }
int rename(const char *a, const char *b) { return CALL("rename", AT_FDCWD, b, NEXT(rename)(a, b)); }
int unlink(const char *p) { return CALL("unlink", AT_FDCWD, p, NEXT(unlink)(p)); }
int rmdir(const char *p) { return CALL("rmdir", AT_FDCWD, p, NEXT(rmdir)(p)); }
int mkdir(const char *p, mode_t mode) { return CALL("mkdir", AT_FDCWD, p, NEXT(mkdir)(p, mode)); }
int mkdirat(int d, const char *p, mode_t mode) { return CALL("mkdirat", d, p, NEXT(mkdirat)(d, p, mode)); }
int unlinkat(int d, const char *p, int flags) { return CALL("unlinkat", d, p, NEXT(unlinkat)(d, p, flags)); }
int symlinkat(const char *t, int d, const char *p) { return CALL("symlinkat", d, p, NEXT(symlinkat)(t, d, p)); }
int linkat(int a, const char *p, int b, const char *q, int flags) {
    return CALL("linkat", b, q, NEXT(linkat)(a, p, b, q, flags));
}
int fchownat(int d, const char *p, uid_t u, gid_t g, int flags) {
    return CALL("fchownat", d, p, NEXT(fchownat)(d, p, u, g, flags));
}
int utimensat(int d, const char *p, const struct timespec t[2], int flags) {
    return CALL("utimensat", d, p, NEXT(utimensat)(d, p, t, flags));
}

// Opening counts where it makes or cuts a file.
#define OPEN(name, d, p, flags, run) \
    ((flags) & (O_CREAT | O_TRUNC) || ((flags) & O_TMPFILE) == O_TMPFILE ? CALL(name, d, p, run) : (run))
#define MODE(flags) \
    ({ \
        va_list list; \
        va_start(list, flags); \
        mode_t mode = va_arg(list, mode_t); \
        va_end(list); \
        mode; \
    })

int open(const char *p, int flags, ...) {
    mode_t mode = MODE(flags);
    return OPEN("open", AT_FDCWD, p, flags, NEXT(open64)(p, flags, mode));
}
int open64(const char *p, int flags, ...) {
    mode_t mode = MODE(flags);
    return OPEN("open", AT_FDCWD, p, flags, NEXT(open64)(p, flags, mode));
}
int openat(int d, const char *p, int flags, ...) {
    mode_t mode = MODE(flags);
    return OPEN("openat", d, p, flags, NEXT(openat64)(d, p, flags, mode));
}
int openat64(int d, const char *p, int flags, ...) {
    mode_t mode = MODE(flags);
    return OPEN("openat", d, p, flags, NEXT(openat64)(d, p, flags, mode));
}

int ioctl(int fd, unsigned long request, ...) {
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    if (request != FICLONE) return NEXT(ioctl)(fd, request, argument);
    return CALL("clone", fd, NULL, NEXT(ioctl)(fd, request, argument));
}

long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
#define RUN NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5])
    switch (number) {
    case SYS_renameat2: return CALL("renameat2", (int)a[2], (const char *)a[3], RUN);
    case SYS_fallocate: return CALL("fallocate", (int)a[0], NULL, RUN);
    case SYS_fsetxattr: return CALL("fsetxattr", (int)a[0], NULL, RUN);
    case SYS_lsetxattr: return CALL("lsetxattr", AT_FDCWD, (const char *)a[0], RUN);
    case SYS_fremovexattr: return CALL("fremovexattr", (int)a[0], NULL, RUN);
    case SYS_syncfs: return CALL("syncfs", (int)a[0], NULL, RUN);
    case SYS_copy_file_range:
        return WRITE("copy_file_range", (int)a[2], (size_t)a[4],
                     NEXT(syscall)(number, a[0], a[1], a[2], a[3], size, a[5]));
    default: return RUN;
    }
}
