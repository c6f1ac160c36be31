/* load: publishers and consumers in one process, against any server that speaks the NATS text protocol.
 *
 *   load --port PORT [--publishers 1] [--consumers 1] [--messages 1000000] [--size 16] [--topics 100]
 *        [--pattern 'volcanoes.>'] [--group NAME] [--window 20000] [--patience 10]
 *        [--churn 'PATTERN'] [--churn-rate 1000] [--consumer-port PORT] [--producer UUID] [--changes 0]
 *        [--ready-made]
 *
 * Every message is numbered: its payload begins with the publisher and a sequence number, eight bytes. A consumer
 * must hear each publisher's numbers one after another; a group together must hear each once. So a message that is
 * lost, doubled or out of order is noticed as such, even where the sums would come out right.
 *
 * It has to be quicker than what it measures. All frames have one length, so a consumer looks at fixed places only:
 * the four first bytes, the number, the line end. A publisher has one chunk of ready-made frames, in which only
 * topic digits and numbers are written anew before it is sent again; both stay in the cache. At most `window`
 * messages are under way, so no server has reason to drop one.
 *
 * --churn adds a connection that subscribes and at once unsubscribes, so many times a second, evenly. A `%07ld` in its
 * pattern becomes the number of one topic after another.
 *
 * --consumer-port is for clusters: consumers are on another node than publishers. They get half a second to become
 * known there, which not every server waits for by itself.
 *
 * --producer makes readings of the messages: each has the header `Producer`. With --changes N each has `Metadata` too, with one
 * key, which every Nth message changes.
 *
 * --ready-made is for relay.c: what is published is MSG frames, as the consumer gets them.
 *
 * Prints one line of JSON: seconds, published, delivered, changes (subscribes of the churn).
 */
#define _GNU_SOURCE
#include "connection.h"

#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define PREFIX "volcanoes.kenya."
#define SUFFIX ".east"
#define DIGITS 7
#define CHUNK 65536
#define HEARING 262144 /* bytes of a consumer's buffer, and more where two frames are */
#define LEVEL_DIGITS 9
#define EVENTS 64
#define SPIN 20e-6 /* seconds without progress before it sleeps: waking it would cost the server more than that */
#define SEQUENCE_BITS 48
#define SEQUENCE_MASK ((1ULL << SEQUENCE_BITS) - 1)

static struct {
  int port, consumer_port;
  long publishers, consumers, messages, size, topics, window;
  double patience;
  const char *pattern, *group, *churn;
  double churn_rate;
  const char *producer;
  long changes;
  int ready_made;
} options = {0, 0, 1, 1, 1000000, 16, 100, 20000, 10, "volcanoes.>", "", NULL, 1000, NULL, 0, 0};

typedef struct {
  int socket;
  char *chunk;
  size_t at, end;  /* what of the chunk is still to be sent */
  long published;  /* messages put into the chunk so far */
  int blocked;
} Publisher;

typedef struct {
  int socket;
  char *heard;
  size_t kept;
  long delivered;
  uint64_t *expected;  /* for each publisher, the next number */
} Consumer;

static Publisher *publishers;
static Consumer *consumers;
static uint8_t **seen;  /* with a group: for each publisher, a bit for each number */
static size_t frame, topic_place, number_place;               /* of a PUB */
static size_t level_place;                                    /* of the digits that change in the metadata; 0: none do */
static size_t heard_frame, heard_number_place, hearing;       /* of a MSG; bytes of a consumer's buffer */
static char block[256];                                       /* of headers */
static size_t block_length;
static long chunk_frames, each;                               /* each: messages of one publisher */
static long published, delivered_together;
static double last_progress;

static struct {
  int socket;
  long changes;
  double next;
} churn = {-1, 0, 0};

/* Publishers. */

static void make_block(void) {
  if (options.producer == NULL) return;
  int length = snprintf(block, sizeof block, "NATS/1.0\r\nProducer: %s\r\n", options.producer);
  if (options.changes) {
    level_place = (size_t)length + strlen("Metadata: {\"Level\": ");
    length += snprintf(block + length, sizeof block - (size_t)length, "Metadata: {\"Level\": 1%0*d}\r\n", LEVEL_DIGITS - 1, 0);
  }
  length += snprintf(block + length, sizeof block - (size_t)length, "\r\n");
  block_length = (size_t)length;
}

static void make_chunk(Publisher *publisher) {
  char head[512];
  const char *verb = block_length ? "HPUB " : options.ready_made ? "MSG " : "PUB ";
  int length = snprintf(head, sizeof head, "%s" PREFIX "%0*d" SUFFIX "%s", verb, DIGITS, 0, options.ready_made ? " 1" : "");
  if (block_length) length += snprintf(head + length, sizeof head - (size_t)length, " %zu", block_length);
  length += snprintf(head + length, sizeof head - (size_t)length, " %zu\r\n", block_length + (size_t)options.size);
  size_t block_place = (size_t)length;
  memcpy(head + length, block, block_length);
  length += (int)block_length;
  frame = (size_t)length + (size_t)options.size + 2;
  topic_place = strlen(verb) + strlen(PREFIX);
  number_place = (size_t)length;
  if (options.changes) level_place += block_place;
  chunk_frames = (long)(CHUNK / frame);
  if (chunk_frames > options.window / 4) chunk_frames = options.window / 4;
  if (chunk_frames < 1) chunk_frames = 1;
  publisher->chunk = malloc(frame * (size_t)chunk_frames);
  for (long i = 0; i < chunk_frames; i++) {
    char *at = publisher->chunk + (size_t)i * frame;
    memcpy(at, head, (size_t)length);
    memset(at + length, 'x', (size_t)options.size);
    memcpy(at + length + options.size, "\r\n", 2);
  }
}

static void next_topic(char *digits) {
  for (int at = DIGITS - 1; at >= 0 && ++digits[at] > '9'; at--) digits[at] = '0';
}

static void fill_chunk(Publisher *publisher, long count) {
  char digits[24];
  long topic = publisher->published % options.topics;
  uint64_t number = ((uint64_t)(publisher - publishers) << SEQUENCE_BITS) + (uint64_t)publisher->published;
  char *at = publisher->chunk;
  snprintf(digits, sizeof digits, "%0*ld", DIGITS, topic);
  for (long i = 0; i < count; i++, at += frame, number++) {
    memcpy(at + topic_place, digits, DIGITS);
    memcpy(at + number_place, &number, sizeof number);
    if (options.changes) {
      char level[24];
      snprintf(level, sizeof level, "1%0*ld", LEVEL_DIGITS - 1, (publisher->published + i) / options.changes % 100000000);
      memcpy(at + level_place, level, LEVEL_DIGITS);
    }
    if (++topic == options.topics) {
      topic = 0;
      memset(digits, '0', DIGITS);
    } else {
      next_topic(digits);
    }
  }
  publisher->at = 0;
  publisher->end = (size_t)count * frame;
  publisher->published += count;
  published += count;
}

static long heard_by_all(void) {
  if (options.consumers == 0) return published;
  if (*options.group) return delivered_together;
  long least = consumers[0].delivered;
  for (long i = 1; i < options.consumers; i++)
    if (consumers[i].delivered < least) least = consumers[i].delivered;
  return least;
}

/* True: something was sent. */
static int publish_some(Publisher *publisher) {
  if (publisher->blocked) return 0;
  if (publisher->at == publisher->end) {
    long count = each - publisher->published;
    if (count > chunk_frames) count = chunk_frames;
    if (count == 0 || published - heard_by_all() + count > options.window) return 0;
    fill_chunk(publisher, count);
  }
  const char *rest = publisher->chunk + publisher->at;
  ssize_t sent = send(publisher->socket, rest, publisher->end - publisher->at, MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno != EAGAIN && errno != EINTR) end_with(FAULT, "a publisher was cut off: %s", strerror(errno));
    publisher->blocked = errno == EAGAIN;
    return 0;
  }
  publisher->at += (size_t)sent;
  return 1;
}

/* Consumers. */

static void note(Consumer *consumer, uint64_t number) {
  uint64_t from = number >> SEQUENCE_BITS, sequence = number & SEQUENCE_MASK;
  if (from >= (uint64_t)options.publishers || sequence >= (uint64_t)each)
    end_with(FAULT, "altered: a message has a number that nobody gave it");
  if (*options.group) {
    uint8_t *place = &seen[from][sequence / 8], bit = (uint8_t)(1 << sequence % 8);
    if (*place & bit) end_with(FAULT, "doubled: message %lu of publisher %lu went to two of the group", sequence, from);
    *place |= bit;
    return;
  }
  if (sequence > consumer->expected[from])
    end_with(FAULT, "lost: message %lu of publisher %lu; after it came %lu", consumer->expected[from], from, sequence);
  if (sequence < consumer->expected[from])
    end_with(FAULT, "doubled: message %lu of publisher %lu came again or too late", sequence, from);
  consumer->expected[from]++;
}

static void take_in(Consumer *consumer) {
  const char *at = consumer->heard, *end = at + consumer->kept;
  long count = 0;
  const char *verb = block_length ? "HMSG" : "MSG ";
  while ((size_t)(end - at) >= 4) {
    if (memcmp(at, verb, 4) == 0) {
      uint64_t number;
      if ((size_t)(end - at) < heard_frame) break;
      if (memcmp(at + heard_frame - 2, "\r\n", 2) != 0)
        end_with(FAULT, "altered: a message has not the length it should");
      memcpy(&number, at + heard_number_place, sizeof number);
      note(consumer, number);
      at += heard_frame;
      count++;
    } else {
      size_t line = pass_over(consumer->socket, at, (size_t)(end - at));
      if (line == 0) break;
      at += line;
    }
  }
  consumer->delivered += count;
  delivered_together += count;
  consumer->kept = (size_t)(end - at);
  memmove(consumer->heard, at, consumer->kept);
}

static void hear(Consumer *consumer) {
  ssize_t more = recv(consumer->socket, consumer->heard + consumer->kept, hearing - consumer->kept, 0);
  if (more == 0) end_with(FAULT, "a consumer was cut off");
  if (more < 0) {
    if (errno != EAGAIN && errno != EINTR) end_with(FAULT, "a consumer was cut off: %s", strerror(errno));
    return;
  }
  consumer->kept += (size_t)more;
  take_in(consumer);
}

/* What comes for a publisher, or for the churn, is read and forgotten, unless it is an error. */
static void hear_aside(int socket) {
  char text[65536];
  ssize_t length = recv(socket, text, sizeof text, MSG_DONTWAIT);
  if (length == 0) end_with(FAULT, "a publisher was cut off");
  for (ssize_t at = 0; at + 6 <= length; at++) {
    if (at > 0 && text[at - 1] != '\n') continue;
    if (memcmp(text + at, "-ERR", 4) == 0 || memcmp(text + at, "PING\r\n", 6) == 0)
      pass_over(socket, text + at, (size_t)(length - at));
  }
}

/* Churn. */

static void change_subscriptions(void) {
  char text[16384];
  size_t length = 0;
  double now = seconds_now();
  while (churn.next <= now && length < sizeof text - 1024) {
    char pattern[256];
    long sid = ++churn.changes;
    /* The one conversion in the pattern was counted when the options were read. */
    snprintf(pattern, sizeof pattern, options.churn, sid % options.topics);
    length += (size_t)snprintf(text + length, sizeof text - length, "SUB %s %ld\r\nUNSUB %ld\r\n", pattern, sid, sid);
    churn.next += 1 / options.churn_rate;
  }
  say(churn.socket, text, length);
}

/* The run. */

static void open_consumer(Consumer *consumer) {
  char text[512];
  int length = snprintf(text, sizeof text, "SUB %s %s 1\r\n", options.pattern, options.group);
  consumer->socket = dial(options.consumer_port ? options.consumer_port : options.port, options.patience);
  say(consumer->socket, text, (size_t)length);
  settle(consumer->socket);
  unblock(consumer->socket);
  consumer->expected = calloc((size_t)options.publishers, sizeof *consumer->expected);
  length = snprintf(text, sizeof text, "%s " PREFIX "%0*d" SUFFIX " 1", block_length ? "HMSG" : "MSG", DIGITS, 0);
  if (block_length) length += snprintf(text + length, sizeof text - (size_t)length, " %zu", block_length);
  length += snprintf(text + length, sizeof text - (size_t)length, " %zu\r\n", block_length + (size_t)options.size);
  heard_number_place = (size_t)length + block_length;
  heard_frame = heard_number_place + (size_t)options.size + 2;
  hearing = 2 * heard_frame > HEARING ? 2 * heard_frame : HEARING;
  consumer->heard = malloc(hearing);
}

static int open_all(void) {
  int poll = epoll_create1(EPOLL_CLOEXEC);
  publishers = calloc((size_t)options.publishers, sizeof *publishers);
  consumers = calloc((size_t)options.consumers + 1, sizeof *consumers);
  seen = calloc((size_t)options.publishers, sizeof *seen);
  for (long i = 0; i < options.consumers; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)(options.publishers + i)};
    open_consumer(&consumers[i]);
    epoll_ctl(poll, EPOLL_CTL_ADD, consumers[i].socket, &event);
  }
  if (options.consumer_port) nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
  for (long i = 0; i < options.publishers; i++) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u64 = (uint64_t)i};
    publishers[i].socket = dial(options.port, options.patience);
    settle(publishers[i].socket);
    unblock(publishers[i].socket);
    make_chunk(&publishers[i]);
    if (*options.group) seen[i] = calloc((size_t)each / 8 + 1, 1);
    epoll_ctl(poll, EPOLL_CTL_ADD, publishers[i].socket, &event);
  }
  if (options.churn != NULL) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)(options.publishers + options.consumers)};
    churn.socket = dial(options.port, options.patience);
    settle(churn.socket);
    churn.next = seconds_now();
    epoll_ctl(poll, EPOLL_CTL_ADD, churn.socket, &event);
  }
  return poll;
}

static void attend(int poll, int timeout) {
  struct epoll_event events[EVENTS];
  int count = epoll_wait(poll, events, EVENTS, timeout);
  for (int i = 0; i < count; i++) {
    long who = (long)events[i].data.u64;
    if (who < options.publishers) {
      if (events[i].events & EPOLLOUT) publishers[who].blocked = 0;
      if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) hear_aside(publishers[who].socket);
    } else if (who < options.publishers + options.consumers) {
      hear(&consumers[who - options.publishers]);
    } else {
      hear_aside(churn.socket);
    }
  }
}

static int finished(void) {
  if (published < each * options.publishers || heard_by_all() < published) return 0;
  for (long i = 0; i < options.publishers; i++)
    if (publishers[i].at < publishers[i].end) return 0;
  return 1;
}

static double run(int poll) {
  double start = last_progress = seconds_now();
  long progress = 0;
  while (!finished()) {
    int sent = 0;
    for (long i = 0; i < options.publishers; i++) sent |= publish_some(&publishers[i]);
    if (options.churn != NULL) change_subscriptions();
    int busy = sent || seconds_now() - last_progress < SPIN;
    attend(poll, busy ? 0 : options.churn != NULL ? 1 : 50);
    if (sent || delivered_together != progress) {
      progress = delivered_together;
      last_progress = seconds_now();
    } else if (seconds_now() - last_progress > options.patience) {
      if (published > heard_by_all())
        end_with(FAULT, "lost: of %ld messages published, %ld came, and no more for %.1f s", published, heard_by_all(),
                 options.patience);
      end_with(FAULT, "the server takes no more messages");
    }
  }
  if (options.consumers == 0)
    for (long i = 0; i < options.publishers; i++) settle(publishers[i].socket);
  double took = seconds_now() - start;
  for (long i = 0; i < options.consumers; i++) {
    if (consumers[i].kept > 0) end_with(FAULT, "doubled: something came after the last message");
    settle(consumers[i].socket);
  }
  return took;
}

static void read_options(int count, char **words) {
  static const struct option known[] = {
      {"port", 1, 0, 'p'},    {"publishers", 1, 0, 'P'}, {"consumers", 1, 0, 'C'}, {"messages", 1, 0, 'm'},
      {"size", 1, 0, 's'},    {"topics", 1, 0, 't'},     {"pattern", 1, 0, 'a'},   {"group", 1, 0, 'g'},
      {"window", 1, 0, 'w'},  {"patience", 1, 0, 'W'},   {"churn", 1, 0, 'c'},     {"churn-rate", 1, 0, 'r'},
      {"consumer-port", 1, 0, 'o'}, {"producer", 1, 0, 'd'},  {"changes", 1, 0, 'D'},
      {"ready-made", 0, 0, 'R'},
      {0, 0, 0, 0},
  };
  int which, place = 0;
  while ((which = getopt_long(count, words, "", known, &place)) != -1) {
    if (which == '?') exit(CANNOT);
    const char *name = known[place].name;
    switch (which) {
      case 'p': options.port = (int)number(name, optarg, 1); break;
      case 'o': options.consumer_port = (int)number(name, optarg, 1); break;
      case 'd': options.producer = optarg; break;
      case 'D': options.changes = number(name, optarg, 0); break;
      case 'R': options.ready_made = 1; break;
      case 'P': options.publishers = number(name, optarg, 1); break;
      case 'C': options.consumers = number(name, optarg, 0); break;
      case 'm': options.messages = number(name, optarg, 1); break;
      case 's': options.size = number(name, optarg, 8); break;
      case 't': options.topics = number(name, optarg, 1); break;
      case 'a': options.pattern = optarg; break;
      case 'g': options.group = optarg; break;
      case 'w': options.window = number(name, optarg, 4); break;
      case 'W': options.patience = (double)number(name, optarg, 1); break;
      case 'c': options.churn = optarg; break;
      case 'r': options.churn_rate = (double)number(name, optarg, 1); break;
    }
  }
  if (options.port == 0 || optind < count) end_with(CANNOT, "load --port PORT [options]: see the head of load.c");
  if (options.topics > 10000000) end_with(CANNOT, "--topics takes at most ten million");
  if (options.churn != NULL) {
    const char *first = strchr(options.churn, '%');
    if (first != NULL && (strncmp(first, "%07ld", 5) != 0 || strchr(first + 1, '%') != NULL))
      end_with(CANNOT, "--churn takes a pattern with at most one %%07ld");
  }
}

int main(int count, char **words) {
  read_options(count, words);
  make_block();
  each = options.messages / options.publishers;
  if (options.producer != NULL && options.ready_made) end_with(CANNOT, "--ready-made is for messages without a producer");
  if (options.publishers > 1 && options.changes) end_with(CANNOT, "--changes is for one publisher");
  if (each == 0) end_with(CANNOT, "fewer messages than publishers");
  double took = run(open_all());
  long heard = options.consumers == 0 ? 0 : delivered_together;
  printf("{\"seconds\": %.6f, \"published\": %ld, \"delivered\": %ld, \"changes\": %ld}\n", took, published, heard,
         churn.changes);
  return 0;
}
