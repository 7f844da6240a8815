/* Many downloads in one light process: what comes is counted and thrown away in the kernel.
 *
 *     client ADDRESS PORT TARGET COUNT
 *
 * Opens COUNT connections, at most PENDING of them unanswered at a time, and asks each for
 * TARGET, again and again. None reads on after its first head until all have theirs: else the
 * first thousand would fill the link, and of the others' handshakes most would be dropped, to be
 * tried again seconds later. Bodies are taken with MSG_TRUNC, which for TCP means that nothing
 * is copied (tcp(7)), so that one core sinks a gigabit and more with ease.
 *
 * For each line on standard input it tells one line of six numbers: connections that are being
 * answered; octets of bodies so far; connections that got some since the last question; the
 * fewest octets that any of them got so far; requests answered; connections lost. End of
 * input: all connections are reset, so that no port waits out its TIME_WAIT.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 1024, PENDING = 512, HEAD = 4096, PORTION = 1 << 20 };
enum { HELD = 60 }; /* s: who has no answer by then is not waited for */
enum { NAP = 1000 }; /* µs between two batches: fewer and larger reads, 113 kB of a gigabit */

enum state { UNUSED, CONNECTING, ASKED, TAKING };

struct download {
    enum state state;
    unsigned last; /* the question before which it last got something */
    long long left; /* octets of the body */
    long long taken; /* octets of bodies in all */
};

static struct download *downloads; /* by descriptor */
static int descriptors, epoll;
static struct sockaddr_in server;
static char request[1024];
static int request_length;

static unsigned question = 1;
static long long octets, answered, lost, moving;
static int opened, pending, taking, wanted, held = 1;

static void watch(int operation, int fd, unsigned events)
{
    struct epoll_event event = {events, {.fd = fd}};
    if (epoll_ctl(epoll, operation, fd, &event)) err(1, "epoll_ctl");
}

static void lose(int fd, const char *why)
{
    if (lost++ < 10) warnx("lost: %s", why);
    if (downloads[fd].state == TAKING) taking--; else pending--;
    downloads[fd].state = UNUSED;
    close(fd);
}

static void open_one(void)
{
    struct linger reset = {1, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0) err(1, "socket");
    if (fd >= descriptors) errx(1, "too many descriptors");
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    downloads[fd] = (struct download){.state = CONNECTING};
    opened++, pending++;
    if (connect(fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS) {
        lose(fd, strerror(errno));
        return;
    }
    watch(EPOLL_CTL_ADD, fd, EPOLLOUT);
}

static void ask(int fd)
{
    if (send(fd, request, request_length, MSG_NOSIGNAL) != request_length) {
        lose(fd, strerror(errno));
        return;
    }
    downloads[fd].state = ASKED;
}

/* Reads the head alone, and what it says of the length. */
static void begin(int fd)
{
    char head[HEAD + 1];
    ssize_t n = recv(fd, head, HEAD, MSG_PEEK);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) { lose(fd, n ? strerror(errno) : "closed without an answer"); return; }
    head[n] = 0;
    char *end = strstr(head, "\r\n\r\n"), *length = strcasestr(head, "\r\ncontent-length:");
    if (!end) { if (n == HEAD) lose(fd, "a head without an end"); return; }
    if (strncmp(head, "HTTP/1.1 200 ", 13)) {
        *strchr(head, '\r') = 0;
        lose(fd, head);
        return;
    }
    if (!length || length > end) { lose(fd, "no Content-Length"); return; }
    recv(fd, head, end + 4 - head, 0);
    struct download *it = &downloads[fd];
    it->state = TAKING;
    it->left = atoll(length + strlen("\r\ncontent-length:"));
    answered++, pending--, taking++;
    if (held) watch(EPOLL_CTL_MOD, fd, 0);
}

/* All are there: everybody reads. */
static void release(void)
{
    held = 0;
    for (int fd = 0; fd < descriptors; fd++)
        if (downloads[fd].state == TAKING) watch(EPOLL_CTL_MOD, fd, EPOLLIN);
}

static void take(int fd)
{
    struct download *it = &downloads[fd];
    ssize_t n = recv(fd, NULL, it->left < PORTION ? it->left : PORTION, MSG_TRUNC);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) { lose(fd, n ? strerror(errno) : "closed within an answer"); return; }
    octets += n, it->taken += n, it->left -= n;
    if (it->last != question) it->last = question, moving++;
    if (it->left) return;
    pending++, taking--;
    ask(fd);
}

static void go_on(int fd)
{
    switch (downloads[fd].state) {
    case CONNECTING:
        watch(EPOLL_CTL_MOD, fd, EPOLLIN);
        ask(fd);
        break;
    case ASKED: begin(fd); break;
    case TAKING: take(fd); break;
    case UNUSED: break;
    }
}

/* Returns whether the input goes on. */
static int tell(void)
{
    char line[256];
    if (read(0, line, sizeof line) <= 0) return 0;
    long long least = -1;
    for (int fd = 0; fd < descriptors; fd++)
        if (downloads[fd].state != UNUSED && (least < 0 || downloads[fd].taken < least))
            least = downloads[fd].taken;
    printf("%d %lld %lld %lld %lld %lld\n", taking, octets, moving, least < 0 ? 0 : least,
        answered, lost);
    fflush(stdout);
    question++, moving = 0;
    return 1;
}

int main(int count, char **arguments)
{
    if (count != 5) errx(2, "usage: client ADDRESS PORT TARGET COUNT");
    server.sin_family = AF_INET;
    server.sin_port = htons(atoi(arguments[2]));
    if (!inet_aton(arguments[1], &server.sin_addr)) errx(2, "not an address: %s", arguments[1]);
    request_length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s:%s\r\n\r\n",
        arguments[3], arguments[1], arguments[2]);
    wanted = atoi(arguments[4]);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    descriptors = wanted + 64;
    downloads = calloc(descriptors, sizeof *downloads);
    epoll = epoll_create1(0);
    if (!downloads || epoll < 0) err(1, "client");
    watch(EPOLL_CTL_ADD, 0, EPOLLIN);
    struct epoll_event ready[BATCH];
    time_t until = time(NULL) + HELD;
    for (;;) {
        if (held && ((opened == wanted && !pending) || time(NULL) > until)) release();
        while (opened < wanted && pending < PENDING) open_one();
        int n = epoll_wait(epoll, ready, BATCH, 1000);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == 0) { if (!tell()) return 0; }
            else go_on(fd);
        }
        usleep(NAP);
    }
}
