/* readings: producers and subscribers of the MsgPack door.
 *
 *   readings --port PORT [--readings 100000] [--producers 1] [--connections 1] [--subscribers 1] [--rooms 1]
 *            [--rate 0] [--window 20000] [--patience 10] [--tested 0]
 *
 * Producer p is in room p % rooms, and says so with its first reading; subscriber s asks for room s % rooms, and (tested
 * 1) for values from 0 on, which all are. Then the readings go out, producer after producer, each with the time as its
 * value: so many a second, or (rate 0) as many as are taken while no more than `window` are under way. Every subscriber
 * must hear every reading of its room once, those of one producer in order. Prints one line of JSON: seconds, readings published and delivered, and p50, p95 and p99 from publishing to
 * hearing in microseconds.
 */
#define _GNU_SOURCE
#include "connection.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define IDENTITY 36
#define READING 49 /* 93 d9 24, the identity, 80 cb, eight bytes */
#define BATCH 1024 /* readings that are said at once where no rate is given */

typedef unsigned char byte;

typedef struct {
  int socket;
  byte heard[1 << 16];
  size_t kept;
  long announced, readings;
  double *last; /* value of each producer */
} Subscriber;

static struct { long port, readings, producers, connections, subscribers, rooms, rate, window, patience, tested; } options = {
    0, 100000, 1, 1, 1, 1, 0, 20000, 10, 0};
static Subscriber *subscribers;
static struct pollfd *listening;
static int *publishers;
static double *took;
static long delivered;

/* The length of the value that begins here; 0: it is not whole. Only what a subscriber is sent. */
static size_t value_length(const byte *at, const byte *end) {
  if (at >= end) return 0;
  size_t items = 0, length = 1;
  if (*at < 0x80 || *at >= 0xe0) return 1;
  if (*at >= 0xa0 && *at < 0xc0) return (size_t)(end - at) >= 1u + (*at & 31) ? 1u + (*at & 31) : 0;
  if (*at == 0xcb) return end - at >= 9 ? 9 : 0;
  if (*at == 0xd9) return end - at >= 2 && end - at >= 2 + at[1] ? 2u + at[1] : 0;
  if (*at < 0x90) items = 2u * (*at & 15);
  else if (*at < 0xa0) items = *at & 15;
  else if (*at == 0xdc) {
    if (end - at < 3) return 0;
    items = (size_t)at[1] << 8 | at[2];
    length = 3;
  } else end_with(FAULT, "the server sent an unexpected value: %02x", *at);
  while (items--) {
    size_t item = value_length(at + length, end);
    if (item == 0) return 0;
    length += item;
  }
  return length;
}

static double value_of(const byte *at) {
  uint64_t bits = 0;
  double value;
  for (int i = 0; i < 8; i++) bits = bits << 8 | at[i];
  memcpy(&value, &bits, 8);
  return value;
}

static void take_in(Subscriber *subscriber) {
  ssize_t more = recv(subscriber->socket, subscriber->heard + subscriber->kept,
                      sizeof subscriber->heard - subscriber->kept, MSG_DONTWAIT);
  if (more < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (more <= 0) end_with(FAULT, "a subscriber was cut off");
  double now = seconds_now();
  const byte *at = subscriber->heard, *end = at + subscriber->kept + more;
  size_t length;
  while ((length = value_length(at, end)) > 0) {
    if (*at == 0x81) end_with(FAULT, "the server said %.*s", (int)(length < 120 ? length : 120), at);
    if (*at == 0x93 && at[READING - 10] == 0x80) {
      double said = value_of(at + READING - 8);
      long producer = strtol((const char *)at + 3, NULL, 16);
      if (producer < 0 || producer >= options.producers) end_with(FAULT, "altered: there is no producer %ld", producer);
      if (said < subscriber->last[producer]) end_with(FAULT, "out of order, or doubled");
      subscriber->last[producer] = said;
      if (took) took[delivered] = (now - said) * 1e6;
      delivered++;
      subscriber->readings++;
    } else if (*at == 0x93) {
      subscriber->announced++;
    }
    at += length;
  }
  subscriber->kept = (size_t)(end - at);
  memmove(subscriber->heard, at, subscriber->kept);
}

static void listen_for(double seconds) {
  struct timespec wait = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  if (ppoll(listening, (nfds_t)options.subscribers, &wait, NULL) <= 0) return;
  for (long s = 0; s < options.subscribers; s++)
    if (listening[s].revents) take_in(&subscribers[s]);
}

static void name(char *identity, long producer) {
  snprintf(identity, IDENTITY + 1, "%08x-0000-4000-8000-000000000000", (unsigned)producer);
}

/* A text of up to 31 bytes, or up to 255. */
static size_t put_text(byte *at, const char *text) {
  size_t length = strlen(text), head = length < 32 ? 1 : 2;
  at[0] = length < 32 ? (byte)(0xa0 | length) : 0xd9;
  if (head == 2) at[1] = (byte)length;
  memcpy(at + head, text, length);
  return head + length;
}

static void subscribe(long s) {
  char query[64];
  byte said[80];
  snprintf(query, sizeof query, "Room = '%ld'%s", s % options.rooms, options.tested ? " AND $value >= 0" : "");
  subscribers[s].last = calloc((size_t)options.producers, sizeof *subscribers[s].last);
  subscribers[s].socket = dial_silently((int)options.port, (double)options.patience);
  say(subscribers[s].socket, (char *)said, put_text(said, query));
  listening[s] = (struct pollfd){subscribers[s].socket, POLLIN, 0};
}

static void announce(long p) {
  char identity[64], room[24];
  byte said[128], *at = said;
  name(identity, p);
  snprintf(room, sizeof room, "%ld", p % options.rooms);
  *at++ = 0x93;
  at += put_text(at, identity);
  *at++ = 0x81;
  at += put_text(at, "Room");
  at += put_text(at, room);
  *at++ = 0;
  say(publishers[p % options.connections], (char *)said, (size_t)(at - said));
}

static size_t put_reading(byte *at, long producer, double now) {
  char identity[64];
  uint64_t bits;
  name(identity, producer);
  at[0] = 0x93;
  put_text(at + 1, identity);
  at[READING - 10] = 0x80;
  at[READING - 9] = 0xcb;
  memcpy(&bits, &now, 8);
  for (int i = 0; i < 8; i++) at[READING - 1 - i] = (byte)(bits >> 8 * i);
  return READING;
}

static void await_announcements(void) {
  double deadline = seconds_now() + (double)options.patience;
  for (long s = 0; s < options.subscribers;) {
    long room = s % options.rooms;
    long expected = options.producers / options.rooms + (room < options.producers % options.rooms);
    if (subscribers[s].announced >= expected) s++;
    else if (seconds_now() > deadline) end_with(FAULT, "lost: subscriber %ld does not know all producers of its room", s);
    else listen_for(0.1);
  }
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* How many subscribers hear the first so many readings. */
static long audience(long readings) {
  long total = 0;
  for (long room = 0; room < options.rooms; room++) {
    long listeners = options.subscribers / options.rooms + (room < options.subscribers % options.rooms), said = 0;
    if (options.producers == 1) said = room == 0 ? readings : 0;
    else
      for (long p = room; p < options.producers; p += options.rooms)
        said += readings / options.producers + (p < readings % options.producers);
    total += said * listeners;
  }
  return total;
}

static void publish_at_rate(double start) {
  byte said[READING];
  for (long i = 0; i < options.readings; i++) {
    double due = start + (double)i / (double)options.rate, now;
    while ((now = seconds_now()) < due) listen_for(due - now);
    long producer = i % options.producers;
    say(publishers[producer % options.connections], (char *)said, put_reading(said, producer, seconds_now()));
    listen_for(0);
  }
}

static void publish_freely(double deadline_after) {
  static byte said[BATCH * READING];
  double moved = seconds_now();
  for (long sent = 0; sent < options.readings;) {
    long before = delivered;
    while (audience(sent) - delivered > options.window) {
      listen_for(0.1);
      if (delivered > before) moved = seconds_now(), before = delivered;
      if (seconds_now() - moved > deadline_after) end_with(FAULT, "lost: nothing comes any more");
    }
    size_t length = 0;
    long count = options.readings - sent < BATCH ? options.readings - sent : BATCH;
    double now = seconds_now();
    for (long i = 0; i < count; i++) length += put_reading(said + length, (sent + i) % options.producers, now);
    say(publishers[0], (char *)said, length);
    sent += count;
    listen_for(0);
  }
}

int main(int count, char **words) {
  static const struct option known[] = {
      {"port", 1, 0, 0},        {"readings", 1, 0, 1}, {"producers", 1, 0, 2}, {"connections", 1, 0, 3},
      {"subscribers", 1, 0, 4}, {"rooms", 1, 0, 5},    {"rate", 1, 0, 6},      {"window", 1, 0, 7},
      {"patience", 1, 0, 8},    {"tested", 1, 0, 9},   {0, 0, 0, 0}};
  long *given[] = {&options.port,  &options.readings, &options.producers, &options.connections, &options.subscribers,
                   &options.rooms, &options.rate,     &options.window,    &options.patience,
                   &options.tested};
  int which, place = 0;
  while ((which = getopt_long(count, words, "", known, &place)) != -1) {
    if (which == '?') return CANNOT;
    *given[which] = number(known[place].name, optarg, which == 6 || which == 9 ? 0 : 1);
  }
  if (options.port == 0) end_with(CANNOT, "readings --port PORT [options]: see the head of readings.c");
  if (options.rate == 0 && options.connections != 1) end_with(CANNOT, "without --rate there is one connection");

  subscribers = calloc((size_t)options.subscribers, sizeof *subscribers);
  listening = calloc((size_t)options.subscribers, sizeof *listening);
  publishers = calloc((size_t)options.connections, sizeof *publishers);
  for (long s = 0; s < options.subscribers; s++) subscribe(s);
  for (long c = 0; c < options.connections; c++)
    publishers[c] = dial_silently((int)options.port, (double)options.patience);
  for (long p = 0; p < options.producers; p++) announce(p);
  await_announcements();

  long expected = audience(options.readings);
  took = calloc((size_t)expected + 1, sizeof *took);
  double start = seconds_now();
  if (options.rate) publish_at_rate(start);
  else publish_freely((double)options.patience);
  double deadline = seconds_now() + (double)options.patience;
  while (delivered < expected) {
    listen_for(0.1);
    if (seconds_now() > deadline) end_with(FAULT, "lost: %ld of %ld readings were heard", delivered, expected);
  }
  double seconds = seconds_now() - start;
  listen_for(0.2);
  if (delivered > expected) end_with(FAULT, "doubled: %ld readings were heard, %ld were due", delivered, expected);
  qsort(took, (size_t)expected, sizeof *took, ascending);
  printf("{\"seconds\": %.6f, \"published\": %ld, \"delivered\": %ld, \"p50\": %.1f, \"p95\": %.1f, \"p99\": %.1f}\n",
         seconds, options.readings, delivered, took[expected / 2], took[expected * 95 / 100], took[expected * 99 / 100]);
  return 0;
}
