/* What the programs here have in common: connections, most of which speak the NATS text protocol, the clock, how to end.
 *
 * All end with 0 when every message was heard once, with 1 when they could not do their work (no server, wrong
 * options), and with 2 when the server did something wrong. The last two come with a sentence on stderr.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <stddef.h>

#define CANNOT 1
#define FAULT 2

/* The sentence, then the end. */
void end_with(int status, const char *sentence, ...) __attribute__((noreturn, format(printf, 2, 3)));

double seconds_now(void);

/* A connection to 127.0.0.1 that has said CONNECT; it blocks, but for no longer than `patience` seconds at a time. */
int dial(int port, double patience);
void unblock(int socket);

/* The same that has said nothing yet: for other protocols. */
int dial_silently(int port, double patience);

/* All of the text, on a connection that blocks. */
void say(int socket, const char *text, size_t length);

/* Says PING and waits for its PONG: everything said before has been taken in. What comes in between is fit for
 * nothing but INFO, +OK and PING; a message there is one too many. */
void settle(int socket);

/* The text begins with a line that is no message: answers a PING, ends at -ERR, passes over the rest. Returns the
 * length of the line; 0: it is not complete. */
size_t pass_over(int socket, const char *text, size_t length);

/* A number given on the command line, at least `least`. */
long number(const char *option, const char *text, long least);

#endif
