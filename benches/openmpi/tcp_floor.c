/* The floor of every transport over TCP: two processes, a socket of loopback, and no transport.
 *
 * Prints rma_bench's lines. A message's latency is half of a round trip of that many bytes. What a target answers (put, get,
 * atomics of 8 bytes) is a round trip of a command of 64 bytes and an answer of 16. Both sides poll, as transports do.
 *
 * Usage: tcp_floor [all | quick] */
#define _GNU_SOURCE /* sched_setaffinity */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 4 << 20, BATCHES = 400, ROUNDS = 20, COMMAND = 64, ANSWER = 16 };

static const double BUDGET = 0.4; /* seconds per measurement */

static char memory[LARGEST];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "tcp_floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void pin(int number)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t) (number % (cores > 0 ? cores : 1)), &set);
    /* Where that is not allowed, the ranks of the other sides are not bound either. */
    (void) sched_setaffinity(0, sizeof(set), &set);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Sends or receives `size` bytes, and polls until that is done. */
static void send_all(int fd, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = send(fd, memory + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) {
            done += (size_t) n;
        } else if (errno != EAGAIN) {
            die("send");
        }
    }
}

static void receive_all(int fd, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = recv(fd, memory + done, size - done, MSG_DONTWAIT);
        if (n > 0) {
            done += (size_t) n;
        } else if (n == 0) {
            exit(0); /* The other side has measured everything. */
        } else if (errno != EAGAIN) {
            die("recv");
        }
    }
}

/* Seconds of a round trip: `there` bytes, `back` bytes in answer. The other process learns both sizes first. */
static double round_trip(int fd, size_t there, size_t back)
{
    static double batch[BATCHES];
    int n = 0;
    size_t sizes[2] = {there, back};
    if (send(fd, sizes, sizeof(sizes), 0) != sizeof(sizes)) {
        die("send");
    }
    double begin = now();
    while (n < BATCHES && now() - begin < BUDGET) {
        double t = now();
        for (int i = 0; i < ROUNDS; ++i) {
            memory[0] = 1;
            send_all(fd, there);
            receive_all(fd, back);
        }
        batch[n++] = (now() - t) / ROUNDS;
    }
    /* The first byte of a message says whether another follows. */
    memory[0] = 0;
    send_all(fd, there);
    receive_all(fd, back);
    qsort(batch, (size_t) n, sizeof(*batch), ascending);
    return batch[n / 2];
}

static void echo(int fd)
{
    for (;;) {
        size_t sizes[2];
        char *at = (char *) sizes;
        for (size_t done = 0; done < sizeof(sizes);) {
            ssize_t n = recv(fd, at + done, sizeof(sizes) - done, 0);
            if (n <= 0) {
                exit(n < 0);
            }
            done += (size_t) n;
        }
        int more;
        do {
            receive_all(fd, sizes[0]);
            more = memory[0];
            send_all(fd, sizes[1]);
        } while (more);
    }
}

static void report(const char *name, size_t size, double seconds)
{
    printf("%s %zu 1 %.6g us\n", name, size, seconds * 1e6);
    fflush(stdout);
}

/* One connection of loopback, of which the parent keeps one end. */
static int connected(void)
{
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    if (listener < 0 || bind(listener, (struct sockaddr *) &address, length) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *) &address, &length)) {
        die("a socket that listens");
    }
    pid_t child = fork();
    if (child < 0) {
        die("fork");
    }
    pin(child ? 0 : 1);
    if (child) {
        fd = accept(listener, NULL, NULL);
    } else {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *) &address, length)) {
            die("connect");
        }
    }
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))) {
        die("a connection");
    }
    close(listener);
    if (!child) {
        echo(fd);
    }
    return fd;
}

int main(int argc, char **argv)
{
    static const char *const answered[] = {"put_latency", "get_latency", "fetch_op_latency", "compare_swap_latency",
                                           "accumulate_latency"};
    int quick = argc > 1 && !strcmp(argv[1], "quick"), fd = connected(), status;
    double answer = round_trip(fd, COMMAND, ANSWER);
    for (size_t i = 0; i < sizeof(answered) / sizeof(*answered); ++i) {
        report(answered[i], 8, answer);
    }
    report("put_seen_latency", 8, round_trip(fd, COMMAND, COMMAND) / 2);
    report("send_latency", 8, round_trip(fd, 8, 8) / 2);
    for (size_t size = 1 << 10; size <= LARGEST; size *= quick ? 8 : 4) {
        report("send_latency", size, round_trip(fd, size, size) / 2);
    }
    close(fd);
    return wait(&status) < 0 || status ? 1 : 0;
}
