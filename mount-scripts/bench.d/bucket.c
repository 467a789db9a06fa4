/*
 * A made-up bucket: listens on 127.0.0.1, prints its port, and answers as an S3 server that has KEYS objects of 4 KiB below
 * many/ and a thousand below few/, all computed. Nobody may write to it. Listings (ListObjectsV2) know a prefix, the delimiter /,
 * and tokens, which are numbers of keys.
 *
 *   bucket KEYS
 *
 * GET /counts tells how many listings of many/ and how many requests there were, besides such questions.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST = 16 << 10, ANSWER = 1 << 20, PAGE = 1000, FEW = 1000 };

static long keys;
static atomic_long listings, requests;

/* One connection, with room for a request and an answer. */
struct line {
    int file;
    size_t taken, count;
    char request[REQUEST + 1], answer[ANSWER];
};

static void add(struct line *line, const char *format, ...) {
    va_list values;
    va_start(values, format);
    line->count += vsnprintf(line->answer + line->count, ANSWER - line->count, format, values);
    va_end(values);
    if (line->count >= ANSWER) errx(1, "an answer is too long");
}

/* Eight digits. */
static void put_number(char *place, long number) {
    for (int digit = 7; digit >= 0; digit--, number /= 10) place[digit] = '0' + number % 10;
}

static void add_object(struct line *line, const char *folder, long number) {
    static const char start[] = "<Contents><Key>",
        middle[] = "<LastModified>2026-01-02T03:04:05.000Z</LastModified><ETag>&quot;5d41402abc4b2a76b9719d91",
        end[] = "&quot;</ETag><Size>4096</Size><StorageClass>STANDARD</StorageClass></Contents>";
    char *place = line->answer + line->count, digits[8];
    if (line->count + 400 > ANSWER) errx(1, "an answer is too long");
    put_number(digits, number);
    place = mempcpy(place, start, sizeof start - 1);
    place = stpcpy(place, folder);
    place = mempcpy(place, "file-", 5);
    place = mempcpy(place, digits, 8);
    place = mempcpy(place, ".txt</Key>", 10);
    place = mempcpy(place, middle, sizeof middle - 1);
    place = mempcpy(place, digits, 8);
    place = mempcpy(place, end, sizeof end - 1);
    line->count = place - line->answer;
}

/* The value of a query's parameter, decoded; empty where there is none. */
static void parameter(const char *query, const char *name, char *value, size_t size) {
    size_t length = strlen(name), count = 0;
    for (const char *place = query; place != NULL; place = strchr(place, '&')) {
        place += *place == '&';
        if (strncmp(place, name, length) != 0 || place[length] != '=') continue;
        unsigned byte;
        for (place += length + 1; *place != 0 && *place != '&' && count < size - 1; place++) {
            if (*place == '%' && sscanf(place + 1, "%2x", &byte) == 1) {
                value[count++] = byte;
                place += 2;
            } else value[count++] = *place;
        }
        break;
    }
    value[count] = 0;
}

static void list(struct line *line, const char *query) {
    char prefix[256], token[32], most[32], after[256], delimiter[8];
    parameter(query, "prefix", prefix, sizeof prefix);
    parameter(query, "continuation-token", token, sizeof token);
    parameter(query, "max-keys", most, sizeof most);
    parameter(query, "start-after", after, sizeof after);
    parameter(query, "delimiter", delimiter, sizeof delimiter);
    long limit = *most ? atol(most) : PAGE, first = atol(token);
    if (limit > PAGE) limit = PAGE;
    add(line, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
              "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>bench</Name>"
              "<Prefix>%s</Prefix><MaxKeys>%ld</MaxKeys><EncodingType>url</EncodingType>", prefix, limit);
    int isMany = strncmp(prefix, "many/", 5) == 0, isFew = strncmp(prefix, "few/", 4) == 0;
    if (isMany) atomic_fetch_add(&listings, 1);
    if (isMany || isFew) {
        const char *folder = isMany ? "many/" : "few/", *name = prefix + strlen(folder);
        long total = isMany ? keys : FEW, number;
        /* A file's name, or the beginning of no name. */
        if (*name != 0) {
            int end = 0;
            first = sscanf(name, "file-%8ld.txt%n", &number, &end) == 1 && end > 0 && name[end] == 0 ? number : total;
            if (first < total) total = first + 1;
        }
        if (sscanf(after, isMany ? "many/file-%8ld" : "few/file-%8ld", &number) == 1) first = number + 1;
        long last = first + limit < total ? first + limit : total;
        for (long key = first; key < last; key++) add_object(line, folder, key);
        if (last < total) add(line, "<NextContinuationToken>%ld</NextContinuationToken>", last);
        add(line, "<KeyCount>%ld</KeyCount><IsTruncated>%s</IsTruncated>", last - first, last < total ? "true" : "false");
    } else {
        if (*prefix == 0 && *delimiter) {
            add(line, "<CommonPrefixes><Prefix>few/</Prefix></CommonPrefixes>");
            add(line, "<CommonPrefixes><Prefix>many/</Prefix></CommonPrefixes>");
        } else if (*prefix == 0) add_object(line, "few/", 0);
        add(line, "<IsTruncated>false</IsTruncated>");
    }
    add(line, "</ListBucketResult>");
}

static void give(struct line *line, const char *status, const char *type, int isHead) {
    char head[256];
    int length = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n", status, type,
                          line->count);
    if (send(line->file, head, length, MSG_NOSIGNAL | MSG_MORE * !isHead) != length) return;
    for (size_t sent = 0; !isHead && sent < line->count;) {
        ssize_t part = send(line->file, line->answer + sent, line->count - sent, MSG_NOSIGNAL);
        if (part < 0) return;
        sent += part;
    }
}

static void answer(struct line *line) {
    char method[16], path[4096];
    if (sscanf(line->request, "%15s %4095s", method, path) != 2) errx(1, "no request");
    int isHead = strcmp(method, "HEAD") == 0;
    char *query = strchr(path, '?');
    line->count = 0;
    if (query != NULL) *query++ = 0;
    if (strcmp(path, "/counts") == 0) {
        add(line, "%ld %ld\n", atomic_load(&listings), atomic_load(&requests));
        return give(line, "200 OK", "text/plain", isHead);
    }
    atomic_fetch_add(&requests, 1);
    if (!isHead && strcmp(method, "GET") != 0) {
        add(line, "<Error><Code>AccessDenied</Code><Message>nobody may write</Message></Error>");
        return give(line, "403 Forbidden", "application/xml", 0);
    }
    char *key = path[0] == '/' ? strchr(path + 1, '/') : NULL;
    if (key == NULL || key[1] == 0) {
        list(line, query);
        return give(line, "200 OK", "application/xml", isHead);
    }
    add(line, "<Error><Code>NoSuchKey</Code><Message>it has names only</Message></Error>");
    give(line, "404 Not Found", "application/xml", isHead);
}

/* Reads requests and answers them; bodies are read over. */
static void *serve(void *opened) {
    struct line *line = opened;
    ssize_t part;
    while (1) {
        char *end = memmem(line->request, line->taken, "\r\n\r\n", 4);
        if (end == NULL) {
            size_t room = REQUEST - line->taken;
            if (room == 0 || (part = recv(line->file, line->request + line->taken, room, 0)) <= 0) break;
            line->taken += part;
            continue;
        }
        *end = 0;
        const char *length = strcasestr(line->request, "\r\ncontent-length:");
        size_t used = end + 4 - line->request + (length != NULL ? strtoul(length + 17, NULL, 10) : 0);
        answer(line);
        while (used > line->taken) {
            used -= line->taken;
            if ((part = recv(line->file, line->request, REQUEST, 0)) <= 0) goto over;
            line->taken = part;
        }
        line->taken -= used;
        memmove(line->request, line->request + used, line->taken);
    }
over:
    close(line->file);
    free(line);
    return NULL;
}

int main(int words, char **word) {
    if (words != 2 || (keys = atol(word[1])) < 1 || keys > 99999999) errx(2, "wants KEYS, at most 99999999");
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof own;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&own, sizeof own) != 0 || listen(listener, 512) != 0) err(1, "listen");
    getsockname(listener, (struct sockaddr *)&own, &size);
    printf("%d\n", ntohs(own.sin_port));
    fflush(stdout);
    while (1) {
        struct line *line = malloc(sizeof *line);
        pthread_t thread;
        if (line == NULL) err(1, NULL);
        line->taken = 0;
        if ((line->file = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) err(1, "accept");
        setsockopt(line->file, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        if (pthread_create(&thread, NULL, serve, line) != 0) err(1, "a thread");
        pthread_detach(thread);
    }
}
