#ifndef COVE_CFUSE_SHIM_H
#define COVE_CFUSE_SHIM_H

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>

// fuse_session_loop_mt is a macro that depends on FUSE_USE_VERSION.
static inline int cove_fuse_session_loop_mt(struct fuse_session *session, struct fuse_loop_config *config) {
    return fuse_session_loop_mt(session, config);
}

#endif
