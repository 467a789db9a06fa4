#ifndef COVE_CFUSE_SHIM_H
#define COVE_CFUSE_SHIM_H

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// fuse_session_loop_mt is a macro that depends on FUSE_USE_VERSION.
static inline int cove_fuse_session_loop_mt(struct fuse_session *session, struct fuse_loop_config *config) {
    return fuse_session_loop_mt(session, config);
}

// What the hooks share. Each Swift file that reaches it has one of its own, hence only Hooks.swift may.
enum { COVE_FUSE_SERVING = 0, COVE_FUSE_REPLAY = 1, COVE_FUSE_REPLAYING = 2 };
struct cove_fuse_hooks {
    int phase;
    // The INIT request: the one the kernel sent, or the one an earlier daemon of the mount had, which is read again.
    unsigned char first[4096];
    size_t first_length;
};
static inline struct cove_fuse_hooks *cove_fuse_shared(void) {
    static struct cove_fuse_hooks shared;
    return &shared;
}
// The number of the request that the thread has read last: libfuse doesn't tell it.
static inline uint64_t *cove_fuse_number(void) {
    static __thread uint64_t number;
    return &number;
}

// struct fuse_in_header of <linux/fuse.h>.
struct cove_fuse_header {
    uint32_t length, opcode;
    uint64_t unique;
};

// The hook in which a worker sleeps is C: libfuse cancels its threads there, and a cancelled thread unwinds its stack,
// on which no Swift frame may be.
static inline ssize_t cove_fuse_read(int fd, void *buffer, size_t length, void *userdata) {
    (void)userdata;
    struct cove_fuse_hooks *shared = cove_fuse_shared();
    int replay = COVE_FUSE_REPLAY;
    if (__atomic_load_n(&shared->phase, __ATOMIC_ACQUIRE) != COVE_FUSE_SERVING) {
        if (__atomic_compare_exchange_n(&shared->phase, &replay, COVE_FUSE_REPLAYING, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            memcpy(buffer, shared->first, shared->first_length);
            return (ssize_t)shared->first_length;
        }
        // libfuse refuses everything until it has answered INIT, which takes another thread a moment.
        struct timespec moment = {.tv_nsec = 50000};
        while (__atomic_load_n(&shared->phase, __ATOMIC_ACQUIRE) != COVE_FUSE_SERVING) nanosleep(&moment, NULL);
    }
    // A kill while the kernel copies a request fails that request with EIO, unless all pages it copies to are there.
    static __thread void *present;
    if (present != buffer) {
        if (mlock(buffer, length) != 0) memset(buffer, 0, length);
        present = buffer;
    }
    ssize_t count = read(fd, buffer, length);
    if (count >= (ssize_t)sizeof(struct cove_fuse_header)) {
        const struct cove_fuse_header *header = (const struct cove_fuse_header *)buffer;
        *cove_fuse_number() = header->unique;
        if (header->opcode == 26 && count <= (ssize_t)sizeof shared->first) {  // FUSE_INIT
            memcpy(shared->first, buffer, (size_t)count);
            shared->first_length = (size_t)count;
        }
    }
    return count;
}

// libfuse 3.14 knows no passthrough: its answers to OPEN and CREATE, as <linux/fuse.h> has them.
struct cove_fuse_open_out {
    uint64_t handle;
    uint32_t flags, backing;
};
struct cove_fuse_create_out {
    uint64_t node, generation, entry_valid, attr_valid;
    uint32_t entry_valid_nsec, attr_valid_nsec;
    uint64_t ino, size, blocks, atime, mtime, ctime;
    uint32_t atime_nsec, mtime_nsec, ctime_nsec, mode, nlink, uid, gid, rdev, blksize, flags;
    struct cove_fuse_open_out open;
};
enum { COVE_FOPEN_PASSTHROUGH = 1 << 7 };

static inline int cove_fuse_reply_open_backed(fuse_req_t request, uint32_t backing) {
    struct cove_fuse_open_out out = {.flags = COVE_FOPEN_PASSTHROUGH, .backing = backing};
    return fuse_reply_buf(request, (const char *)&out, sizeof out);
}

static inline int cove_fuse_reply_create_backed(fuse_req_t request, const struct fuse_entry_param *entry,
                                                uint32_t backing) {
    const struct stat *status = &entry->attr;
    struct cove_fuse_create_out out = {
        .node = entry->ino,
        .generation = entry->generation,
        .entry_valid = (uint64_t)entry->entry_timeout,
        .attr_valid = (uint64_t)entry->attr_timeout,
        .ino = status->st_ino,
        .size = (uint64_t)status->st_size,
        .blocks = (uint64_t)status->st_blocks,
        .atime = (uint64_t)status->st_atim.tv_sec,
        .mtime = (uint64_t)status->st_mtim.tv_sec,
        .ctime = (uint64_t)status->st_ctim.tv_sec,
        .atime_nsec = (uint32_t)status->st_atim.tv_nsec,
        .mtime_nsec = (uint32_t)status->st_mtim.tv_nsec,
        .ctime_nsec = (uint32_t)status->st_ctim.tv_nsec,
        .mode = status->st_mode,
        .nlink = (uint32_t)status->st_nlink,
        .uid = status->st_uid,
        .gid = status->st_gid,
        .rdev = (uint32_t)status->st_rdev,
        .blksize = (uint32_t)status->st_blksize,
        .open = {.flags = COVE_FOPEN_PASSTHROUGH, .backing = backing},
    };
    return fuse_reply_buf(request, (const char *)&out, sizeof out);
}

static inline void cove_fuse_replay(const void *request, size_t length) {
    memcpy(cove_fuse_shared()->first, request, length);
    cove_fuse_shared()->first_length = length;
    __atomic_store_n(&cove_fuse_shared()->phase, COVE_FUSE_REPLAY, __ATOMIC_RELEASE);
}

static inline void cove_fuse_serve(void) {
    __atomic_store_n(&cove_fuse_shared()->phase, COVE_FUSE_SERVING, __ATOMIC_RELEASE);
}

static inline uint64_t cove_fuse_request_number(void) { return *cove_fuse_number(); }
static inline const void *cove_fuse_first_request(void) { return cove_fuse_shared()->first; }
static inline size_t cove_fuse_first_request_length(void) { return cove_fuse_shared()->first_length; }

#endif
