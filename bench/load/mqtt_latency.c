/* mqtt_latency: one message at a time over two hops, against any MQTT broker; the twin of latency.c.
 *
 *   mqtt_latency --port PORT [--rounds 10000] [--patience 10]
 *
 * One connection asks, the other answers, the first hears it; that is a round, and two messages of QoS 0. Prints one
 * line of JSON: p50, p99 and p999 of a round in microseconds.
 */
#define _GNU_SOURCE
#include "mqtt_packets.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

#define WARM_UP 200 /* rounds that do not count */
#define PAYLOAD 16

static size_t message(char *text, const char *topic, long round) {
  size_t n = put_head(text, 0x30, 2 + strlen(topic) + PAYLOAD);
  n += put_text(text + n, topic);
  snprintf(text + n, 32, "%0*ld", PAYLOAD, round);
  return n + PAYLOAD;
}

/* One side says it, the other hears it, and nothing else. */
static void pass(int from, int to, const char *topic, long round) {
  char wanted[128], heard[128];
  size_t length = message(wanted, topic, round), kept = 0;
  say(from, wanted, length);
  while (kept < length) {
    ssize_t more = recv(to, heard + kept, length - kept, 0);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) end_with(FAULT, "lost: the message of round %ld did not come", round);
    kept += (size_t)more;
  }
  if (memcmp(heard, wanted, length) != 0) end_with(FAULT, "lost or doubled: round %ld got another message", round);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int count, char **words) {
  static const struct option known[] = {{"port", 1, 0, 'p'}, {"rounds", 1, 0, 'r'}, {"patience", 1, 0, 'W'}, {0, 0, 0, 0}};
  long port = 0, rounds = 10000, patience = 10;
  int which, place = 0;
  while ((which = getopt_long(count, words, "", known, &place)) != -1) {
    if (which == '?') return CANNOT;
    long value = number(known[place].name, optarg, 1);
    if (which == 'p') port = value;
    if (which == 'r') rounds = value;
    if (which == 'W') patience = value;
  }
  if (port == 0) end_with(CANNOT, "mqtt_latency --port PORT [options]: see the head of mqtt_latency.c");
  int asking = dial_mqtt((int)port, (double)patience, 4, "bench-asking", "volcanoes/answer", 0);
  int answering = dial_mqtt((int)port, (double)patience, 4, "bench-answering", "volcanoes/question", 0);
  double *took = calloc((size_t)rounds, sizeof *took);
  for (long round = 0; round < rounds + WARM_UP; round++) {
    double start = seconds_now();
    pass(asking, answering, "volcanoes/question", round);
    pass(answering, asking, "volcanoes/answer", round);
    if (round >= WARM_UP) took[round - WARM_UP] = (seconds_now() - start) * 1e6;
  }
  qsort(took, (size_t)rounds, sizeof *took, ascending);
  printf("{\"p50\": %.2f, \"p99\": %.2f, \"p999\": %.2f}\n", took[rounds / 2], took[rounds * 99 / 100],
         took[rounds * 999 / 1000]);
  return 0;
}
