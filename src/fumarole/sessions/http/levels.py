"""`GET /v1/levels?below=volcanoes`: the topics that have a last value, level by level, for a tree of topics.

    volcanoes.usa.atka        21.5        below=volcanoes        usa       2 topics below
    volcanoes.usa.adak        19.0                               italy     1
    volcanoes.italy.etna      23.5        below=volcanoes.usa    atka      21.5
                                                                 adak      19.0

These are the topics that `GET /v1/topics/{pattern}` shows, of all live nodes: retained messages, and where the
namespace has `last = "all"`, the last ones. The topics of the last readings that this node has heard are among them.
`last` is true where the namespace has `last = "all"`. A topic that the user may not receive is neither shown nor
counted (A3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fumarole.core.pattern_options import parse_with_options
from fumarole.core.publication import Publication
from fumarole.core.topic import check_length, check_topic
from fumarole.exchange.gathering import may_see
from fumarole.exchange.producer import Producer
from fumarole.sessions.http import forms, producers
from fumarole.sessions.http.call import JSON, Call
from fumarole.sessions.http.last_values import FIELDS, LastValues, as_array

MOST_WORDS: Final = 10_000
"""Of one level; where there are more, `more` is true."""

PRODUCERS_AT_ONCE: Final = 500


def below(call: Call) -> None:
    """The words that follow, and for each the topics below it."""
    exchange, _ = call.here()
    text = call.options.get("below", "").replace("/", ".")
    check_length(text, call.service.node.limits.control_line)
    if text:
        check_topic(text, exchange.grammar)
    pattern = f"{text}.>" if text else ">"
    Levels(call, text).begin(pattern, parse_with_options(pattern, exchange.grammar)[2])


class Levels(LastValues):
    """The outlet of one such question."""

    def __init__(self, call: Call, text: str) -> None:
        exchange, _ = call.here()
        super().__init__(call, exchange)
        self._below = text
        self._skip = len(text) + 1 if text else 0
        self._has_more = False

    def keep(self, publication: Publication, age: float) -> None:
        level = self._count(publication.topic)
        if level is not None and self.takes(publication):
            level |= self.shown(publication, age)

    def _count(self, topic: str) -> dict[str, Any] | None:
        """Counts a topic. Its level, where the topic ends there."""
        word, dot, _ = topic[self._skip :].partition(".")
        level = self._found.get(word)
        if level is None:
            if len(self._found) >= MOST_WORDS:
                self._has_more = True
                return None
            level = self._found[word] = {"word": word, "topics": 0}
        level["topics"] += bool(dot)
        return None if dot else level

    def answer(self) -> None:
        self.call.pieces(200, JSON, self._pieces(), FIELDS)

    def _pieces(self) -> Iterator[bytes]:
        for number, producer in enumerate(list(self._exchange.producers)):
            self._look_at(producer)
            if number % PRODUCERS_AT_ONCE == PRODUCERS_AT_ONCE - 1:
                yield b""
        levels = [self._found[word] for word in sorted(self._found)]
        told = self._below, self._has_more, self._exchange.last_values is not None
        before = b'{"below":%b,"more":%b,"last":%b,"levels":[' % tuple(map(forms.encode, told))
        yield from as_array(before, levels, b"]}\n")

    def _look_at(self, producer: Producer) -> None:
        """The topic of its last reading, unless that was gathered."""
        topic, value = producer.latest()
        exchange, sees = self._exchange, None if self.call.user is None else self.call.user.subscribe
        if value is None or not (topic.startswith(f"{self._below}.") if self._below else True):
            return
        is_gathered = exchange.last_values is not None or exchange.retained.get(topic) is not None
        if is_gathered or not may_see(sees, topic):
            return
        level = self._count(topic)
        if level is not None:
            shown = producers.shown(producer, self.call.session.now)
            level |= {"topic": topic, "producer": producer.identity, "value": value, "age": shown["age"]}
