// Linux calls that Swift's Glibc module does not show because it is compiled without _GNU_SOURCE.
// Each shim goes straight to the kernel and follows libc's convention: -1 and errno.
#ifndef COVE_CLINUX_SHIM_H
#define COVE_CLINUX_SHIM_H

#include <stddef.h>
#include <stdint.h>
#include <asm/unistd.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <sys/prctl.h>

// Declared here rather than by their headers: those would make this module the owner of Glibc's structures.
extern long syscall(long number, ...);
extern int ioctl(int fd, unsigned long request, ...);
extern int fcntl(int fd, int command, ...);

// renameat2(2): RENAME_NOREPLACE, RENAME_EXCHANGE and RENAME_WHITEOUT.
static inline int cove_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned int flags) {
    return (int)syscall(__NR_renameat2, from_dir, from, to_dir, to, flags);
}

// statx(2): birth time, mount id.
static inline int cove_statx(int dir, const char *path, int flags, unsigned int mask, struct statx *out) {
    return (int)syscall(__NR_statx, dir, path, flags, mask, out);
}

// fallocate(2).
static inline int cove_fallocate(int fd, int mode, int64_t offset, int64_t length) {
    return (int)syscall(__NR_fallocate, fd, mode, offset, length);
}

// copy_file_range(2).
static inline long cove_copy_file_range(int in, int64_t *in_offset, int out, int64_t *out_offset, size_t length) {
    return syscall(__NR_copy_file_range, in, in_offset, out, out_offset, length, 0u);
}

// ioctl_ficlone(2): the macro's value is computed by _IOW, which Swift can't import.
static inline int cove_clone(int to, int from) { return ioctl(to, FICLONE, from); }

// ioctl_fs(2), likewise: the flags of chattr(1).
enum : uint32_t {
    cove_get_flags = FS_IOC_GETFLAGS,
    cove_set_flags = FS_IOC_SETFLAGS,
    cove_get_attributes = FS_IOC_FSGETXATTR,
    cove_set_attributes = FS_IOC_FSSETXATTR,
};

// FUSE_DEV_IOC_BACKING_OPEN and _CLOSE of <linux/fuse.h> (Linux 6.9), which Debian 12's does not have.
static inline int cove_backing_open(int device, int fd) {
    struct { int32_t fd; uint32_t flags; uint64_t padding; } map = {fd, 0, 0};
    return ioctl(device, _IOW(229, 1, map), &map);
}
static inline int cove_backing_close(int device, uint32_t number) {
    return ioctl(device, _IOW(229, 2, uint32_t), &number);
}

// FUSE_DEV_IOC_CLONE of <linux/fuse.h>: makes a /dev/fuse that was opened anew another device of a connection.
static inline int cove_clone_fuse_device(int fd, int device) {
    uint32_t of = (uint32_t)device;
    return ioctl(fd, _IOR(229, 0, uint32_t), &of);
}

// fcntl(2) F_SETFD is variadic, which Swift can't import: the descriptor stays open in a program that is started.
static inline int cove_keep_open(int fd) { return fcntl(fd, 2, 0); }

// NS_GET_PARENT of ioctl_ns(2): the namespace around a PID or user namespace.
static inline int cove_namespace_parent(int fd) { return ioctl(fd, 0xb702); }

// The type of the file system a path lies on, as statfs(2) tells it; 0 where it doesn't.
static inline long cove_file_system_type(const char *path) {
    long status[32];  // its first member is the type
    return syscall(__NR_statfs, path, status) == 0 ? status[0] : 0;
}

// malloc_trim(3): gives what is free back to the kernel; <malloc.h> is not part of Swift's Glibc module.
extern int malloc_trim(size_t pad);

// gettid(2).
static inline int cove_gettid(void) { return (int)syscall(__NR_gettid); }

// fcntl(2) F_SETLEASE (1024) is hidden without _GNU_SOURCE. type: F_RDLCK, F_WRLCK or F_UNLCK.
static inline int cove_set_lease(int fd, int type) { return fcntl(fd, 1024, type); }

// sync_file_range(2).
static inline int cove_sync_file_range(int fd, int64_t offset, int64_t length, unsigned int flags) {
    return (int)syscall(__NR_sync_file_range, fd, offset, length, flags);
}

// prctl(2) is variadic, which Swift can't import: orphans below this process become its children.
static inline int cove_set_child_subreaper(void) { return prctl(PR_SET_CHILD_SUBREAPER, 1); }
// The same: no other process of its user may read this one's memory, environment or descriptors, and it leaves no core.
static inline int cove_set_undumpable(void) { return prctl(PR_SET_DUMPABLE, 0); }

// statx(2): asks for a mount's id that is never used again (Linux 6.8).
enum { COVE_STATX_MNT_ID_UNIQUE = 0x4000 };

// open(2) flags hidden without _GNU_SOURCE.
enum {
    COVE_O_PATH = 010000000,
    COVE_O_DIRECT = 040000,
    COVE_O_TMPFILE = 020000000 | 0200000,
    COVE_AT_FDCWD = -100,
    COVE_AT_EMPTY_PATH = 0x1000,
};

// getxattr(2) and its kin; <sys/xattr.h> is not part of Swift's Glibc module.
static inline long cove_getxattr(const char *path, const char *name, void *value, size_t size) {
    return syscall(__NR_getxattr, path, name, value, size);
}
static inline long cove_lgetxattr(const char *path, const char *name, void *value, size_t size) {
    return syscall(__NR_lgetxattr, path, name, value, size);
}
static inline long cove_fgetxattr(int fd, const char *name, void *value, size_t size) {
    return syscall(__NR_fgetxattr, fd, name, value, size);
}
static inline long cove_flistxattr(int fd, char *list, size_t size) {
    return syscall(__NR_flistxattr, fd, list, size);
}
static inline int cove_fsetxattr(int fd, const char *name, const void *value, size_t size, int flags) {
    return (int)syscall(__NR_fsetxattr, fd, name, value, size, flags);
}
static inline int cove_lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags) {
    return (int)syscall(__NR_lsetxattr, path, name, value, size, flags);
}
static inline int cove_fremovexattr(int fd, const char *name) {
    return (int)syscall(__NR_fremovexattr, fd, name);
}

// llistxattr(2).
static inline long cove_llistxattr(const char *path, char *list, size_t size) {
    return syscall(__NR_llistxattr, path, list, size);
}

// openat2(2): a path that neither leaves its directory nor follows any link.
static inline int cove_openat2_beneath(int dir, const char *path, uint64_t flags, uint64_t mode) {
    struct open_how how = {
        .flags = flags, .mode = mode, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(__NR_openat2, dir, path, &how, sizeof how);
}

// fcntl(2) F_SETSIG (10): the signal a broken lease sends instead of SIGIO, which would end the process.
static inline int cove_set_lease_signal(int fd, int signal) { return fcntl(fd, 10, signal); }

// Has a child begin without any descriptor from `first` on; glibc wants a feature macro for it.
extern int posix_spawn_file_actions_addclosefrom_np(void *actions, int first);
static inline int cove_spawn_closes_from(void *actions, int first) {
    return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

// pipe2(2) with O_CLOEXEC, for which glibc wants a feature macro.
static inline int cove_pipe(void *ends) { return (int)syscall(__NR_pipe2, ends, 02000000); }

// eventfd2(2), close-on-exec and non-blocking; <sys/eventfd.h> is not part of Swift's Glibc module.
static inline int cove_eventfd(void) { return (int)syscall(__NR_eventfd2, 0u, 02000000 | 04000); }

// fstatfs(2): only f_type, the first word of the structure, which statvfs(3) leaves out.
static inline int64_t cove_filesystem_type(int fd) {
    long words[32] = {0};
    return syscall(__NR_fstatfs, fd, words) == 0 ? (int64_t)words[0] : -1;
}

// syncfs(2).
static inline int cove_syncfs(int fd) { return (int)syscall(__NR_syncfs, fd); }

// sendmsg(2) and recvmsg(2) of one packet with descriptors (SCM_RIGHTS): the macros of <sys/socket.h> that lay out control
// messages can't be imported. At most COVE_MAXIMUM_DESCRIPTORS; received ones are close-on-exec.
enum { COVE_MAXIMUM_DESCRIPTORS = 8 };
struct cove_vector {
    void *base;
    size_t length;
};
struct cove_message {
    void *name;
    unsigned int name_length;
    struct cove_vector *vectors;
    size_t vector_count;
    void *control;
    size_t control_length;
    int flags;
};
struct cove_control {
    size_t length;
    int level, type;  // SOL_SOCKET, SCM_RIGHTS: both 1
    int descriptors[COVE_MAXIMUM_DESCRIPTORS];
};
static inline long cove_send_packet(int fd, const void *bytes, size_t length, const int *descriptors, int count) {
    struct cove_vector vector = {(void *)(uintptr_t)bytes, length};
    struct cove_control control = {16 + (size_t)count * sizeof(int), 1, 1, {0}};
    for (int i = 0; i < count; i++) control.descriptors[i] = descriptors[i];
    struct cove_message message = {0, 0, &vector, 1, count ? &control : 0, count ? (control.length + 7) & ~7ul : 0, 0};
    return syscall(__NR_sendmsg, fd, &message, 0x4000);  // MSG_NOSIGNAL
}
static inline long cove_receive_packet(int fd, void *bytes, size_t length, int *descriptors, int *count) {
    struct cove_vector vector = {bytes, length};
    struct cove_control control = {0};
    struct cove_message message = {0, 0, &vector, 1, &control, sizeof control, 0};
    long received = syscall(__NR_recvmsg, fd, &message, 0x40000000);  // MSG_CMSG_CLOEXEC
    *count = 0;
    if (received >= 0 && message.control_length >= 16 && control.level == 1 && control.type == 1) {
        *count = (int)((control.length - 16) / sizeof(int));
        for (int i = 0; i < *count; i++) descriptors[i] = control.descriptors[i];
    }
    return received;
}

// signalfd(2), close-on-exec, for a set of signal numbers up to 64.
static inline int cove_signalfd(uint64_t signals) { return (int)syscall(__NR_signalfd4, -1, &signals, sizeof signals, 02000000); }

// mlockall(2) of what is and will be used: MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT.
static inline int cove_lock_memory(void) { return (int)syscall(__NR_mlockall, 7); }

// close_range(2).
static inline int cove_close_range(unsigned int first, unsigned int last) {
    return (int)syscall(__NR_close_range, first, last, 0u);
}

// A store that no later store overtakes, for memory that another process may find after this one was killed.
static inline uint64_t cove_load_acquire(const uint64_t *place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); }
static inline void cove_store_release(uint64_t *place, uint64_t value) { __atomic_store_n(place, value, __ATOMIC_RELEASE); }

// memfd_create(2), close-on-exec.
static inline int cove_memfd_create(const char *name) { return (int)syscall(__NR_memfd_create, name, 1u); }

// pidfd_open(2): readable once the process has ended.
static inline int cove_pidfd_open(int process) { return (int)syscall(__NR_pidfd_open, process, 0u); }

// A netlink socket of NETLINK_ROUTE, close-on-exec, that hears of links, addresses and routes; rtnetlink(7).
static inline int cove_route_socket(void) {
    struct { unsigned short family, padding; unsigned int port, groups; } address = {16, 0, 0, 0x1 | 0x10 | 0x40 | 0x100 | 0x400};
    int fd = (int)syscall(__NR_socket, 16, 3 | 02000000, 0);
    if (fd >= 0 && syscall(__NR_bind, fd, &address, sizeof address) != 0) {
        syscall(__NR_close, fd);
        return -1;
    }
    return fd;
}

// prlimit(2): what a process may have in memory of its own, in bytes (RLIMIT_DATA, 2); it leaves no core file (RLIMIT_CORE, 4).
static inline int cove_limit_memory(int process, unsigned long long bytes) {
    unsigned long long data[2] = {bytes, bytes}, core[2] = {0, 0};
    if (syscall(__NR_prlimit64, process, 4, core, NULL) < 0) return -1;
    return (int)syscall(__NR_prlimit64, process, 2, data, NULL);
}

// getrlimit(2): the most memory of its own that this process may allow others, in bytes (RLIMIT_DATA, 2).
static inline unsigned long long cove_hard_memory_limit(void) {
    unsigned long long data[2] = {0, 0};
    if (syscall(__NR_prlimit64, 0, 2, NULL, data) < 0) return ~0ull;
    return data[1];
}

// sched_getaffinity(2): the last ones of the processors that this thread may use, at most so many; how many there are.
static inline int cove_last_processors(int count, int *numbers) {
    unsigned long all[128] = {0};
    const int bits = 8 * (int)sizeof(unsigned long);
    int found = 0;
    if (syscall(__NR_sched_getaffinity, 0, sizeof all, all) < 0) return -1;
    for (int number = 128 * bits - 1; number >= 0 && found < count; number--)
        if (all[number / bits] & 1ul << (number % bits)) numbers[found++] = number;
    return found;
}

// sched_setaffinity(2): leaves a process these processors.
static inline int cove_set_processors(int process, const int *numbers, int count) {
    unsigned long some[128] = {0};
    const int bits = 8 * (int)sizeof(unsigned long);
    for (int i = 0; i < count; i++) some[numbers[i] / bits] |= 1ul << (numbers[i] % bits);
    return (int)syscall(__NR_sched_setaffinity, process, sizeof some, some);
}

#endif
