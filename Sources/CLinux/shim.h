// Linux calls that Swift's Glibc module does not show because it is compiled without _GNU_SOURCE.
// Each shim goes straight to the kernel and follows libc's convention: -1 and errno.
#ifndef COVE_CLINUX_SHIM_H
#define COVE_CLINUX_SHIM_H

#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/stat.h>

// renameat2(2): RENAME_NOREPLACE and RENAME_EXCHANGE.
static inline int cove_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned int flags) {
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

// statx(2): birth time, mount id.
static inline int cove_statx(int dir, const char *path, int flags, unsigned int mask, struct statx *out) {
    return (int)syscall(SYS_statx, dir, path, flags, mask, out);
}

// fallocate(2).
static inline int cove_fallocate(int fd, int mode, int64_t offset, int64_t length) {
    return (int)syscall(SYS_fallocate, fd, mode, (off_t)offset, (off_t)length);
}

// copy_file_range(2).
static inline ssize_t cove_copy_file_range(int in, int64_t *in_offset, int out, int64_t *out_offset, size_t length) {
    return syscall(SYS_copy_file_range, in, in_offset, out, out_offset, length, 0u);
}

// ioctl_ficlone(2): the macro's value is computed by _IOW, which Swift can't import.
static inline int cove_clone(int to, int from) { return ioctl(to, FICLONE, from); }

// gettid(2).
static inline int cove_gettid(void) { return (int)syscall(SYS_gettid); }

// fcntl(2) F_SETLEASE (1024) is hidden without _GNU_SOURCE. type: F_RDLCK, F_WRLCK or F_UNLCK.
static inline int cove_set_lease(int fd, int type) { return fcntl(fd, 1024, type); }

// sync_file_range(2).
static inline int cove_sync_file_range(int fd, int64_t offset, int64_t length, unsigned int flags) {
    return (int)syscall(SYS_sync_file_range, fd, (off_t)offset, (off_t)length, flags);
}

// open(2) flags hidden without _GNU_SOURCE.
enum {
    COVE_O_PATH = 010000000,
    COVE_O_DIRECT = 040000,
    COVE_O_TMPFILE = 020000000 | 0200000,
    COVE_AT_EMPTY_PATH = 0x1000,
};

#endif
