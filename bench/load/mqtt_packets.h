/* The few packets of MQTT that the programs here write and read. All that they send is in 3.1.1 or 5. */
#ifndef MQTT_PACKETS_H
#define MQTT_PACKETS_H

#include "connection.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Type and remaining length; how many bytes that took. */
static inline size_t put_head(char *at, int type, size_t left) {
  size_t n = 0;
  at[n++] = (char)type;
  do {
    at[n++] = (char)((left & 127) | (left > 127 ? 128 : 0));
    left >>= 7;
  } while (left);
  return n;
}

static inline size_t put_text(char *at, const char *text) {
  size_t length = strlen(text);
  at[0] = (char)(length >> 8);
  at[1] = (char)length;
  memcpy(at + 2, text, length);
  return length + 2;
}

static inline size_t put_connect(char *at, int version, const char *client_id) {
  char body[256];
  size_t n = put_text(body, "MQTT");
  body[n++] = (char)version;
  body[n++] = 2; /* clean */
  body[n++] = 0;
  body[n++] = 0; /* no keep-alive */
  if (version == 5) body[n++] = 0;
  n += put_text(body + n, client_id);
  size_t head = put_head(at, 0x10, n);
  memcpy(at + head, body, n);
  return head + n;
}

static inline size_t put_subscribe(char *at, int version, const char *filter, int qos) {
  char body[256];
  size_t n = 2;
  body[0] = 0;
  body[1] = 1; /* packet identifier */
  if (version == 5) body[n++] = 0;
  n += put_text(body + n, filter);
  body[n++] = (char)qos;
  size_t head = put_head(at, 0x82, n);
  memcpy(at + head, body, n);
  return head + n;
}

/* The length of the packet that begins here, 0 where that is not there yet. */
static inline size_t packet_length(const char *at, size_t kept) {
  size_t left = 0;
  for (size_t i = 1; i < 5 && i < kept; i++) {
    left |= (size_t)((unsigned char)at[i] & 127) << 7 * (i - 1);
    if (!((unsigned char)at[i] & 128)) return left + i + 1;
  }
  return 0;
}

/* Waits for one packet of this type, on a connection that blocks; nothing else may come before it. */
static inline void await_packet(int socket, int type) {
  char heard[1024];
  size_t kept = 0, whole = 2;
  while (kept < whole) {
    ssize_t more = recv(socket, heard + kept, whole - kept, 0);
    if (more <= 0) end_with(FAULT, "the server did not answer a packet: a %#x was due", type);
    kept += (size_t)more;
    size_t length = packet_length(heard, kept);
    whole = length ? length : kept + 1;
    if (whole > sizeof heard) break;
  }
  if (((unsigned char)heard[0] & 0xF0) != type || whole > sizeof heard)
    end_with(FAULT, "the server sent %#x where %#x was due", (unsigned char)heard[0], type);
}

/* A connection that has been let in, and has subscribed where there is a filter. */
static inline int dial_mqtt(int port, double patience, int version, const char *client_id, const char *filter, int qos) {
  char text[512];
  int made = dial_silently(port, patience);
  say(made, text, put_connect(text, version, client_id));
  await_packet(made, 0x20);
  if (filter != NULL) {
    say(made, text, put_subscribe(text, version, filter, qos));
    await_packet(made, 0x90);
  }
  return made;
}

#endif
