/*
 * Asks a mount's daemon what it finds, and prints nanoseconds.
 *
 *   query first MOUNT PREDICATE   until the first result comes
 *   query all MOUNT PREDICATE     until the last one has come
 *   query news MOUNT FOLDER COUNT until a query that goes on has told of COUNT files that are made and removed in FOLDER,
 *                                 each after the other
 *   query watch FOLDER COUNT      the same with inotify
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 22];
static size_t filled, taken;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Calls a method at the daemon that serves a mount, and wants more than one reply. */
static int asked(const char *mount, const char *method, const char *predicate) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[4096];
    if (getxattr(mount, "user.cove.socket", address.sun_path, sizeof address.sun_path - 1) < 0) err(1, "%s", mount);
    int line = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (line < 0 || connect(line, (struct sockaddr *)&address, sizeof address) != 0) err(1, "%s", address.sun_path);
    int length = snprintf(text, sizeof text,
                          "{\"method\":\"io.cove.Query.%s\",\"more\":true,\"parameters\":{\"predicate\":\"%s\","
                          "\"attributes\":[\"FSSize\"]%s}}", method, predicate, strcmp(method, "Follow") == 0 ? ",\"interval\":0" : "");
    if (send(line, text, length + 1, MSG_NOSIGNAL) != length + 1) err(1, "send");
    return line;
}

/* The next reply, with its NUL. */
static const char *next(int line) {
    for (;;) {
        char *end = memchr(buffer + taken, 0, filled - taken);
        if (end != NULL) {
            const char *message = buffer + taken;
            taken = end + 1 - buffer;
            if (strstr(message, "\"error\":")) errx(1, "%s", message);
            return message;
        }
        memmove(buffer, buffer + taken, filled - taken);
        filled -= taken;
        taken = 0;
        if (filled == sizeof buffer) errx(1, "a reply is too long");
        ssize_t part = recv(line, buffer + filled, sizeof buffer - filled, 0);
        if (part <= 0) err(1, "the daemon has gone");
        filled += part;
    }
}

static void await(int line, const char *text) {
    while (strstr(next(line), text) == NULL);
}

static int watch(const char *folder) {
    int line = inotify_init1(IN_CLOEXEC);
    if (line < 0 || inotify_add_watch(line, folder, IN_CREATE | IN_DELETE) < 0) err(1, "%s", folder);
    return line;
}

static int64_t change(const char *folder, long count, int line, int isQuery) {
    char path[4096];
    int64_t start = now();
    for (long number = 0; number < count; number++) {
        snprintf(path, sizeof path, "%s/news-%ld", folder, number);
        int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (file < 0) err(1, "%s", path);
        close(file);
        if (isQuery) await(line, strrchr(path, '/') + 1);
        else if (read(line, buffer, sizeof buffer) <= 0) err(1, "inotify");
        if (unlink(path) != 0) err(1, "%s", path);
        if (isQuery) await(line, "\"removed\":[");
        else if (read(line, buffer, sizeof buffer) <= 0) err(1, "inotify");
    }
    return now() - start;
}

int main(int count, char **words) {
    const char *verb = count > 3 ? words[1] : "";
    int64_t time, start = now();
    if (strcmp(verb, "first") == 0) {
        await(asked(words[2], "Run", words[3]), "\"results\":[{");
        time = now() - start;
    } else if (strcmp(verb, "all") == 0) {
        int line = asked(words[2], "Run", words[3]);
        while (strstr(next(line), "\"continues\":true") != NULL);
        time = now() - start;
    } else if (strcmp(verb, "news") == 0 && count == 5) {
        int line = asked(words[2], "Follow", "FSName BEGINSWITH 'news-'");
        await(line, "\"gathered\":true");
        time = change(words[3], atol(words[4]), line, 1);
    } else if (strcmp(verb, "watch") == 0) time = change(words[2], atol(words[3]), watch(words[2]), 0);
    else errx(2, "unknown or incomplete: %s", verb);
    printf("%lld\n", (long long)time);
    return 0;
}
