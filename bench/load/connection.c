#define _GNU_SOURCE
#include "connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SHOWN 80 /* bytes of the server's text in a sentence */

void end_with(int status, const char *sentence, ...) {
  va_list values;
  va_start(values, sentence);
  vfprintf(stderr, sentence, values);
  va_end(values);
  fputc('\n', stderr);
  exit(status);
}

double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int dial(int port, double patience) {
  static const char connect_line[] = "CONNECT {\"verbose\":false,\"pedantic\":false,\"protocol\":1,\"headers\":true}\r\n";
  int made = dial_silently(port, patience);
  say(made, connect_line, sizeof connect_line - 1);
  return made;
}

int dial_silently(int port, double patience) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  struct timeval wait = {.tv_sec = (long)patience, .tv_usec = (long)((patience - (double)(long)patience) * 1e6)};
  int on = 1, made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (made < 0 || connect(made, (struct sockaddr *)&address, sizeof address) != 0)
    end_with(CANNOT, "no connection to port %d: %s", port, strerror(errno));
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  return made;
}

static void set_blocking(int socket, int blocking) {
  int flags = fcntl(socket, F_GETFL);
  fcntl(socket, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

void unblock(int socket) { set_blocking(socket, 0); }

void say(int socket, const char *text, size_t length) {
  while (length > 0) {
    ssize_t said = send(socket, text, length, MSG_NOSIGNAL);
    if (said < 0 && errno == EINTR) continue;
    if (said < 0) end_with(FAULT, "the server does not take what it is sent: %s", strerror(errno));
    text += said;
    length -= (size_t)said;
  }
}

void settle(int socket) {
  char heard[65536];
  size_t kept = 0;
  set_blocking(socket, 1);
  say(socket, "PING\r\n", 6);
  for (;;) {
    ssize_t more = recv(socket, heard + kept, sizeof heard - kept, 0);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) end_with(FAULT, "no PONG: %s", errno == EAGAIN ? "the server is silent" : strerror(errno));
    if (more == 0) end_with(FAULT, "the server closed a connection that waited for its PONG");
    kept += (size_t)more;
    size_t at = 0, line;
    while (at < kept) {
      if (kept - at >= 4 && memcmp(heard + at, "MSG ", 4) == 0)
        end_with(FAULT, "doubled: a message came after the last");
      if (kept - at >= 6 && memcmp(heard + at, "PONG\r\n", 6) == 0) return;
      line = pass_over(socket, heard + at, kept - at);
      if (line == 0) break;
      at += line;
    }
    memmove(heard, heard + at, kept -= at);
  }
}

size_t pass_over(int socket, const char *text, size_t length) {
  const char *end = memchr(text, '\n', length);
  if (end == NULL) {
    if (length >= 4096) end_with(FAULT, "the server sent something else than the protocol: %.*s", SHOWN, text);
    return 0;
  }
  size_t line = (size_t)(end - text) + 1;
  if (memcmp(text, "PING", 4) == 0) {
    say(socket, "PONG\r\n", 6);
  } else if (memcmp(text, "INFO", 4) != 0 && memcmp(text, "+OK\r", 4) != 0 && memcmp(text, "PONG", 4) != 0) {
    end_with(FAULT, "the server said %.*s", (int)(line < SHOWN ? line - 1 : SHOWN), text);
  }
  return line;
}

long number(const char *option, const char *text, long least) {
  char *end;
  long value = strtol(text, &end, 10);
  if (*text == 0 || *end != 0 || value < least) end_with(CANNOT, "--%s takes a number of at least %ld", option, least);
  return value;
}
