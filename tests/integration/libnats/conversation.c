/* libnats, a client in C that others wrote, through everything that it shares with a broker of ours.
 *
 *   conversation URL [user password]
 *
 * Prints the name of each step that went well. The first that does not is named on stderr, and ends it with 1. */

#include <nats/nats.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS(n) ((int64_t)(n) * 1000)

static const char *step = "start";

static void must(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s does not hold\n", step, what);
    exit(1);
}

static void good(natsStatus status, const char *what) {
    if (status == NATS_OK) return;
    fprintf(stderr, "%s: %s: %s\n", step, what, natsStatus_GetText(status));
    exit(1);
}

#define MUST(condition) must(condition, #condition)
#define GOOD(call) good(call, #call)

static void begin(const char *name) { step = name; }
static void done(void) { printf("%s\n", step); }

static natsConnection *connect_to(const char *url, const char *user, const char *password) {
    natsConnection *connection = NULL;
    natsOptions *options = NULL;
    GOOD(natsOptions_Create(&options));
    GOOD(natsOptions_SetURL(options, url));
    if (user != NULL) GOOD(natsOptions_SetUserInfo(options, user, password));
    GOOD(natsConnection_Connect(&connection, options));
    natsOptions_Destroy(options);
    return connection;
}

static void expect(natsSubscription *subscription, const char *topic, const char *payload) {
    natsMsg *message = NULL;
    GOOD(natsSubscription_NextMsg(&message, subscription, SECONDS(10)));
    MUST(strcmp(natsMsg_GetSubject(message), topic) == 0);
    MUST(natsMsg_GetDataLength(message) == (int)strlen(payload));
    MUST(memcmp(natsMsg_GetData(message), payload, strlen(payload)) == 0);
    natsMsg_Destroy(message);
}

static uint64_t waiting(natsSubscription *subscription) {
    uint64_t count = 0;
    GOOD(natsSubscription_QueuedMsgs(subscription, &count));
    return count;
}

static void subscribe(natsConnection *here, natsConnection *there) {
    natsSubscription *exact = NULL, *one = NULL, *some = NULL;
    begin("subscribe");
    GOOD(natsConnection_SubscribeSync(&exact, here, "foo.bar"));
    GOOD(natsConnection_SubscribeSync(&one, here, "foo.*"));
    GOOD(natsConnection_SubscribeSync(&some, here, "foo.>"));
    GOOD(natsConnection_Flush(here));
    GOOD(natsConnection_PublishString(there, "foo", "0"));
    GOOD(natsConnection_PublishString(there, "foo.bar", "1"));
    GOOD(natsConnection_PublishString(there, "foo.bar.zoo", "2"));
    expect(exact, "foo.bar", "1");
    expect(one, "foo.bar", "1");
    expect(some, "foo.bar", "1");
    expect(some, "foo.bar.zoo", "2");
    MUST(waiting(exact) == 0 && waiting(one) == 0 && waiting(some) == 0);
    GOOD(natsSubscription_Unsubscribe(some));
    GOOD(natsConnection_Flush(here));
    GOOD(natsConnection_PublishString(there, "foo.bar", "3"));
    expect(exact, "foo.bar", "3");
    natsSubscription_Destroy(exact);
    natsSubscription_Destroy(one);
    natsSubscription_Destroy(some);
    done();
}

static void count_down(natsSubscription *subscription, int count) {
    natsMsg *message = NULL;
    for (int n = 0; n < count; n++) {
        GOOD(natsSubscription_NextMsg(&message, subscription, SECONDS(10)));
        natsMsg_Destroy(message);
    }
}

static void group(natsConnection *here, natsConnection *there) {
    natsSubscription *left = NULL, *right = NULL, *end = NULL;
    begin("group");
    GOOD(natsConnection_QueueSubscribeSync(&left, here, "work.*", "workers"));
    GOOD(natsConnection_QueueSubscribeSync(&right, there, "work.>", "workers"));
    GOOD(natsConnection_SubscribeSync(&end, here, "the.end"));
    GOOD(natsConnection_Flush(here));
    GOOD(natsConnection_Flush(there));
    for (int n = 0; n < 100; n++) GOOD(natsConnection_PublishString(there, "work.n", "x"));
    GOOD(natsConnection_Flush(there));
    GOOD(natsConnection_PublishString(there, "the.end", ""));
    expect(end, "the.end", "");
    GOOD(natsConnection_Flush(there));
    uint64_t one = waiting(left), other = waiting(right);
    MUST(one + other == 100);
    MUST(one >= 30 && other >= 30);
    count_down(left, (int)one);
    count_down(right, (int)other);
    natsSubscription_Destroy(left);
    natsSubscription_Destroy(right);
    natsSubscription_Destroy(end);
    done();
}

static void answer(natsConnection *connection, natsSubscription *subscription, natsMsg *question, void *closure) {
    (void)subscription;
    (void)closure;
    natsConnection_Publish(connection, natsMsg_GetReply(question), natsMsg_GetData(question), natsMsg_GetDataLength(question));
    natsMsg_Destroy(question);
}

static void request(natsConnection *here, natsConnection *there) {
    natsSubscription *responder = NULL;
    natsMsg *reply = NULL;
    begin("request");
    GOOD(natsConnection_Subscribe(&responder, there, "echo", answer, NULL));
    GOOD(natsConnection_Flush(there));
    for (int n = 0; n < 50; n++) {
        GOOD(natsConnection_RequestString(&reply, here, "echo", "hello", SECONDS(10)));
        MUST(natsMsg_GetDataLength(reply) == 5 && memcmp(natsMsg_GetData(reply), "hello", 5) == 0);
        natsMsg_Destroy(reply);
    }
    natsSubscription_Destroy(responder);
    done();
    begin("no responders");
    MUST(natsConnection_RequestString(&reply, here, "nobody", "hello", SECONDS(10)) == NATS_NO_RESPONDERS);
    done();
}

static void headers(natsConnection *here, natsConnection *there) {
    natsSubscription *subscription = NULL;
    natsMsg *message = NULL;
    const char *value = NULL;
    begin("headers");
    GOOD(natsConnection_SubscribeSync(&subscription, here, "with.headers"));
    GOOD(natsConnection_Flush(here));
    GOOD(natsMsg_Create(&message, "with.headers", NULL, "hot", 3));
    GOOD(natsMsgHeader_Set(message, "Unit", "celsius"));
    GOOD(natsMsgHeader_Add(message, "Seen-By", "first"));
    GOOD(natsMsgHeader_Add(message, "Seen-By", "second"));
    GOOD(natsConnection_PublishMsg(there, message));
    natsMsg_Destroy(message);
    GOOD(natsSubscription_NextMsg(&message, subscription, SECONDS(10)));
    GOOD(natsMsgHeader_Get(message, "Unit", &value));
    MUST(strcmp(value, "celsius") == 0);
    const char **values = NULL;
    int count = 0;
    GOOD(natsMsgHeader_Values(message, "Seen-By", &values, &count));
    MUST(count == 2 && strcmp(values[0], "first") == 0 && strcmp(values[1], "second") == 0);
    free((void *)values);
    MUST(natsMsg_GetDataLength(message) == 3);
    natsMsg_Destroy(message);
    natsSubscription_Destroy(subscription);
    done();
}

static void auto_unsubscribe(natsConnection *here, natsConnection *there) {
    natsSubscription *subscription = NULL;
    natsMsg *message = NULL;
    begin("auto-unsubscribe");
    GOOD(natsConnection_SubscribeSync(&subscription, here, "few"));
    GOOD(natsSubscription_AutoUnsubscribe(subscription, 3));
    GOOD(natsConnection_Flush(here));
    for (int n = 0; n < 5; n++) GOOD(natsConnection_PublishString(there, "few", "x"));
    count_down(subscription, 3);
    MUST(natsSubscription_NextMsg(&message, subscription, 100) == NATS_MAX_DELIVERED_MSGS);
    natsSubscription_Destroy(subscription);
    done();
}

static void drain(natsConnection *here, const char *url, const char *user, const char *password) {
    natsConnection *leaving = connect_to(url, user, password);
    natsSubscription *subscription = NULL;
    begin("drain");
    GOOD(natsConnection_SubscribeSync(&subscription, leaving, "last.words"));
    GOOD(natsConnection_Flush(leaving));
    for (int n = 0; n < 100; n++) GOOD(natsConnection_PublishString(here, "last.words", "x"));
    GOOD(natsConnection_Flush(here));
    GOOD(natsConnection_Drain(leaving));
    count_down(subscription, 100);
    natsSubscription_Destroy(subscription);
    for (int n = 0; n < 100 && !natsConnection_IsClosed(leaving); n++) nats_Sleep(100);
    MUST(natsConnection_IsClosed(leaving));
    natsConnection_Destroy(leaving);
    done();
}

int main(int count, char **words) {
    const char *user = count > 3 ? words[2] : NULL, *password = count > 3 ? words[3] : NULL;
    if (count < 2) return 2;
    begin("connect");
    natsConnection *here = connect_to(words[1], user, password), *there = connect_to(words[1], user, password);
    MUST(natsConnection_HasHeaderSupport(here) == NATS_OK);
    MUST(natsConnection_GetMaxPayload(here) == 1024 * 1024);
    done();
    subscribe(here, there);
    group(here, there);
    request(here, there);
    headers(here, there);
    auto_unsubscribe(here, there);
    drain(here, words[1], user, password);
    natsConnection_Destroy(here);
    natsConnection_Destroy(there);
    nats_Close();
    return 0;
}
