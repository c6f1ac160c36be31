/* latency: one message at a time over two hops, against any server that speaks the NATS text protocol.
 *
 *   latency --port PORT [--rounds 10000] [--patience 10] [--answering-port PORT]
 *
 * One connection asks, the other answers, the first hears it; that is a round, and two messages. Every message is
 * numbered, and must be heard once. Prints one line of JSON: p50, p99 and p999 of a round in microseconds.
 */
#define _GNU_SOURCE
#include "connection.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define WARM_UP 200 /* rounds that do not count */

typedef struct {
  int socket;
  const char *hears, *says; /* topics */
  char heard[4096];
  size_t kept;
} Side;

static void open_side(Side *side, int port, double patience) {
  char text[128];
  int length = snprintf(text, sizeof text, "SUB %s 1\r\n", side->hears);
  side->socket = dial(port, patience);
  say(side->socket, text, (size_t)length);
  settle(side->socket);
}

static void publish(Side *side, long round) {
  char text[128];
  int length = snprintf(text, sizeof text, "PUB %s 16\r\n%016ld\r\n", side->says, round);
  say(side->socket, text, (size_t)length);
}

/* Waits for the message of this round, the next that may come. */
static void await(Side *side, long round) {
  char wanted[128];
  size_t length = (size_t)snprintf(wanted, sizeof wanted, "MSG %s 1 16\r\n%016ld\r\n", side->hears, round);
  for (;;) {
    if (side->kept >= 4 && memcmp(side->heard, "MSG ", 4) == 0) {
      if (side->kept >= length) {
        if (memcmp(side->heard, wanted, length) != 0)
          end_with(FAULT, "lost or doubled: round %ld got another message", round);
        memmove(side->heard, side->heard + length, side->kept -= length);
        return;
      }
    } else if (side->kept >= 4) {
      size_t line = pass_over(side->socket, side->heard, side->kept);
      memmove(side->heard, side->heard + line, side->kept -= line);
      if (line > 0) continue;
    }
    ssize_t more = recv(side->socket, side->heard + side->kept, sizeof side->heard - side->kept, 0);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) end_with(FAULT, "lost: the message of round %ld did not come: %s", round, strerror(errno));
    if (more == 0) end_with(FAULT, "the server closed a connection");
    side->kept += (size_t)more;
  }
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int count, char **words) {
  static const struct option known[] = {
      {"port", 1, 0, 'p'}, {"rounds", 1, 0, 'r'}, {"patience", 1, 0, 'W'}, {"answering-port", 1, 0, 'a'},
      {0, 0, 0, 0}};
  long port = 0, answering_port = 0, rounds = 10000, patience = 10;
  int which, place = 0;
  while ((which = getopt_long(count, words, "", known, &place)) != -1) {
    if (which == '?') return CANNOT;
    long value = number(known[place].name, optarg, 1);
    if (which == 'p') port = value;
    if (which == 'a') answering_port = value;
    if (which == 'r') rounds = value;
    if (which == 'W') patience = value;
  }
  if (port == 0) end_with(CANNOT, "latency --port PORT [options]: see the head of latency.c");

  static Side asking = {.hears = "volcanoes.answer", .says = "volcanoes.question"};
  static Side answering = {.hears = "volcanoes.question", .says = "volcanoes.answer"};
  open_side(&asking, (int)port, (double)patience);
  open_side(&answering, (int)(answering_port ? answering_port : port), (double)patience);
  if (answering_port) nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL); /* to become known on the other node */
  double *took = calloc((size_t)rounds, sizeof *took);
  for (long round = -WARM_UP; round < rounds; round++) {
    double start = seconds_now();
    publish(&asking, round);
    await(&answering, round);
    publish(&answering, round);
    await(&asking, round);
    if (round >= 0) took[round] = (seconds_now() - start) * 1e6;
  }
  settle(asking.socket);
  settle(answering.socket);
  qsort(took, (size_t)rounds, sizeof *took, ascending);
  printf("{\"p50\": %.2f, \"p99\": %.2f, \"p999\": %.2f}\n", took[rounds / 2], took[rounds * 99 / 100],
         took[rounds * 999 / 1000]);
  return 0;
}
