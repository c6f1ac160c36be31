/* mqtt: publishers and consumers in one process, against any MQTT broker; the twin of load.c.
 *
 *   mqtt --port PORT [--version 4] [--publishers 1] [--consumers 1] [--messages 100000] [--size 16] [--topics 100]
 *        [--qos 0] [--group NAME] [--window 2000] [--rate 0] [--patience 10]
 *
 * Every message is numbered: its payload begins with the publisher and a sequence number, eight bytes. A consumer must
 * hear each publisher's numbers in order. At most `window` messages are under way, so no broker has reason to drop one,
 * and one that is missing is a fault. With QoS 1 consumers subscribe with it too, and both hops are acknowledged.
 *
 * With --rate there is no window: so many messages a second are sent, evenly, and what is missing half a second after
 * the last one came is lost. That is no fault, but a result.
 *
 * Prints one line of JSON: seconds, published, delivered (by the consumer that heard least; in a group, together).
 */
#define _GNU_SOURCE
#include "mqtt_packets.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define TOPIC "volcanoes/kenya/%07ld/east"
#define DIGITS_AT 16 /* in the topic */
#define DIGITS 7
#define CHUNK 65536
#define HEARING 262144
#define SEQUENCE_BITS 48
#define QUIET 0.5 /* seconds after which nothing more is awaited, with --rate */

static struct {
  int port, version;
  long publishers, consumers, messages, size, topics, qos, window, rate;
  double patience;
  const char *group;
} options = {0, 4, 1, 1, 100000, 16, 100, 0, 2000, 0, 10, ""};

typedef struct {
  int socket;
  char *chunk;
  size_t at, end;
  long published, acknowledged;
  char heard[CHUNK];
  size_t kept;
} Publisher;

typedef struct {
  int socket;
  char *heard;
  size_t kept;
  char *answers;
  size_t to_answer;
  long delivered;
  uint64_t *expected;
} Consumer;

static Publisher *publishers;
static Consumer *consumers;
static size_t frame, head, number_at;
static long each, chunk_frames;
static double began, last_heard;

static void fill(Publisher *publisher, long count) {
  char digits[24];
  char *at = publisher->chunk;
  for (long i = 0; i < count; i++, at += frame) {
    uint64_t number = ((uint64_t)(publisher - publishers) << SEQUENCE_BITS) + (uint64_t)publisher->published;
    snprintf(digits, sizeof digits, "%0*ld", DIGITS, publisher->published % options.topics);
    memcpy(at + head + 2 + DIGITS_AT, digits, DIGITS);
    memcpy(at + number_at, &number, sizeof number);
    if (options.qos) {
      long packet = publisher->published % 65535 + 1;
      char *place = at + number_at - 2 - (options.version == 5);
      place[0] = (char)(packet >> 8);
      place[1] = (char)packet;
    }
    publisher->published++;
  }
  publisher->at = 0;
  publisher->end = (size_t)count * frame;
}

static void make_publisher(Publisher *publisher) {
  char topic[64], name[64];
  snprintf(topic, sizeof topic, TOPIC, 0L);
  snprintf(name, sizeof name, "bench-publisher-%ld", (long)(publisher - publishers));
  publisher->socket = dial_mqtt(options.port, options.patience, options.version, name, NULL, 0);
  unblock(publisher->socket);
  size_t middle = 2 + strlen(topic) + (options.qos ? 2 : 0) + (options.version == 5);
  char text[512];
  head = put_head(text, 0x30 | (int)options.qos << 1, middle + (size_t)options.size);
  put_text(text + head, topic);
  number_at = head + middle;
  if (options.version == 5) text[number_at - 1] = 0; /* no properties */
  frame = number_at + (size_t)options.size;
  chunk_frames = CHUNK / (long)frame;
  if (!options.rate && chunk_frames > options.window / 4) chunk_frames = options.window / 4;
  if (chunk_frames < 1) chunk_frames = 1;
  publisher->chunk = malloc(frame * (size_t)chunk_frames);
  for (long i = 0; i < chunk_frames; i++) {
    memcpy(publisher->chunk + (size_t)i * frame, text, number_at);
    memset(publisher->chunk + (size_t)i * frame + number_at, 'x', (size_t)options.size);
  }
}

static long heard_by_all(void) {
  long heard = 0;
  if (options.consumers == 0) return -1;
  for (long i = 0; i < options.consumers; i++) {
    if (*options.group) heard += consumers[i].delivered;
    else if (i == 0 || consumers[i].delivered < heard) heard = consumers[i].delivered;
  }
  return heard;
}

static long published_by_all(void) {
  long published = 0;
  for (long i = 0; i < options.publishers; i++) published += publishers[i].published;
  return published;
}

/* What a publisher hears: its PUBACKs. */
static void hear_aside(Publisher *publisher) {
  ssize_t more = recv(publisher->socket, publisher->heard + publisher->kept, sizeof publisher->heard - publisher->kept, MSG_DONTWAIT);
  if (more == 0) end_with(FAULT, "a publisher was cut off");
  if (more < 0) return;
  publisher->kept += (size_t)more;
  size_t at = 0, length;
  while ((length = packet_length(publisher->heard + at, publisher->kept - at)) && length <= publisher->kept - at) {
    if ((unsigned char)publisher->heard[at] != 0x40) end_with(FAULT, "a publisher heard %#x", (unsigned char)publisher->heard[at]);
    publisher->acknowledged++;
    at += length;
  }
  memmove(publisher->heard, publisher->heard + at, publisher->kept -= at);
}

static int publish_some(Publisher *publisher) {
  if (publisher->at == publisher->end) {
    long count = each - publisher->published, published = published_by_all(), under_way;
    if (options.rate) {
      long due = (long)((seconds_now() - began) * (double)options.rate / (double)options.publishers) - publisher->published;
      if (count > due) count = due;
    } else {
      under_way = options.consumers ? published - heard_by_all() : 0;
      if (options.qos && publisher->published - publisher->acknowledged > under_way)
        under_way = publisher->published - publisher->acknowledged;
      if (count > options.window - under_way) count = options.window - under_way;
      if (count < chunk_frames && count < each - publisher->published) count = 0;
    }
    if (count > chunk_frames) count = chunk_frames;
    if (count <= 0) return 0;
    fill(publisher, count);
  }
  ssize_t sent = send(publisher->socket, publisher->chunk + publisher->at, publisher->end - publisher->at, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) end_with(FAULT, "a publisher was cut off: %s", strerror(errno));
  if (sent > 0) publisher->at += (size_t)sent;
  return sent > 0;
}

static void make_consumer(Consumer *consumer) {
  char name[64], filter[128];
  snprintf(name, sizeof name, "bench-consumer-%ld", (long)(consumer - consumers));
  snprintf(filter, sizeof filter, *options.group ? "$share/%s/volcanoes/#" : "%svolcanoes/#", options.group);
  consumer->socket = dial_mqtt(options.port, options.patience, options.version, name, filter, (int)options.qos);
  unblock(consumer->socket);
  consumer->heard = malloc(HEARING);
  consumer->answers = malloc(HEARING);
  consumer->expected = calloc((size_t)options.publishers, sizeof(uint64_t));
}

static void note(Consumer *consumer, const char *at, size_t length) {
  uint64_t number;
  if (length != frame || ((unsigned char)at[0] & 0xF6) != (0x30 | (int)options.qos << 1))
    end_with(FAULT, "a consumer heard something else than a message: %#x, %zu bytes", (unsigned char)at[0], length);
  memcpy(&number, at + number_at, sizeof number);
  uint64_t from = number >> SEQUENCE_BITS, sequence = number & ((1ULL << SEQUENCE_BITS) - 1);
  if (from >= (uint64_t)options.publishers) end_with(FAULT, "altered: a message has a number that nobody gave it");
  if (sequence < consumer->expected[from]) end_with(FAULT, "doubled, or out of order: %lu", (unsigned long)sequence);
  if (sequence > consumer->expected[from] && !options.rate && !*options.group)
    end_with(FAULT, "lost: %lu came where %lu was due", (unsigned long)sequence, (unsigned long)consumer->expected[from]);
  consumer->expected[from] = sequence + 1;
  consumer->delivered++;
  if (options.qos) {
    const char *packet = at + number_at - 2 - (options.version == 5);
    char *answer = consumer->answers + consumer->to_answer;
    answer[0] = 0x40;
    answer[1] = 2;
    answer[2] = packet[0];
    answer[3] = packet[1];
    consumer->to_answer += 4;
  }
}

/* True: something came. */
static int hear(Consumer *consumer) {
  if (consumer->to_answer) {
    ssize_t sent = send(consumer->socket, consumer->answers, consumer->to_answer, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) memmove(consumer->answers, consumer->answers + sent, consumer->to_answer -= (size_t)sent);
    if (consumer->to_answer > HEARING / 2) return 0;
  }
  ssize_t more = recv(consumer->socket, consumer->heard + consumer->kept, HEARING - consumer->kept, MSG_DONTWAIT);
  if (more == 0) end_with(FAULT, "a consumer was cut off");
  if (more < 0) return 0;
  consumer->kept += (size_t)more;
  size_t at = 0, length;
  while ((length = packet_length(consumer->heard + at, consumer->kept - at)) && length <= consumer->kept - at) {
    note(consumer, consumer->heard + at, length);
    at += length;
  }
  memmove(consumer->heard, consumer->heard + at, consumer->kept -= at);
  last_heard = seconds_now();
  return 1;
}

static int finished(void) {
  if (published_by_all() < each * options.publishers) return 0;
  for (long i = 0; i < options.publishers; i++)
    if (publishers[i].at < publishers[i].end || (options.qos && publishers[i].acknowledged < each)) return 0;
  return options.consumers == 0 || heard_by_all() >= published_by_all();
}

static void wait_for_any(int milliseconds) {
  struct pollfd sockets[512];
  nfds_t count = 0;
  for (long i = 0; i < options.publishers && count < 256; i++)
    sockets[count++] = (struct pollfd){publishers[i].socket, POLLIN, 0};
  for (long i = 0; i < options.consumers && count < 512; i++)
    sockets[count++] = (struct pollfd){consumers[i].socket, POLLIN, 0};
  poll(sockets, count, milliseconds);
}

static double run(void) {
  double progress = began = last_heard = seconds_now();
  while (!finished()) {
    int busy = 0;
    for (long i = 0; i < options.publishers; i++) {
      busy |= publish_some(&publishers[i]);
      hear_aside(&publishers[i]);
    }
    for (long i = 0; i < options.consumers; i++) busy |= hear(&consumers[i]);
    double now = seconds_now();
    if (busy) progress = now;
    else if (options.rate && published_by_all() >= each * options.publishers && now - last_heard > QUIET) break;
    else if (now - progress > options.patience)
      end_with(FAULT, "lost: of %ld messages published, %ld came, and no more", published_by_all(), heard_by_all());
    else if (now - progress > 20e-6) wait_for_any(1);
  }
  return (options.rate ? last_heard : seconds_now()) - began;
}

int main(int count, char **words) {
  static const struct option known[] = {
      {"port", 1, 0, 'p'}, {"version", 1, 0, 'v'}, {"publishers", 1, 0, 'P'}, {"consumers", 1, 0, 'C'},
      {"messages", 1, 0, 'm'}, {"size", 1, 0, 's'}, {"topics", 1, 0, 't'}, {"qos", 1, 0, 'q'},
      {"group", 1, 0, 'g'}, {"window", 1, 0, 'w'}, {"rate", 1, 0, 'r'}, {"patience", 1, 0, 'W'}, {0, 0, 0, 0}};
  int which, place = 0;
  while ((which = getopt_long(count, words, "", known, &place)) != -1) {
    const char *name = known[which == '?' ? 0 : place].name;
    switch (which) {
      case 'p': options.port = (int)number(name, optarg, 1); break;
      case 'v': options.version = (int)number(name, optarg, 4); break;
      case 'P': options.publishers = number(name, optarg, 1); break;
      case 'C': options.consumers = number(name, optarg, 0); break;
      case 'm': options.messages = number(name, optarg, 1); break;
      case 's': options.size = number(name, optarg, 8); break;
      case 't': options.topics = number(name, optarg, 1); break;
      case 'q': options.qos = number(name, optarg, 0); break;
      case 'g': options.group = optarg; break;
      case 'w': options.window = number(name, optarg, 4); break;
      case 'r': options.rate = number(name, optarg, 0); break;
      case 'W': options.patience = (double)number(name, optarg, 1); break;
      default: return CANNOT;
    }
  }
  if (options.port == 0 || optind < count) end_with(CANNOT, "mqtt --port PORT [options]: see the head of mqtt.c");
  if (options.qos > 1 || options.size > 200000) end_with(CANNOT, "--qos takes 0 or 1, --size at most 200000");
  each = options.messages / options.publishers;
  if (each == 0) end_with(CANNOT, "fewer messages than publishers");
  publishers = calloc((size_t)options.publishers, sizeof *publishers);
  consumers = calloc((size_t)options.consumers + 1, sizeof *consumers);
  for (long i = 0; i < options.publishers; i++) make_publisher(&publishers[i]);
  for (long i = 0; i < options.consumers; i++) make_consumer(&consumers[i]);
  double took = run();
  printf("{\"seconds\": %.6f, \"published\": %ld, \"delivered\": %ld, \"changes\": 0}\n", took, published_by_all(),
         options.consumers ? heard_by_all() : 0);
  return 0;
}
