"""All calls of the web door, in one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from fumarole.sessions.http import (
    explore,
    last_values,
    levels,
    login,
    metrics,
    monitoring,
    openapi,
    pages,
    producers,
    requests,
    status,
    stream,
    topics,
    upgrade,
    watch,
)
from fumarole.sessions.http.call import EVENTS, JSON, NDJSON, Call
from fumarole.sessions.http.forms import encode
from fumarole.sessions.http.routes import OPAQUE, Access, Parameter, Route, Router
from fumarole.sessions.http.service import Page

TEXT: Final = "text/plain"
PRODUCER: Final = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
WHERE: Final = Parameter("where", "A query: of which producers.", example="Region = 'italy'")
RETAIN: Final = Parameter("retain", "Keep it as the newest of its topic (F1).", "flag", "1")
LAST: Final = Parameter("last", "The last values first (F3).", "flag", "1")
EVERY: Final = Parameter("every", "At most one message of each topic in this period (F4).", "seconds", "500ms")
READINGS: Final = Parameter(
    "readings", "`0`: no messages, the set of `where` alone; with `every` also values.", "flag", "0"
)
GROUP: Final = Parameter("group", "Share the messages with the others of this group.", example="dashboards")
BAD: Final = {400: "What is wrong with it, with its position where it has one.", 403: "Not allowed."}


def read(call: Call) -> None:
    """`GET /v1/topics/{pattern}`, by what is accepted."""
    if call.accepts(EVENTS):
        stream.topic(call)
    else:
        last_values.read(call)


def _root(made: Page, off: tuple[str, ...]) -> Callable[[Call], None]:
    """The console, or NATS for clients that were told an address without a path."""
    show, to_nats = pages.served(made), upgrade.to(upgrade.NATS)

    def handle(call: Call) -> None:
        wants_nats = upgrade.is_upgrade(call) and "sec-websocket-protocol" not in call.head.fields
        if not wants_nats or upgrade.NATS in off:
            show(call)
        elif refusal := call.session.rebound(call.head):
            call.problem(403, refusal)
        else:
            to_nats(call)

    return handle


def _described(call: Call) -> None:
    raise AssertionError(f"the router has not put the description in place: {call.route.path}")


DESCRIPTION: Final = Route(
    "GET",
    "/openapi.json",
    _described,
    "The description of these calls (OpenAPI)",
    (),
    {200: "The description."},
    access=Access.OPEN,
    touches_messages=False,
    switch="openapi",
)
ROUTES: Final = (
    Route(
        "POST",
        "/v1/topics/{topic}",
        topics.publish,
        "Publishes the body as one message",
        (RETAIN,),
        {202: "It went to so many entities; none is no error.", 413: "The body is too large.", **BAD},
        body=OPAQUE,
    ),
    Route(
        "POST",
        "/v1/topics",
        topics.batch,
        "Publishes lines of JSON, each a message",
        (),
        {202: "How many were published, and what was wrong with the others.", **BAD},
        body=NDJSON,
        takes_lines=True,
    ),
    Route(
        "GET",
        "/v1/topics/{pattern}",
        read,
        "The last values of the topics that match, or with `Accept: text/event-stream` what comes",
        (),
        {200: "The values, or events without end.", **BAD},
        produces=(JSON, NDJSON, EVENTS),
    ),
    Route(
        "DELETE",
        "/v1/topics/{topic}",
        topics.remove,
        "Removes the retained message of a topic",
        (),
        {204: "It is removed, and consumers get an empty message.", 404: "None is retained.", **BAD},
    ),
    Route(
        "GET",
        "/v1/levels",
        levels.below,
        "The topics that have a last value, level by level",
        (Parameter("below", "The words above; without it, the first level.", example="volcanoes.usa"),),
        {200: "Each word with the number of topics below it, and the last value of its own topic.", **BAD},
    ),
    Route(
        "GET",
        "/v1/stream",
        stream.subscribe,
        "A subscription, or a view (`where=select …`), as server-sent events",
        (WHERE, Parameter("topic", "A pattern.", example="volcanoes.>"), GROUP, EVERY, LAST, READINGS),
        {200: "Events without end.", 429: "Too many streams.", **BAD},
        produces=(EVENTS,),
    ),
    Route(
        "PUT",
        "/v1/streams/{id}",
        watch.change,
        "The producers whose values a stream with `readings=0` and `every` brings",
        (),
        {204: "These are watched, and no others.", 404: "There is no such stream.", **BAD},
        body=JSON,
    ),
    Route(
        "GET",
        "/v1/producers",
        producers.listing,
        "The producers, or those that a query selects",
        (
            WHERE,
            Parameter("select", "Metadata keys to show, with commas between them.", example="Region,Kind"),
            Parameter("limit", "At most so many.", "count", "100"),
            Parameter("after", "The `next` of the answer before.", "count", "0"),
            Parameter("ids", "Of these only, with commas between them.", example=PRODUCER),
        ),
        {200: "The producers; `next` where there are more.", **BAD},
    ),
    Route(
        "GET",
        "/v1/producers/{id}",
        producers.one,
        "One producer",
        (),
        {200: "The producer.", 404: "Not known here.", **BAD},
    ),
    Route(
        "PATCH",
        "/v1/producers/{id}",
        producers.describe,
        "Merges metadata into a producer's",
        (),
        {200: "The producer as it is now.", **BAD},
        body=JSON,
    ),
    Route(
        "DELETE",
        "/v1/producers/{id}",
        producers.forget,
        "Forgets a producer",
        (),
        {204: "It is forgotten.", 404: "Not known here.", **BAD},
    ),
    Route(
        "POST",
        "/v1/requests/{topic}",
        requests.ask,
        "Sends a request and answers with the replies",
        (
            Parameter("replies", "So many, or `all` that come in time.", example="1"),
            Parameter("timeout", "How long to wait for them.", "seconds", "5s"),
        ),
        {200: "The replies.", 404: "No consumer matches.", 504: "What came in time.", **BAD},
        body=OPAQUE,
    ),
    Route(
        "GET",
        "/v1/stats",
        status.stats,
        "What the namespace has counted, on all nodes together and on each",
        (),
        {200: "The counters.", 403: "For the role `admin`."},
        access=Access.ADMIN,
    ),
    Route(
        "GET",
        "/v1/connections",
        status.connections,
        "The open connections of this node",
        (),
        {200: "The connections.", 403: "For the role `admin`."},
        access=Access.ADMIN,
    ),
    Route(
        "DELETE",
        "/v1/connections/{id}",
        status.cut_off,
        "Closes a connection of this node",
        (),
        {204: "It is closed.", 403: "For the role `admin`.", 404: "There is none such."},
        access=Access.ADMIN,
    ),
    Route(
        "GET",
        "/v1/cluster",
        status.service("cluster"),
        "The other nodes, and how the links to them are",
        (),
        {200: "The nodes.", 403: "For the role `admin`."},
        access=Access.ADMIN,
    ),
    Route(
        "GET",
        "/v1/consumers",
        status.consumers,
        "The consumers that lost most, or else those with most messages; without the role admin, the user's own",
        (Parameter("topic", "Only those that get all of this topic or pattern.", example="volcanoes.usa.atka"),),
        {200: "The consumers.", **BAD, 403: "Without users, for the role `admin`."},
    ),
    Route(
        "GET",
        "/v1/journal",
        status.journal,
        "The last joins, leaves, refusals and wills of this node, newest first",
        (Parameter("after", "Only events with a higher number.", "count", "0"),),
        {200: "The events.", 403: "For the role `admin`."},
        access=Access.ADMIN,
    ),
    Route(
        "GET",
        "/v1/namespaces",
        explore.namespaces,
        "The namespaces of this node",
        (),
        {200: "The namespaces.", 403: "For the role `admin`."},
        access=Access.ADMIN,
    ),
    Route(
        "GET",
        "/v1/explain",
        explore.explain,
        "How a query is read, and with `id` what of it holds for a producer",
        (WHERE, Parameter("id", "A producer.", example=PRODUCER)),
        {200: "The tree of the query.", 404: "Not known here.", **BAD},
    ),
    Route(
        "POST",
        "/v1/preview/{id}",
        explore.preview,
        "Into how many subscriptions a change of metadata would bring a producer, and out of how many",
        (),
        {200: "The two numbers.", **BAD},
        body=JSON,
    ),
    Route(
        "GET",
        "/v1/facets",
        explore.facets,
        "The metadata keys of the producers selected, with their most frequent values",
        (
            WHERE,
            Parameter("key", "Only this key.", example="Region"),
            Parameter("limit", "Values of each key.", "count", "10"),
        ),
        {200: "Keys and values with their counts.", **BAD},
    ),
    Route(
        "GET",
        "/v1/copies",
        explore.copied,
        "The lines that subscribe to the same in other languages and protocols",
        (WHERE, Parameter("topic", "A pattern.", example="volcanoes.>")),
        {200: "Each form, or why there is none.", **BAD},
    ),
    Route(
        "POST",
        "/v1/session",
        login.give,
        "A cookie for the user of this request",
        (),
        {200: "The user.", 409: "No users."},
    ),
    Route("GET", "/v1/session", login.whose, "The user of this request", (), {200: "The user."}),
    Route("DELETE", "/v1/session", login.take, "Takes the cookie back", (), {204: "It is taken back."}),
    Route(
        "GET",
        "/nats",
        upgrade.to(upgrade.NATS),
        "The NATS protocol over WebSocket",
        (),
        {101: "NATS from here on.", 400: "The handshake is wrong.", 426: "It is no upgrade."},
        access=Access.OPEN,
        switch="nats",
    ),
    Route(
        "GET",
        "/mqtt",
        upgrade.to(upgrade.MQTT),
        "MQTT over WebSocket",
        (),
        {101: "MQTT from here on.", 400: "The handshake is wrong.", 426: "It is no upgrade.", 501: "Not offered."},
        access=Access.OPEN,
        switch="mqtt",
    ),
    Route(
        "GET",
        "/metrics",
        metrics.metrics,
        "What the node has counted, for Prometheus",
        (),
        {200: "The numbers."},
        produces=(TEXT,),
        touches_messages=False,
        switch="metrics",
    ),
    Route(
        "GET",
        "/varz",
        monitoring.varz,
        "The node, in the names of nats-server",
        (),
        {200: "The numbers.", 403: "For the role `admin`."},
        access=Access.ADMIN,
        switch="monitoring",
    ),
    Route(
        "GET",
        "/connz",
        monitoring.connz,
        "The connections, in the names of nats-server",
        (
            Parameter("limit", "At most so many.", "count", "100"),
            Parameter("offset", "Without the first of them.", "count", "0"),
            Parameter("sort", "`cid`, or `subs` or `pending`: those with most first.", example="subs"),
            Parameter("subs", "Accepted, and means nothing here."),
        ),
        {200: "The connections.", 403: "For the role `admin`."},
        access=Access.ADMIN,
        switch="monitoring",
    ),
    Route(
        "GET",
        "/healthz",
        status.healthz,
        "Does the loop answer?",
        (),
        {200: "It does."},
        produces=(TEXT,),
        access=Access.OPEN,
        touches_messages=False,
    ),
    Route(
        "GET",
        "/readyz",
        status.readyz,
        "Are the doors open, is the cluster joined, can the store be written?",
        (),
        {200: "They are.", 503: "What is not."},
        produces=(TEXT,),
        access=Access.OPEN,
        touches_messages=False,
    ),
)


def router(files: Mapping[str, Page], version: str, off: tuple[str, ...] = (), *, metrics_open: bool = False) -> Router:
    """Finds calls, and files of the console by their path."""
    described = [route for route in ROUTES if route.switch not in off]
    if metrics_open:
        described = [replace(each, access=Access.OPEN) if each.path == "/metrics" else each for each in described]
    description = pages.page(".json", encode(openapi.document(described, version)))
    about = replace(DESCRIPTION, handle=pages.served(description))
    if "nats" not in off:
        files = {"/": pages.page(".txt", b"Fumarole\n"), **files}
    shown = [
        Route(
            "GET",
            path,
            _root(made, off) if path == "/" else pages.served(made),
            "The console",
            access=Access.OPEN,
            touches_messages=False,
            switch="console",
        )
        for path, made in files.items()
    ]
    return Router([each for each in (*described, about, *shown) if each.switch not in off])
