/*
 * A line with a delay: listens on 127.0.0.1, prints its port, and hands on what comes to a port of the same host, each
 * byte MILLISECONDS after it came, in both directions. The first ones of a connection wait for its handshake too, which
 * is another round trip.
 *
 *   line PORT MILLISECONDS
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 256, QUEUED = 64 << 20, PIECE = 1 << 16 };

/* Bytes on their way; none at all is the end of what one side says. */
struct piece {
    struct piece *next;
    int64_t due;
    size_t count, sent;
    char bytes[];
};

/* One direction of a connection. */
struct way {
    struct piece *first, *last;
    size_t queued;
    int isRead, isWritten;
};

/* What comes from side 0 is the client's, and goes to side 1. */
static struct connection {
    int file[2];
    int64_t ready;
    struct way from[2];
} connections[CONNECTIONS];
static int count;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Both return 0 when the connection is over. */
static int receive(struct way *way, int file, int64_t ready, int64_t delay) {
    struct piece *piece = malloc(sizeof *piece + PIECE);
    if (piece == NULL) err(1, NULL);
    ssize_t got = recv(file, piece->bytes, PIECE, MSG_DONTWAIT);
    if (got < 0) return free(piece), 0;
    int64_t sent = now();
    *piece = (struct piece){.due = (sent > ready ? sent : ready) + delay, .count = got};
    if (way->first == NULL) way->first = piece;
    else way->last->next = piece;
    way->last = piece;
    way->queued += got;
    way->isRead = got == 0;
    return 1;
}

static int hand_on(struct way *way, int file) {
    for (struct piece *piece; (piece = way->first) != NULL && piece->due <= now();) {
        if (piece->count == 0) way->isWritten = shutdown(file, SHUT_WR) == 0;
        else {
            ssize_t sent = send(file, piece->bytes + piece->sent, piece->count - piece->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent < 0) return 0;
            way->queued -= sent;
            if ((piece->sent += sent) < piece->count) return 1;
        }
        way->first = piece->next;
        free(piece);
    }
    return 1;
}

static void take(int listener, const struct sockaddr_in *target, int64_t delay) {
    int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC), server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client < 0 || server < 0) err(1, "a connection");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (connect(server, (const struct sockaddr *)target, sizeof *target) != 0) {
        close(client);
        close(server);
        return;
    }
    connections[count++] = (struct connection){.file = {client, server}, .ready = now() + 2 * delay};
}

static void drop(int index) {
    struct connection *connection = &connections[index];
    for (int side = 0; side < 2; side++) {
        for (struct piece *piece; (piece = connection->from[side].first) != NULL; free(piece))
            connection->from[side].first = piece->next;
        close(connection->file[side]);
    }
    *connection = connections[--count];
}

int main(int words, char **word) {
    if (words != 3) errx(2, "wants PORT MILLISECONDS");
    int64_t delay = atof(word[2]) * 1e6;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, target = own;
    socklen_t size = sizeof own;
    target.sin_port = htons(atoi(word[1]));
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&own, sizeof own) != 0 || listen(listener, 512) != 0) err(1, "listen");
    getsockname(listener, (struct sockaddr *)&own, &size);
    printf("%d\n", ntohs(own.sin_port));
    fflush(stdout);
    while (1) {
        static struct pollfd polled[1 + 2 * CONNECTIONS];
        polled[0] = (struct pollfd){.fd = count < CONNECTIONS ? listener : -1, .events = POLLIN};
        int64_t time = now(), next = time + 60000000000;
        for (int i = 0; i < count; i++)
            for (int side = 0; side < 2; side++) {
                struct way *in = &connections[i].from[side], *out = &connections[i].from[1 - side];
                int events = !in->isRead && in->queued < QUEUED ? POLLIN : 0;
                if (out->first != NULL && out->first->due <= time) events |= POLLOUT;
                else if (out->first != NULL && out->first->due < next) next = out->first->due;
                polled[1 + 2 * i + side] = (struct pollfd){.fd = events ? connections[i].file[side] : -1, .events = events};
            }
        struct timespec wait = {.tv_sec = (next - time) / 1000000000, .tv_nsec = (next - time) % 1000000000};
        if (ppoll(polled, 1 + 2 * count, &wait, NULL) < 0) err(1, "ppoll");
        for (int i = count - 1; i >= 0; i--) {
            struct connection *connection = &connections[i];
            int goesOn = 1;
            for (int side = 0; side < 2 && goesOn; side++) {
                int events = polled[1 + 2 * i + side].revents;
                if (events & POLLOUT) goesOn = hand_on(&connection->from[1 - side], connection->file[side]);
                if (goesOn && events & (POLLIN | POLLHUP | POLLERR) && !connection->from[side].isRead)
                    goesOn = receive(&connection->from[side], connection->file[side], connection->ready, delay);
            }
            if (!goesOn || (connection->from[0].isWritten && connection->from[1].isWritten)) drop(i);
        }
        if (polled[0].revents) take(listener, &target, delay);
    }
}
