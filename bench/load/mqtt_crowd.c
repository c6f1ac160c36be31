/* mqtt_crowd: very many clients connect and subscribe as fast as they are let in, and then do nothing.
 *
 *   mqtt_crowd --port PORT [--clients 10000] [--at-once 100] [--patience 10]
 *
 * Each has a client id and one filter of its own. Prints one line of JSON when all have their CONNACK and SUBACK: the
 * seconds that took. Then it holds them until its standard input ends.
 */
#define _GNU_SOURCE
#include "mqtt_packets.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#define EVENTS 256
#define DUE 9 /* bytes at least: a CONNACK and a SUBACK of 3.1.1 */

static int begin(int poll, int port, double patience, long number) {
  char text[512], name[64], filter[64];
  int made = dial_silently(port, patience);
  snprintf(name, sizeof name, "sensor-%ld", number);
  snprintf(filter, sizeof filter, "sensors/%ld/commands/#", number);
  size_t length = put_connect(text, 4, name);
  length += put_subscribe(text + length, 4, filter, 0);
  say(made, text, length);
  unblock(made);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = made};
  epoll_ctl(poll, EPOLL_CTL_ADD, made, &event);
  return made;
}

int main(int count, char **words) {
  static const struct option known[] = {
      {"port", 1, 0, 'p'}, {"clients", 1, 0, 'c'}, {"at-once", 1, 0, 'o'}, {"patience", 1, 0, 'W'}, {0, 0, 0, 0}};
  long port = 0, clients = 10000, at_once = 100, patience = 10;
  int which, place = 0;
  while ((which = getopt_long(count, words, "", known, &place)) != -1) {
    if (which == '?') return CANNOT;
    long value = number(known[place].name, optarg, 1);
    if (which == 'p') port = value;
    if (which == 'c') clients = value;
    if (which == 'o') at_once = value;
    if (which == 'W') patience = value;
  }
  if (port == 0) end_with(CANNOT, "mqtt_crowd --port PORT [options]: see the head of mqtt_crowd.c");
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);

  int poll = epoll_create1(EPOLL_CLOEXEC);
  size_t *kept = calloc((size_t)files.rlim_max < 1048576 ? (size_t)files.rlim_max : 1048576, sizeof *kept);
  long begun = 0, done = 0;
  double start = seconds_now();
  while (done < clients) {
    while (begun < clients && begun - done < at_once) begin(poll, (int)port, (double)patience, begun), begun++;
    struct epoll_event events[EVENTS];
    int ready = epoll_wait(poll, events, EVENTS, (int)patience * 1000);
    if (ready == 0) end_with(FAULT, "of %ld clients %ld were let in, and no more", begun, done);
    for (int i = 0; i < ready; i++) {
      char heard[256];
      int socket = events[i].data.fd;
      ssize_t more = recv(socket, heard, sizeof heard, 0);
      if (more <= 0) end_with(FAULT, "a client was cut off");
      kept[socket] += (size_t)more;
      if (kept[socket] >= DUE) {
        kept[socket] = 0;
        epoll_ctl(poll, EPOLL_CTL_DEL, socket, NULL);
        done++;
      }
    }
  }
  printf("{\"seconds\": %.6f}\n", seconds_now() - start);
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) continue;
  return 0;
}
