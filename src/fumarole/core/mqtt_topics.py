"""Topics of MQTT as topics of the exchange, and back (Q2).

    MQTT                    topic, strict namespace        topic, namespace of grammar `open`
    volcanoes/usa/atka      volcanoes.usa.atka             volcanoes.usa.atka
    /a//b                   .a..b                          .a..b
    plant 4/v1.2            plant%204.v1%2E2               plant%204.v1%2E2
    küche/temp              k%C3%BCche.temp                küche.temp

Levels are words. Inside a level each character that a word of the namespace cannot have is written as the bytes of its
UTF-8, `%XX` each; `%` itself too, so that nothing has two meanings. On the way out exactly these sequences are decoded.
MQTT to topic to MQTT is the identity for every MQTT topic; topic to MQTT to topic for every strict topic without `%`.

A filter becomes patterns. `a/#` is `a` and everything below: two patterns that no topic matches both of.
"""

import re
from functools import lru_cache, partial

from fumarole.core.errors import PatternError
from fumarole.core.topic import STRICT, Grammar

EMPTY = "$EMPTY"
"""The written form of the empty topic (T9)."""
SERVERS_OWN = "$"
"""Topics that begin so are not for clients, and no filter that begins with a wildcard matches them."""
LONGEST_NAME = 0xFFFF
"""Bytes of an MQTT topic."""
CACHED = 8_192
LONGEST_CACHED = 128
"""Characters."""

_PLAIN_NAME = re.compile(r"[-_A-Za-z0-9/]+")
_PLAIN_TOPIC = re.compile(r"[-_A-Za-z0-9.]+")
_FOREIGN = {
    True: re.compile(r"[^-_A-Za-z0-9]"),
    False: re.compile(r"[.*>%\s\x00-\x1f\x7f-\x9f]"),
}
"""By whether the grammar is strict: what is encoded inside a level."""
_ESCAPES = re.compile(r"(?:%[0-9A-F]{2})+")
_WILDCARDS = re.compile(r"[/+#]")


def topic_of(name: str, grammar: Grammar = STRICT) -> str:
    """The topic of an MQTT topic. `check_topic` decides whether it is valid in the namespace."""
    if len(name) <= LONGEST_CACHED:
        return _cached_topic_of(name, grammar is STRICT)
    return _topic_of(name, grammar is STRICT)


def name_of(topic: str, grammar: Grammar = STRICT) -> str | None:
    """The MQTT topic that a topic is; None: it is none."""
    if len(topic) <= LONGEST_CACHED:
        return _cached_name_of(topic, grammar is STRICT)
    return _name_of(topic, grammar is STRICT)


def patterns_of(text: str, grammar: Grammar = STRICT) -> tuple[str, ...]:
    """The patterns that an MQTT filter is: one, or two that exclude each other. Raises PatternError."""
    if not text:
        raise PatternError("a filter cannot be empty", 0)
    if text == EMPTY:
        return ("",)
    words, position = [], 0
    levels = text.split("/")
    for level in levels:
        if level == "+":
            words.append("*")
        elif level == "#" and position + 1 == len(text):
            words.append(">")
        elif "+" in level or "#" in level:
            wildcard = min(place for place in (level.find("+"), level.find("#")) if place >= 0)
            why = "`#` is the last level" if level == "#" else "a wildcard is a level of its own"
            raise PatternError(why, position + wildcard)
        else:
            words.append(_word(level, grammar is STRICT, position == 0))
        position += len(level) + 1
    pattern = ".".join(words)
    if levels[-1] != "#" or len(levels) == 1 or levels == ["", "#"]:
        return (pattern,)
    return ".".join(words[:-1]), pattern


def _topic_of(name: str, is_strict: bool) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return name.replace("/", ".")
    if name == EMPTY:
        return ""
    first, *others = name.split("/")
    return ".".join([_word(first, is_strict, True), *(_word(level, is_strict, False) for level in others)])


def _word(level: str, is_strict: bool, is_first: bool) -> str:
    if is_first and level.startswith(SERVERS_OWN):
        return SERVERS_OWN + _word(level[1:], is_strict, False)
    return _FOREIGN[is_strict].sub(_encoded, level)


def _encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def _name_of(topic: str, is_strict: bool) -> str | None:
    if _PLAIN_TOPIC.fullmatch(topic):
        name = topic.replace(".", "/")
    elif not topic:
        return EMPTY
    else:
        name = "/".join([_level(word, is_strict) for word in topic.split(".")])
        if name.startswith(SERVERS_OWN) and not topic.startswith(SERVERS_OWN):
            name = f"%24{name[1:]}"  # the way in never encodes it there
    return name if len(name) <= LONGEST_NAME // 4 or len(name.encode()) <= LONGEST_NAME else None


def _level(word: str, is_strict: bool) -> str:
    word = _WILDCARDS.sub(_encoded, word)
    return _ESCAPES.sub(_DECODE[is_strict], word) if "%" in word else word


def _decoded(foreign: re.Pattern[str], escapes: re.Match[str]) -> str:
    """A run of `%XX`: of each character that the way in encodes, the character; the rest as it stands."""
    raw = bytes.fromhex(escapes[0].replace("%", ""))
    made, at = [], 0
    while at < len(raw):
        size = _size(raw[at])
        try:
            character = raw[at : at + size].decode()
        except UnicodeDecodeError:
            character = ""
        if len(character) == 1 and character not in "/+#\0" and foreign.fullmatch(character):
            made.append(character)
            at += size
        else:
            made.append(f"%{raw[at]:02X}")
            at += 1
    return "".join(made)


def _size(first: int) -> int:
    """Bytes of the character in UTF-8 that begins with this one."""
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


_DECODE = {is_strict: partial(_decoded, _FOREIGN[is_strict]) for is_strict in (True, False)}
_cached_topic_of = lru_cache(CACHED)(_topic_of)
_cached_name_of = lru_cache(CACHED)(_name_of)
