"""Random conversations with a broker: mostly sensible, often odd, sometimes broken. All from one seed.

A conversation is a list of steps that can be replayed on any hot_path: clients come, say bytes (cut anywhere), are read from, stop,
and time passes. The vocabulary is small, so that topics meet patterns, groups have several members and outboxes run over.
"""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

TOPICS = [
    b"a",
    b"a.b",
    b"a.c",
    b"a.b.c",
    b"foo1",
    b"foo2.x",
    b"b",
    b"a..b",
    b"$EMPTY",
    b"x" * 60,
    b"a.b.c.d.e.f",
    b"$SRV.PING",
]
BAD_TOPICS = [
    b"a.*",
    b">",
    b"a/b",
    b"\xff",
    b"\xc3\xa9",
    b"$SYS.x",
    b"a\0b",
    b"$\xff",
    b"a\rb",
    b".",
    b"",
    b"$FUM.stats",
    b"$SRV.*",
    b"$SRV.a$b",
    b"$JS.API.INFO",
    b"$KV.a\xff",
]
PATTERNS = [
    *TOPICS,
    b">",
    b"*",
    b"a.*",
    b"a.>",
    b"*.b",
    b"foo*",
    b"f*1",
    b"*.*",
    b"a.*.c",
    b"*a*",
    b"in.*",
    b"in.*",
    b"r",
]
BAD_PATTERNS = [b"$JS.>", b"$SRV.x/y", b"a.>.b", b">a", b"a>", b"\xff", b"$SYS.>", b"a\0", b"\xc3\xa9.*"]
GROUPS = [b"g", b"g", b"h", b"g.h"]
GROUPS += [b"g@\xc3\xa9"]
BAD_GROUPS = [b"*", b".g", b"\xff", b"g\0"]
REPLIES = [b"a", b"r", b"in.1", b"in.2", b"in.1", b"in.2", b"7", b"r/\xc3\xa9", b"$EMPTY"]
BAD_REPLIES = [b"r.*", b"\xff", b".r", b"r."]
SIDS = [b"1", b"2", b"3", b"7", b"sid", b"9" * 64, b"9" * 65]
NAMESPACES = ["", "newest", "cut", "wide", "tiny"]
SIZES = [b"-1", b"+3", b"1_0", b"007", b"0", b"9999999999", b"x", b"1048577", b"\xd9\xa3", b"", b"3 "]
SPACES = [b" "] * 12 + [b"  ", b"\t", b" \t "]
VALUES: list[Any] = [True, False, None, 1, "x", [], {}]
NONSENSE = [b"\r\n", b"FOO\r\n", b"PUB\r\n", b"SUB a\r\n", b"+OK\r\n", b"MSG a 1 0\r\n\r\n", b"x" * 600, b"\0\r\n"]
HEADERS = [b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0"]
BAD_HEADERS = [b"", b"\r\n\r\n", b"garbage", b"NATS/1."]


class Step(NamedTuple):
    """`do` is come, say, read, admit, end, leave or tick; `client` whom it concerns; the rest is as it needs."""

    do: str
    client: int
    data: bytes = b""
    number: int = 0


class Speaker:
    """Makes up what a client says. `wild`: how often it says what no client should, from 0 to 1."""

    def __init__(self, chance: random.Random, wild: float, namespaces: list[str]) -> None:
        self._chance = chance
        self._wild = wild
        self._namespaces = namespaces

    def operations(self, count: int) -> bytes:
        said = b"".join(self._operation() for _ in range(count))
        return self._mutated(said) if self._goes_wild(0.15) else said

    def greeting(self, authentication: bool) -> bytes:
        chance = self._chance
        options: dict[str, Any] = {"verbose": chance.random() < 0.3, "headers": chance.random() < 0.8}
        if chance.random() < 0.3:
            options["echo"] = chance.choice([True, False])
        if chance.random() < 0.8:
            options["no_responders"] = True
        if authentication:
            options |= {"user": chance.choice(["free", "free", "limited", "limited", "nobody"]), "pass": "x"}
        elif self._goes_wild(0.1):
            options["user"] = "-bad-"
        else:
            options["user"] = chance.choice(self._namespaces)
        if self._goes_wild(0.1):
            options[chance.choice(["user", "verbose", "headers", "echo", "name", "pass"])] = chance.choice(VALUES)
        return b"CONNECT " + json.dumps(options).encode() + b"\r\n"

    def _goes_wild(self, probability: float) -> bool:
        return self._chance.random() < probability * self._wild

    def _operation(self) -> bytes:
        chance = self._chance
        kind = chance.random()
        if self._goes_wild(0.03):
            return chance.choice(NONSENSE)
        if kind < 0.6:
            return self._publish()
        if kind < 0.82:
            group = [self._one(GROUPS, BAD_GROUPS)] if chance.random() < 0.4 else []
            return self._line(b"SUB", self._one(PATTERNS, BAD_PATTERNS), *group, self._sid())
        if kind < 0.9:
            count = [b"%d" % chance.randrange(4)] if chance.random() < 0.6 else []
            return self._line(b"UNSUB", self._sid(), *count)
        return self._line(chance.choice([b"PING", b"PING", b"PONG"])) if kind < 0.98 else self.greeting(False)

    def _publish(self) -> bytes:
        chance = self._chance
        topic = self._one(TOPICS, BAD_TOPICS)
        reply = [self._one(REPLIES, BAD_REPLIES)] if chance.random() < 0.4 else []
        payload = chance.choice(
            [b"", b"21.5", b"\r\n", b"PUB a 0\r\n\r\n", bytes(chance.randrange(90)), bytes(range(256))]
        )
        headers = self._one(HEADERS, BAD_HEADERS if self._wild else HEADERS) if chance.random() < 0.3 else None
        sizes = (
            [b"%d" % len(payload)] if headers is None else [b"%d" % len(headers), b"%d" % (len(headers) + len(payload))]
        )
        if self._goes_wild(0.02):
            sizes[chance.randrange(len(sizes))] = chance.choice(SIZES)
        end = b"\n" if self._goes_wild(0.01) else b"\r\n"
        return (
            self._line(b"PUB" if headers is None else b"HPUB", topic, *reply, *sizes) + (headers or b"") + payload + end
        )

    def _line(self, verb: bytes, *words: bytes) -> bytes:
        chance = self._chance
        if chance.random() < 0.1:
            verb = chance.choice([verb.lower(), verb.capitalize()])
        if chance.random() < 0.8:
            return b" ".join((verb, *words)) + b"\r\n"
        line = verb + b"".join(chance.choice(SPACES) + word for word in words)
        return line + chance.choice([b"\r\n", b"\r\n", b"\n", b" \r\n", b"\t\n"])

    def _one(self, good: list[bytes], bad: list[bytes]) -> bytes:
        return self._chance.choice(bad if self._chance.random() < 0.04 else good)

    def _sid(self) -> bytes:
        return self._chance.choice(SIDS if self._goes_wild(0.05) else SIDS[:5])

    def _mutated(self, said: bytes) -> bytes:
        chance = self._chance
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(said) + 1)
            change = chance.randrange(5)
            if change == 0:
                said = said[:at] + bytes([chance.randrange(256)]) + said[at + 1 :]
            elif change == 1:
                said = said[:at] + said[at + 1 + chance.randrange(4) :]
            elif change == 2:
                said = said[:at] + bytes(chance.randrange(256) for _ in range(chance.randrange(5))) + said[at:]
            elif change == 3:
                start = chance.randrange(at + 1)
                said = said[:at] + said[start:at] + said[at:]
            else:
                said = said[:at]
        return said


def cut(chance: random.Random, data: bytes) -> list[bytes]:
    """The same bytes in pieces: sometimes whole, sometimes one by one, mostly anywhere."""
    way = chance.random()
    if way < 0.3 or len(data) < 2:
        return [data]
    if way < 0.4:
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted(chance.randrange(len(data)) for _ in range(chance.randrange(1, 6)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True) if start < end]


def conversation(seed: int) -> tuple[bool, list[Step]]:
    """Is authentication on, and what happens."""
    chance = random.Random(seed)
    speaker = Speaker(chance, chance.choice([0.0, 0.0, 0.3, 1.0]), chance.sample(NAMESPACES, chance.choice([1, 1, 2])))
    authentication = chance.random() < 0.25
    steps: list[Step] = []
    clients = 0
    for _ in range(chance.randrange(3, 25)):
        if clients < 2 or (clients < 6 and chance.random() < 0.15):
            steps.append(Step("come", clients))
            if chance.random() < 0.9:
                steps += [Step("say", clients, piece) for piece in cut(chance, speaker.greeting(authentication))]
                steps += [Step("admit", clients)] if chance.random() < 0.8 else []
            clients += 1
        client = chance.randrange(clients)
        what = chance.random()
        if what < 0.72:
            steps += [Step("say", client, piece) for piece in cut(chance, speaker.operations(chance.randrange(1, 12)))]
        elif what < 0.84:
            steps.append(Step("read", client, number=chance.choice([1, 50, 300, 1 << 20])))
        elif what < 0.88:
            steps.append(Step("end", client))
        elif what < 0.92:
            steps.append(Step("admit", client))
        elif what < 0.94:
            steps.append(Step("leave", client))
        else:
            steps.append(Step("tick", 0, number=chance.choice([1, 30, 70])))
    return authentication, steps
