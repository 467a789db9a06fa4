/*
 * Times one operation on files, the same way on every file system, and prints nanoseconds.
 *
 *   drive read FILE              all of it in order, 128 KiB at a time
 *   drive first FILE OFFSET      open, and the 4 KiB at OFFSET
 *   drive random FILE            each 4 KiB of it written once, in random order, then fsync
 *   drive stat DIR ROUNDS        stat of every name in DIR, ROUNDS times; the first round is not timed
 *   drive create DIR COUNT SIZE  COUNT new files of SIZE bytes: open, write, close
 *   drive clients OPERATION DIR CLIENTS COUNT
 *                                COUNT operations in all by CLIENTS processes, each on files of its own below DIR, which
 *                                "clients fill" makes: lookup, getattr, open, read (4 KiB whose page was dropped), write
 *                                (4 KiB), create, unlink
 *   drive tree DIR ITEMS FANOUT  (prints nothing) the tree of simulated://?items=ITEMS&fanout=FANOUT, files being holes
 *   drive run COMMAND...         until it ends; its output goes to /dev/null
 *   drive touch BYTES            (prints nothing) so much free memory, which the host of a virtual machine may have taken back
 *   drive claims MOUNT FILE CLIENTS COUNT
 *                                COUNT claims in all, with their ends, by CLIENTS connections to the daemon of MOUNT, each on a
 *                                file of its own: FILE and a number
 *   drive locks FILE COUNT       COUNT locks of a file, with their ends
 *   drive opens FILE COUNT       COUNT times open and close
 *   drive present MOUNT FILE     (prints "ready") presents a file as long as the daemon lives
 *   drive forget FILE...         (prints nothing) writes back and drops the files' cached pages
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static char buffer[1 << 17] __attribute__((aligned(4096)));

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int opened(const char *path, int flags) {
    int file = open(path, flags | O_CLOEXEC, 0644);
    if (file < 0) err(1, "%s", path);
    return file;
}

static int64_t read_all(const char *path) {
    int64_t start = now(), total = 0;
    int file = opened(path, O_RDONLY);
    ssize_t count;
    while ((count = read(file, buffer, sizeof buffer)) > 0) total += count;
    if (count < 0) err(1, "%s", path);
    close(file);
    int64_t time = now() - start;
    struct stat status;
    if (stat(path, &status) != 0 || status.st_size != total) errx(1, "%s: read %lld bytes", path, (long long)total);
    return time;
}

static int64_t read_first(const char *path, off_t offset) {
    int64_t start = now();
    int file = opened(path, O_RDONLY);
    if (pread(file, buffer, 4096, offset) != 4096) err(1, "%s", path);
    int64_t time = now() - start;
    close(file);
    return time;
}

static int64_t write_random(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) err(1, "%s", path);
    uint32_t count = status.st_size / 4096;
    uint32_t *order = malloc(sizeof *order * (count + 1));
    if (order == NULL) err(1, NULL);
    srandom(42);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = random() % (i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    memset(buffer, 'x', 4096);
    int64_t start = now();
    int file = opened(path, O_WRONLY);
    for (uint32_t i = 0; i < count; i++)
        if (pwrite(file, buffer, 4096, (off_t)order[i] * 4096) != 4096) err(1, "%s", path);
    if (fsync(file) != 0) err(1, "%s: fsync", path);
    if (close(file) != 0) err(1, "%s: close", path);
    free(order);
    return now() - start;
}

static int64_t stat_all(const char *path, long rounds) {
    static char *names[100000];
    size_t count = 0;
    int directory = opened(path, O_RDONLY | O_DIRECTORY);
    DIR *stream = fdopendir(directory);
    for (struct dirent *entry; count < 100000 && (entry = readdir(stream)) != NULL;)
        if (entry->d_name[0] != '.') names[count++] = strdup(entry->d_name);
    struct stat status;
    int64_t start = 0;
    for (long round = 0; round <= rounds; round++) {
        if (round == 1) start = now();
        for (size_t i = 0; i < count; i++)
            if (fstatat(directory, names[i], &status, AT_SYMLINK_NOFOLLOW) != 0) err(1, "%s/%s", path, names[i]);
    }
    return now() - start;
}

static int64_t create_all(const char *path, long count, size_t size) {
    int directory = opened(path, O_RDONLY | O_DIRECTORY);
    char name[32];
    memset(buffer, 'x', size);
    int64_t start = now();
    for (long i = 0; i < count; i++) {
        snprintf(name, sizeof name, "file-%06ld.txt", i);
        int file = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (file < 0) err(1, "%s/%s", path, name);
        if (size > 0 && write(file, buffer, size) != (ssize_t)size) err(1, "%s/%s", path, name);
        if (close(file) != 0) err(1, "%s/%s", path, name);
    }
    return now() - start;
}

/* One of the processes that work at once. */
static void operate(const char *operation, int directory, long count) {
    static char *block;
    struct statx status;
    char name[32];
    int isFill = strcmp(operation, "fill") == 0, file = -1;
    if (posix_memalign((void **)&block, 4096, 4096) != 0) err(1, NULL);
    memset(block, 'x', 4096);
    if (strcmp(operation, "read") == 0 || strcmp(operation, "write") == 0 || strcmp(operation, "getattr") == 0)
        if ((file = openat(directory, "file-0", O_RDWR | O_CLOEXEC)) < 0) err(1, "file-0");
    for (long i = 0; i < count; i++) {
        int result = 0;
        snprintf(name, sizeof name, "%s-%ld", strcmp(operation, "create") == 0 ? "new" : "file", i);
        if (strcmp(operation, "lookup") == 0)
            result = statx(directory, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &status);
        else if (strcmp(operation, "getattr") == 0)
            result = statx(file, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &status);
        else if (strcmp(operation, "open") == 0) result = close(openat(directory, name, O_RDONLY | O_CLOEXEC));
        else if (strcmp(operation, "read") == 0)
            result = posix_fadvise(file, 0, 4096, POSIX_FADV_DONTNEED) || pread(file, block, 4096, 0) != 4096 ? -1 : 0;
        else if (strcmp(operation, "write") == 0) result = pwrite(file, block, 4096, 0) == 4096 ? 0 : -1;
        else if (strcmp(operation, "unlink") == 0) result = unlinkat(directory, name, 0);
        else if (isFill || strcmp(operation, "create") == 0) {
            int made = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
            if (isFill && i == 0 && write(made, block, 4096) != 4096) err(1, "%s", name);
            result = close(made);
        } else errx(2, "no operation is called %s", operation);
        if (result != 0) err(1, "%s %s", operation, name);
    }
}

static int64_t work_at_once(const char *operation, const char *path, long clients, long count) {
    int gate[2], status;
    if (pipe(gate) != 0) err(1, "pipe");
    for (long i = 0; i < clients; i++) {
        char folder[4096], byte;
        snprintf(folder, sizeof folder, "%s/client-%ld", path, i);
        if (strcmp(operation, "fill") == 0 && mkdir(folder, 0755) != 0) err(1, "%s", folder);
        int directory = opened(folder, O_RDONLY | O_DIRECTORY);
        pid_t child = fork();
        if (child < 0) err(1, "fork");
        if (child > 0) {
            close(directory);
            continue;
        }
        close(gate[1]);
        if (read(gate[0], &byte, 1) != 0) err(1, "pipe");
        operate(operation, directory, count / clients);
        _exit(0);
    }
    int64_t start = now();
    close(gate[1]);
    for (long i = 0; i < clients; i++)
        if (wait(&status) < 0 || status != 0) errx(1, "%s failed", operation);
    return now() - start;
}

static void make_tree(int directory, long number, long items, long fanout) {
    char name[40];
    long first = number * fanout + 1;
    for (long child = first; child < first + fanout && child <= items; child++) {
        int isFolder = child * fanout + 1 <= items;
        snprintf(name, sizeof name, "%s-%ld", isFolder ? "folder" : "file", child);
        if (isFolder && mkdirat(directory, name, 0755) != 0) err(1, "%s", name);
        int made = openat(directory, name, isFolder ? O_RDONLY | O_DIRECTORY : O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (made < 0) err(1, "%s", name);
        if (isFolder) make_tree(made, child, items, fanout);
        else if (ftruncate(made, child % 10000) != 0) err(1, "%s", name);
        close(made);
    }
}

static int64_t run(char **command) {
    int64_t start = now();
    pid_t child = fork();
    if (child == 0) {
        if (dup2(opened("/dev/null", O_WRONLY), 1) < 0) err(126, "/dev/null");
        execvp(command[0], command);
        err(127, "%s", command[0]);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) err(1, "%s", command[0]);
    if (status != 0) errx(1, "%s failed", command[0]);
    return now() - start;
}

static void forget(char **paths) {
    for (; *paths != NULL; paths++) {
        int file = opened(*paths, O_RDONLY);
        fdatasync(file);
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        close(file);
    }
}

static void touch(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) err(1, "%zu bytes", size);
}

/* A connection to the daemon that serves a mount. */
static int connected(const char *mount) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = "user.cove.coordination-socket";
    if (getxattr(mount, name, address.sun_path, sizeof address.sun_path - 1) < 0) err(1, "%s", mount);
    int line = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (line < 0 || connect(line, (struct sockaddr *)&address, sizeof address) != 0) err(1, "%s", address.sun_path);
    return line;
}

/* Sends a call, its NUL included, and waits for a reply, which stays in the buffer. */
static void call(int line, const char *text) {
    if (send(line, text, strlen(text) + 1, MSG_NOSIGNAL) < 0) err(1, "send");
    size_t length = 0;
    do {
        ssize_t part = recv(line, buffer + length, sizeof buffer - length, 0);
        if (part <= 0) err(1, "the daemon has gone");
        length += part;
    } while (buffer[length - 1] != 0);
    if (strstr(buffer, "\"error\":")) errx(1, "%s", buffer);
}

static void copy_member(const char *name, char *value, size_t size) {
    char *found = strstr(buffer, name);
    if (!found || snprintf(value, size, "%s", found + strlen(name)) < 0) errx(1, "%s", buffer);
    value[strcspn(value, "\"")] = 0;
}

static int64_t claim_at_once(const char *mount, const char *file, long clients, long count) {
    int64_t start = now();
    for (long client = 0; client < clients; client++) {
        if (fork() != 0) continue;
        int line = connected(mount);
        char claim[32], ask[512], end[256];
        snprintf(ask, sizeof ask,
                 "{\"method\":\"io.cove.Coordination.Claim\",\"parameters\":{\"intents\":[{\"kind\":\"writing\","
                 "\"options\":[],\"path\":\"%s%ld\"}]}}", file, client);
        for (long number = 0; number < count / clients; number++) {
            call(line, ask);
            copy_member("\"claim\":\"", claim, sizeof claim);
            snprintf(end, sizeof end,
                     "{\"method\":\"io.cove.Coordination.Release\",\"parameters\":{\"claim\":\"%s\"}}", claim);
            call(line, end);
        }
        _exit(0);
    }
    int status;
    while (wait(&status) > 0)
        if (status != 0) errx(1, "a client failed");
    return now() - start;
}

static int64_t lock_often(const char *path, long count) {
    int file = opened(path, O_RDWR);
    int64_t start = now();
    for (long number = 0; number < count; number++) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fcntl(file, F_OFD_SETLKW, &lock) != 0) err(1, "%s", path);
        lock.l_type = F_UNLCK;
        if (fcntl(file, F_OFD_SETLK, &lock) != 0) err(1, "%s", path);
    }
    return now() - start;
}

static int64_t open_often(const char *path, long count) {
    int64_t start = now();
    for (long number = 0; number < count; number++) close(opened(path, O_RDONLY));
    return now() - start;
}

static void present(const char *mount, const char *file) {
    char session[64], ask[1024];
    int stream = connected(mount), line = connected(mount);
    call(stream, "{\"method\":\"io.cove.Coordination.Attend\",\"more\":true}");
    copy_member("\"session\":\"", session, sizeof session);
    snprintf(ask, sizeof ask,
             "{\"method\":\"io.cove.Coordination.AddPresenter\",\"parameters\":{\"session\":\"%s\",\"path\":\"%s\","
             "\"messages\":[\"relinquishToReader\",\"relinquishToWriter\",\"saveChanges\"],\"observes\":[]}}", session, file);
    call(line, ask);
    puts("ready");
    fflush(stdout);
    while (recv(stream, buffer, sizeof buffer, 0) > 0);
}

int main(int count, char **words) {
    const char *verb = count > 2 ? words[1] : "";
    int64_t time;
    if (strcmp(verb, "read") == 0) time = read_all(words[2]);
    else if (strcmp(verb, "first") == 0 && count == 4) time = read_first(words[2], atoll(words[3]));
    else if (strcmp(verb, "random") == 0) time = write_random(words[2]);
    else if (strcmp(verb, "stat") == 0 && count == 4) time = stat_all(words[2], atol(words[3]));
    else if (strcmp(verb, "create") == 0 && count == 5) {
        if (atol(words[4]) > (long)sizeof buffer) errx(2, "SIZE is at most %zu", sizeof buffer);
        time = create_all(words[2], atol(words[3]), atol(words[4]));
    } else if (strcmp(verb, "clients") == 0 && count == 6)
        time = work_at_once(words[2], words[3], atol(words[4]), atol(words[5]));
    else if (strcmp(verb, "tree") == 0 && count == 5)
        return make_tree(opened(words[2], O_RDONLY | O_DIRECTORY), 0, atol(words[3]), atol(words[4])), 0;
    else if (strcmp(verb, "claims") == 0 && count == 6)
        time = claim_at_once(words[2], words[3], atol(words[4]), atol(words[5]));
    else if (strcmp(verb, "locks") == 0 && count == 4) time = lock_often(words[2], atol(words[3]));
    else if (strcmp(verb, "opens") == 0 && count == 4) time = open_often(words[2], atol(words[3]));
    else if (strcmp(verb, "present") == 0 && count == 4) return present(words[2], words[3]), 0;
    else if (strcmp(verb, "run") == 0) time = run(words + 2);
    else if (strcmp(verb, "touch") == 0) return touch(atoll(words[2])), 0;
    else if (strcmp(verb, "forget") == 0) return forget(words + 2), 0;
    else errx(2, "unknown or incomplete: %s", verb);
    printf("%lld\n", (long long)time);
    return 0;
}
