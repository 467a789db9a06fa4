#ifndef COVE_CFUSE_SHIM_H
#define COVE_CFUSE_SHIM_H

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <unistd.h>

// Hidden by <fcntl.h> without _GNU_SOURCE. It must be libc's own function and not syscall(2): libfuse ends its
// workers by pthread_cancel, and only the former is a cancellation point.
extern ssize_t splice(int fd_in, off_t *off_in, int fd_out, off_t *off_out, size_t length, unsigned int flags);

// fuse_session_loop_mt is a macro that depends on FUSE_USE_VERSION.
static inline int cove_fuse_session_loop_mt(struct fuse_session *session, struct fuse_loop_config *config) {
    return fuse_session_loop_mt(session, config);
}

// The hooks in which a worker sleeps are C: a cancelled thread unwinds its stack, and no Swift frame may be on it.
static inline ssize_t cove_fuse_read(int fd, void *buffer, size_t length, void *userdata) {
    (void)userdata;
    return read(fd, buffer, length);
}
static inline ssize_t cove_fuse_splice(
    int fd_in, off_t *off_in, int fd_out, off_t *off_out, size_t length, unsigned int flags, void *userdata
) {
    (void)userdata;
    return splice(fd_in, off_in, fd_out, off_out, length, flags);
}

#endif
