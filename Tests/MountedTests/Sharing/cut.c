// Ends the process that it is preloaded into at one of its calls that make, write or remove something, as `kill -9` does.
//
//   COVE_CUT_AT  the number of the call that it does not come to any more
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long count;

static void step(void) {
    const char *number = getenv("COVE_CUT_AT");
    if (number && atomic_fetch_add(&count, 1) + 1 == atol(number)) kill(getpid(), SIGKILL);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int fd) { step(); return NEXT(fsync)(fd); }
int unlinkat(int dir, const char *path, int flags) { step(); return NEXT(unlinkat)(dir, path, flags); }
int mkdirat(int dir, const char *path, mode_t mode) { step(); return NEXT(mkdirat)(dir, path, mode); }
int fchmod(int fd, mode_t mode) { step(); return NEXT(fchmod)(fd, mode); }
int futimens(int fd, const struct timespec *times) { step(); return NEXT(futimens)(fd, times); }
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) { step(); return NEXT(pwrite)(fd, bytes, size, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) { step(); return NEXT(pwrite64)(fd, bytes, size, at); }
