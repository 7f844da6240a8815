/* The floor: what an answer costs when nothing is decided.
 *
 *     floor PORT FILE keep|close
 *
 * One epoll loop on 127.0.0.1:PORT. Whatever a read brings is taken for one request, and
 * the same octets go back: a fixed head and FILE. Nothing is parsed, logged or timed, so no
 * server that does its work can be cheaper by much. `close` ends each connection after
 * one answer; `keep` leaves that to the client.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 256, DESCRIPTORS = 1 << 16, HEAD = 512, BODY = 1 << 20 };

static char answer[HEAD + BODY];
static size_t answer_length;
static size_t sent[DESCRIPTORS]; /* of an answer that the socket buffer did not take whole */

static void prepare(const char *path, int keep)
{
    static char body[BODY];
    FILE *file = fopen(path, "rb");
    if (!file) err(1, "%s", path);
    size_t length = fread(body, 1, sizeof body, file);
    fclose(file);
    int head = snprintf(answer, HEAD,
        "HTTP/1.1 200 OK\r\nServer: floor\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\n"
        "Content-Type: text/html; charset=utf-8\r\nContent-Length: %zu\r\n"
        "Last-Modified: Mon, 30 Nov 2026 09:00:00 GMT\r\nETag: \"floor-1\"\r\n"
        "Accept-Ranges: bytes\r\nConnection: %s\r\n\r\n",
        length, keep ? "keep-alive" : "close");
    memcpy(answer + head, body, length);
    answer_length = head + length;
}

static int listen_on(int port)
{
    int on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted ones inherit it */
    setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address)) err(1, "bind");
    if (listen(listener, 4096)) err(1, "listen");
    return listener;
}

/* Sends what is left; returns whether the connection goes on. */
static int push(int epoll, int client, int keep)
{
    ssize_t n = send(client, answer + sent[client], answer_length - sent[client], MSG_NOSIGNAL);
    if (n < 0 && (errno != EAGAIN || !sent[client])) return 0;
    int waited = sent[client] != 0;
    sent[client] += n > 0 ? n : 0;
    if (sent[client] == answer_length) {
        sent[client] = 0;
        if (!keep) return 0;
        if (!waited) return 1;
    }
    struct epoll_event event = {sent[client] ? EPOLLOUT : EPOLLIN, {.fd = client}};
    epoll_ctl(epoll, EPOLL_CTL_MOD, client, &event);
    return 1;
}

static void welcome(int epoll, int listener)
{
    int client;
    while ((client = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (client >= DESCRIPTORS) { close(client); continue; }
        struct epoll_event event = {EPOLLIN, {.fd = client}};
        sent[client] = 0;
        epoll_ctl(epoll, EPOLL_CTL_ADD, client, &event);
    }
}

int main(int count, char **arguments)
{
    if (count != 4) errx(2, "usage: floor PORT FILE keep|close");
    int keep = strcmp(arguments[3], "close") != 0;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    prepare(arguments[2], keep);
    int listener = listen_on(atoi(arguments[1])), epoll = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, ready[BATCH];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    static char request[16384];
    for (;;) {
        int n = epoll_wait(epoll, ready, BATCH, -1);
        for (int i = 0; i < n; i++) {
            int client = ready[i].data.fd;
            if (client == listener) { welcome(epoll, listener); continue; }
            if (!(ready[i].events & EPOLLOUT) && recv(client, request, sizeof request, 0) <= 0) {
                close(client);
                continue;
            }
            if (!push(epoll, client, keep)) close(client);
        }
    }
}
