/* The origin: an app server that costs next to nothing, to stand behind the caches.
 *
 *     origin PORT FILE [BIG MILLISECONDS]
 *
 *     /c/...      FILE, fresh for an hour
 *     /p/...      FILE, private
 *     /think/...  FILE, fresh for an hour, but only after MILLISECONDS
 *     /drip/...   BIG, fresh for an hour, spread evenly over MILLISECONDS
 *     /count      how many requests of the other kinds there were
 *
 * One epoll loop on 127.0.0.1:PORT, HTTP/1.1, GET only; closing is left to the peer. It is
 * to run beside the load tool, so that it takes nothing from the server that is measured.
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
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 256, DESCRIPTORS = 1 << 14, HEAD = 512, REQUEST = 8192, SMALL = 1 << 16,
    TICK = 10 /* milliseconds between two portions of a slow answer */
};
enum kind { FRESH, PRIVATE, THINK, DRIP, COUNT, UNKNOWN };

struct client {
    char request[REQUEST]; /* what has come and is not answered */
    size_t length;
    long long since;       /* when its slow answer began, in milliseconds; 0: there is none */
    size_t sent;           /* octets of BIG */
    enum kind kind;        /* of the slow answer */
};

static const char *prefixes[] = {"/c/", "/p/", "/think/", "/drip/", "/count "};
static struct client clients[DESCRIPTORS];
static int slow[DESCRIPTORS], slow_count;
static char small[SMALL], *big, date[64];
static size_t small_length, big_length;
static char answers[2][HEAD + SMALL]; /* FRESH and PRIVATE, whole */
static size_t answer_length[2];
static long long duration, requests;

static size_t head(char *to, const char *type, size_t length, const char *control)
{
    return snprintf(to, HEAD,
        "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: %s\r\nContent-Type: %s\r\n"
        "Content-Length: %zu\r\nETag: \"origin-%zu\"\r\nCache-Control: %s\r\n\r\n",
        date, type, length, length, control);
}

/* A cache reckons an answer's age from its Date: it has to be right. */
static void set_date(void)
{
    static const char *control[] = {"max-age=3600", "private"};
    static time_t shown;
    time_t now = time(NULL);
    if (now == shown) return;
    shown = now;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&now));
    for (int kind = FRESH; kind <= PRIVATE; kind++) {
        size_t n = head(answers[kind], "text/html; charset=utf-8", small_length, control[kind]);
        memcpy(answers[kind] + n, small, small_length);
        answer_length[kind] = n + small_length;
    }
}

static long long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Small answers go whole or not at all: whoever does not read so much is cut off. */
static int give(int fd, const char *octets, size_t length)
{
    return send(fd, octets, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static enum kind kind_of(const char *request)
{
    if (strncmp(request, "GET ", 4)) return UNKNOWN;
    for (int kind = FRESH; kind < UNKNOWN; kind++)
        if (!strncmp(request + 4, prefixes[kind], strlen(prefixes[kind]))) return kind;
    return UNKNOWN;
}

/* Answers one request, or begins to; returns whether the connection goes on. */
static int answer(int fd)
{
    struct client *client = &clients[fd];
    enum kind kind = kind_of(client->request);
    char text[HEAD + 32], count[32];
    requests += kind != COUNT;
    if (kind == FRESH || kind == PRIVATE) return give(fd, answers[kind], answer_length[kind]);
    if (kind == COUNT) {
        size_t digits = snprintf(count, sizeof count, "%lld", requests);
        size_t n = head(text, "text/plain", digits, "no-store");
        memcpy(text + n, count, digits);
        return give(fd, text, n + digits);
    }
    if (kind == UNKNOWN || !duration) {
        const char *missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        return give(fd, missing, strlen(missing));
    }
    client->since = milliseconds();
    client->sent = 0;
    client->kind = kind;
    slow[slow_count++] = fd;
    if (kind == THINK) return 1;
    return give(fd, text, head(text, "application/octet-stream", big_length, "max-age=3600"));
}

/* Answers all that is here, up to a slow one; returns whether the connection goes on. */
static int answer_all(int fd)
{
    struct client *client = &clients[fd];
    char *end;
    while (!client->since && (end = memmem(client->request, client->length, "\r\n\r\n", 4))) {
        size_t used = end + 4 - client->request;
        if (!answer(fd)) return 0;
        client->length -= used;
        memmove(client->request, client->request + used, client->length);
    }
    return client->length < REQUEST;
}

static void leave_slow(int fd)
{
    clients[fd].since = 0;
    for (int i = 0; i < slow_count; i++)
        if (slow[i] == fd) slow[i] = slow[--slow_count];
}

static void drop(int fd)
{
    leave_slow(fd);
    close(fd);
}

/* Gives a slow client its next portion; returns whether the connection goes on. */
static int go_on(int fd)
{
    struct client *client = &clients[fd];
    long long passed = milliseconds() - client->since;
    if (client->kind == THINK) {
        if (passed < duration) return 1;
        if (!give(fd, answers[FRESH], answer_length[FRESH])) return 0;
    } else {
        size_t due = passed < duration ? big_length * passed / duration : big_length;
        if (due > client->sent) {
            ssize_t n = send(fd, big + client->sent, due - client->sent, MSG_NOSIGNAL);
            if (n < 0 && errno != EAGAIN) return 0;
            client->sent += n > 0 ? n : 0;
        }
        if (client->sent < big_length) return 1;
    }
    leave_slow(fd);
    return answer_all(fd);
}

static int take(int fd)
{
    struct client *client = &clients[fd];
    ssize_t n = recv(fd, client->request + client->length, REQUEST - client->length, 0);
    if (n <= 0) return n < 0 && errno == EAGAIN;
    client->length += n;
    return answer_all(fd);
}

static void welcome(int epoll, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= DESCRIPTORS) { close(fd); continue; }
        struct epoll_event event = {EPOLLIN, {.fd = fd}};
        clients[fd].length = clients[fd].since = 0;
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
}

static int listen_on(int port)
{
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* accepted ones inherit it */
    if (bind(listener, (struct sockaddr *)&address, sizeof address)) err(1, "bind");
    if (listen(listener, 4096)) err(1, "listen");
    return listener;
}

static size_t load(const char *path, char *into, size_t most)
{
    FILE *file = fopen(path, "rb");
    if (!file) err(1, "%s", path);
    size_t length = fread(into, 1, most, file);
    fclose(file);
    return length;
}

int main(int count, char **arguments)
{
    if (count != 3 && count != 5) errx(2, "usage: origin PORT FILE [BIG MILLISECONDS]");
    small_length = load(arguments[2], small, sizeof small);
    if (count == 5) {
        enum { MOST = 1 << 26 };
        if (!(big = malloc(MOST))) err(1, "malloc");
        big_length = load(arguments[3], big, MOST);
        duration = atoll(arguments[4]);
    }
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    int listener = listen_on(atoi(arguments[1])), epoll = epoll_create1(0);
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, ready[BATCH];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(epoll, ready, BATCH, slow_count ? TICK : -1);
        set_date();
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) welcome(epoll, listener);
            else if (!take(fd)) drop(fd);
        }
        for (int i = slow_count - 1; i >= 0; i--) {
            int fd = slow[i];
            if (!go_on(fd)) drop(fd);
        }
    }
}
