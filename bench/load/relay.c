/* relay: a bound for every broker. It copies what one connection sends to another, and looks at nothing.
 *
 *   relay                prints its port, and copies until it is ended
 *
 * Both connections begin as NATS clients: the relay sends INFO and answers PING. The one that says SUB is the consumer.
 * The first byte of `MSG ` on another makes that one the publisher: from there on its bytes are copied as they are, so
 * a publisher has to send ready-made MSG frames (load --ready-made). One reads at most 256 KiB, writes what the socket
 * takes, and reads no more before all of it is written. It polls for 300 us before it sleeps, like the broker.
 */
#define _GNU_SOURCE
#include "connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER 262144
#define LINE 1024
#define SPIN 300e-6
#define CONNECTIONS 1024 /* the highest descriptor */

static const char info[] = "INFO {\"server_id\":\"relay\",\"version\":\"2.0.0\",\"headers\":true,\"max_payload\":1048576}\r\n";

static struct {
  int open;
  size_t kept;
  char line[LINE]; /* what was received and is no whole line */
} clients[CONNECTIONS];

static char buffer[BUFFER];
static size_t at, end; /* what of the buffer is still to be written */
static int consumer = -1, publisher = -1;

static void leave(int client) {
  close(client);
  clients[client].open = 0;
  if (client == consumer) consumer = -1;
  if (client == publisher) publisher = -1;
  at = end = 0;
}

static void copy(void) {
  while (consumer >= 0 && publisher >= 0) {
    if (at == end) {
      ssize_t more = recv(publisher, buffer, BUFFER, 0);
      if (more == 0 || (more < 0 && errno != EAGAIN && errno != EINTR)) leave(publisher);
      if (more <= 0) return;
      at = 0;
      end = (size_t)more;
    }
    ssize_t sent = send(consumer, buffer + at, end - at, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) leave(consumer);
    if (sent <= 0) return;
    at += (size_t)sent;
  }
}

/* Lines of a client that is no publisher. */
static void talk(int client) {
  char *line = clients[client].line;
  size_t *kept = &clients[client].kept;
  ssize_t more = recv(client, line + *kept, LINE - *kept, 0);
  if (more == 0 || (more < 0 && errno != EAGAIN && errno != EINTR)) leave(client);
  if (more <= 0) return;
  *kept += (size_t)more;
  while (*kept > 0) {
    if (consumer >= 0 && client != consumer && *kept >= 4 && memcmp(line, "MSG ", 4) == 0) {
      publisher = client;
      memcpy(buffer, line, *kept);
      at = 0;
      end = *kept;
      *kept = 0;
      copy();
      return;
    }
    char *stop = memchr(line, '\n', *kept);
    if (stop == NULL) break;
    size_t length = (size_t)(stop - line) + 1;
    if (memcmp(line, "PING", 4) == 0) say(client, "PONG\r\n", 6);
    if (memcmp(line, "SUB ", 4) == 0) consumer = client;
    *kept -= length;
    memmove(line, line + length, *kept);
  }
  if (*kept == LINE) leave(client);
}

int main(void) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof place;
  if (bind(listener, (struct sockaddr *)&place, length) != 0 || listen(listener, 16) != 0)
    end_with(CANNOT, "cannot listen: %s", strerror(errno));
  getsockname(listener, (struct sockaddr *)&place, &length);
  printf("%d\n", ntohs(place.sin_port));
  fflush(stdout);
  int poll = epoll_create1(EPOLL_CLOEXEC);
  epoll_ctl(poll, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.fd = listener});
  double busy = 0;
  for (;;) {
    struct epoll_event events[16];
    int count = epoll_wait(poll, events, 16, seconds_now() - busy < SPIN ? 0 : -1);
    if (count > 0) busy = seconds_now();
    for (int i = 0; i < count; i++) {
      int client = events[i].data.fd;
      if (client == listener) {
        client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0 || client >= CONNECTIONS) end_with(CANNOT, "cannot accept: %s", strerror(errno));
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        say(client, info, sizeof info - 1);
        unblock(client);
        clients[client].open = 1;
        clients[client].kept = 0;
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = client};
        epoll_ctl(poll, EPOLL_CTL_ADD, client, &event);
      } else if (clients[client].open && client != publisher) {
        if (events[i].events & ~(uint32_t)EPOLLOUT) talk(client);
      }
    }
    copy();
  }
}
