#ifndef COVE_CFUSE_SHIM_H
#define COVE_CFUSE_SHIM_H

#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
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

// Whether the thread's request is a STATX, which libfuse does not know: it comes as a GETATTR.
static inline int *cove_fuse_wants_birth(void) {
    static __thread int wants;
    return &wants;
}

// struct fuse_in_header of <linux/fuse.h>.
struct cove_fuse_header {
    uint32_t length, opcode;
    uint64_t unique, node;
    uint32_t user, group, process, padding;
};

// What the threads have in hand, in memory that outlives the daemon, and what a daemon that is careful refuses.
enum { COVE_FUSE_WORK_SLOTS = 64 };
struct cove_fuse_work {
    uint64_t *slots;     // pairs of a print and a number
    uint64_t *refusals;  // how many were refused
    uint64_t prints[COVE_FUSE_WORK_SLOTS], numbers[COVE_FUSE_WORK_SLOTS];
    int print_count, number_count, all_resent;
    int64_t until;  // seconds of the monotonic clock until which also requests are refused that are not sent again
    int threads;
};
static inline struct cove_fuse_work *cove_fuse_work(void) {
    static struct cove_fuse_work work;
    return &work;
}

// The same for a request that comes again; never 0. Who asks is no part of it.
static inline uint64_t cove_fuse_print(const struct cove_fuse_header *header, size_t length) {
    const unsigned char *bytes = (const unsigned char *)(header + 1);
    // A name, and what comes before it; of what is written the first bytes.
    size_t count = length - sizeof *header;
    if (count > 288) count = 288;
    uint64_t print = (header->node ^ (uint64_t)header->opcode << 48) * 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < count; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, count - i < 8 ? count - i : 8);
        print = (print ^ word ^ print >> 29) * 0xBF58476D1CE4E5B9u;
    }
    return print ? print : 1;
}

static inline int cove_fuse_is_suspect(const struct cove_fuse_work *work, uint64_t unique, uint64_t print) {
    const uint64_t resent = 1ull << 63;  // FUSE_UNIQUE_RESEND
    int is_resent = (unique & resent) != 0;
    if (is_resent && work->all_resent) return 1;
    for (int i = 0; is_resent && i < work->number_count; i++) {
        if (work->numbers[i] == (unique & ~resent)) return 1;
    }
    for (int i = 0; i < work->print_count; i++) {
        if (work->prints[i] != print) continue;
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return is_resent || now.tv_sec < work->until;
    }
    return 0;
}

// Answers EIO, where an answer is wanted.
static inline void cove_fuse_refuse(int fd, struct cove_fuse_work *work, const struct cove_fuse_header *header) {
    __atomic_add_fetch(work->refusals, 1, __ATOMIC_RELEASE);
    // FORGET, INTERRUPT, NOTIFY_REPLY, BATCH_FORGET
    if (header->opcode == 2 || header->opcode == 36 || header->opcode == 41 || header->opcode == 42) return;
    struct { uint32_t length; int32_t error; uint64_t unique; } out = {sizeof out, -EIO, header->unique};
    ssize_t ignored = write(fd, &out, sizeof out);
    (void)ignored;
}

// Notes a request; false for one that was refused.
static inline int cove_fuse_take(int fd, uint64_t *slot, const struct cove_fuse_header *header, size_t length) {
    struct cove_fuse_work *work = cove_fuse_work();
    uint64_t print = cove_fuse_print(header, length);
    if ((work->all_resent || work->number_count || work->print_count) &&
        cove_fuse_is_suspect(work, header->unique, print)) {
        cove_fuse_refuse(fd, work, header);
        return 0;
    }
    slot[1] = header->unique & ~(1ull << 63);
    __atomic_store_n(slot, print, __ATOMIC_RELEASE);
    return 1;
}

// This thread's place; null where nothing is noted.
static inline uint64_t *cove_fuse_slot(void) {
    static __thread uint64_t *slot;
    struct cove_fuse_work *work = cove_fuse_work();
    if (!slot && work->slots) {
        int thread = __atomic_fetch_add(&work->threads, 1, __ATOMIC_RELAXED);
        slot = work->slots + 2 * (thread % COVE_FUSE_WORK_SLOTS);
    }
    return slot;
}

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
    uint64_t *slot = cove_fuse_slot();
    ssize_t count;
    do {
        if (slot) __atomic_store_n(slot, 0, __ATOMIC_RELEASE);
        count = read(fd, buffer, length);
    } while (slot && count >= (ssize_t)sizeof(struct cove_fuse_header) &&
             !cove_fuse_take(fd, slot, (const struct cove_fuse_header *)buffer, (size_t)count));
    if (count >= (ssize_t)sizeof(struct cove_fuse_header)) {
        struct cove_fuse_header *header = (struct cove_fuse_header *)buffer;
        *cove_fuse_number() = header->unique;
        // A file without a name: asked for like one that has a name, which is "/" then, and no program's name can be that.
        if (header->opcode == 51) header->opcode = 35;  // FUSE_TMPFILE, FUSE_CREATE
        // What comes with it begins as that of the other.
        *cove_fuse_wants_birth() = header->opcode == 52;  // FUSE_STATX
        if (header->opcode == 52) header->opcode = 3;     // FUSE_GETATTR
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

// The answer to STATX, as <linux/fuse.h> has it.
struct cove_fuse_time {
    int64_t seconds;
    uint32_t nanoseconds;
    int32_t reserved;
};
struct cove_fuse_statx_out {
    uint64_t attr_valid;
    uint32_t attr_valid_nsec, flags;
    uint64_t spare[2];
    uint32_t mask, blksize;
    uint64_t attributes;
    uint32_t nlink, uid, gid;
    uint16_t mode, spare0;
    uint64_t ino, size, blocks, attributes_mask;
    struct cove_fuse_time atime, btime, ctime, mtime;
    uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
    uint64_t spare2[14];
};
_Static_assert(sizeof(struct cove_fuse_statx_out) == 288, "struct fuse_statx_out");

static inline struct cove_fuse_time cove_fuse_time(struct timespec time) {
    return (struct cove_fuse_time){.seconds = time.tv_sec, .nanoseconds = (uint32_t)time.tv_nsec};
}

static inline int cove_fuse_reply_statx(fuse_req_t request, const struct stat *status, struct timespec birth,
                                        double timeout) {
    struct cove_fuse_statx_out out = {
        .attr_valid = (uint64_t)timeout,
        .mask = 0xFFF,  // STATX_BASIC_STATS, STATX_BTIME
        .blksize = (uint32_t)status->st_blksize,
        .nlink = (uint32_t)status->st_nlink,
        .uid = status->st_uid,
        .gid = status->st_gid,
        .mode = (uint16_t)status->st_mode,
        .ino = status->st_ino,
        .size = (uint64_t)status->st_size,
        .blocks = (uint64_t)status->st_blocks,
        .atime = cove_fuse_time(status->st_atim),
        .btime = cove_fuse_time(birth),
        .ctime = cove_fuse_time(status->st_ctim),
        .mtime = cove_fuse_time(status->st_mtim),
        .rdev_major = major(status->st_rdev),
        .rdev_minor = minor(status->st_rdev),
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

static inline void cove_fuse_note_work(uint64_t *slots, uint64_t *refusals) {
    cove_fuse_work()->refusals = refusals;
    cove_fuse_work()->slots = slots;
}
static inline void cove_fuse_suspect_print(uint64_t print) {
    struct cove_fuse_work *work = cove_fuse_work();
    if (work->print_count < COVE_FUSE_WORK_SLOTS) work->prints[work->print_count++] = print;
}
static inline void cove_fuse_suspect_number(uint64_t number) {
    struct cove_fuse_work *work = cove_fuse_work();
    if (work->number_count < COVE_FUSE_WORK_SLOTS) work->numbers[work->number_count++] = number;
}
static inline void cove_fuse_suspect_all_resent(void) { cove_fuse_work()->all_resent = 1; }
static inline void cove_fuse_suspect_new_for(int seconds) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    cove_fuse_work()->until = now.tv_sec + seconds;
}

static inline int cove_fuse_request_wants_birth(void) { return *cove_fuse_wants_birth(); }
static inline uint64_t cove_fuse_request_number(void) { return *cove_fuse_number(); }
static inline const void *cove_fuse_first_request(void) { return cove_fuse_shared()->first; }
static inline size_t cove_fuse_first_request_length(void) { return cove_fuse_shared()->first_length; }

#endif
