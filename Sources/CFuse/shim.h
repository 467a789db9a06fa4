#ifndef COVE_CFUSE_SHIM_H
#define COVE_CFUSE_SHIM_H

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <unistd.h>

// fuse_session_loop_mt is a macro that depends on FUSE_USE_VERSION.
static inline int cove_fuse_session_loop_mt(struct fuse_session *session, struct fuse_loop_config *config) {
    return fuse_session_loop_mt(session, config);
}

// The hook in which a worker sleeps is C: libfuse cancels its threads there, and a cancelled thread unwinds its stack,
// on which no Swift frame may be.
static inline ssize_t cove_fuse_read(int fd, void *buffer, size_t length, void *userdata) {
    (void)userdata;
    return read(fd, buffer, length);
}

#endif
