/* Preloaded into a daemon, it ends it as a trap does: by a request of the kernel that has "poison-request" in it, when it is
 * answered; or by an HTTP request of a file whose name begins with "poison-" and the method. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static __thread int doomed;

ssize_t read(int fd, void *buffer, size_t length) {
    static ssize_t (*real)(int, void *, size_t);
    if (!real) real = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    doomed = 0;
    ssize_t count = real(fd, buffer, length);
    /* A request of the kernel begins with its own length. */
    if (count >= 40 && length > 65536 && *(uint32_t *)buffer == (uint32_t)count)
        doomed = memmem((char *)buffer + 40, (size_t)count - 40, "poison-request", 14) != NULL;
    return count;
}

ssize_t writev(int fd, const struct iovec *vector, int count) {
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!real) real = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
    if (doomed) __builtin_trap();
    return real(fd, vector, count);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    static ssize_t (*real)(int, const void *, size_t, int);
    if (!real) real = (ssize_t(*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    const char *end = memchr(bytes, '\r', length < 4096 ? length : 4096);
    size_t line = end ? (size_t)(end - (const char *)bytes) : 0;
    if ((line > 4 && memcmp(bytes, "PUT ", 4) == 0 && memmem(bytes, line, "/poison-put", 11)) ||
        (line > 4 && memcmp(bytes, "GET ", 4) == 0 && memmem(bytes, line, "/poison-get", 11)) ||
        (line > 9 && memcmp(bytes, "PROPFIND ", 9) == 0 && memmem(bytes, line, "/poison-propfind/", 17)))
        __builtin_trap();
    return real(fd, bytes, length, flags);
}
