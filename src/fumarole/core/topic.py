"""Topics and patterns: what they may look like, and the one definition of when they match.

A topic is words with dots between them; `volcanoes.usa.atka` has three, the empty topic has one (empty) word, `a..b`
has three (T3). A pattern is words too, some of them wildcards. Two dialects write the same three wildcards
differently:

    wildcard                              native        AMQP
    ONE   exactly one word                `*`           `*`
    SOME  one or more words, last only    `>`           (none)
    MANY  zero or more words, anywhere    (none)        `#`
    Glob  part of one word                `foo*`        (none)

`matches` is the definition (T8): slow, small, and meant to be read. Everything faster, `core.index` first, is tested
for equality with it.
"""

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from fumarole.core.errors import PatternError, TopicError


class Wildcard(Enum):
    """The three that stand for whole words."""

    ONE = "one"
    SOME = "some"
    MANY = "many"


ONE: Final = Wildcard.ONE
SOME: Final = Wildcard.SOME
MANY: Final = Wildcard.MANY


class Glob(NamedTuple):
    """A word with `*` inside: what stands before the first, between, and after the last (T5)."""

    prefix: str
    middle: tuple[str, ...]
    suffix: str

    def matches(self, word: str) -> bool:
        """The definition for one word: each `*` is zero or more characters."""
        parts = (self.prefix, *self.middle, self.suffix)
        return re.fullmatch(".*".join(map(re.escape, parts)), word, re.DOTALL) is not None

    def fits(self, word: str) -> bool:
        """The same in linear time, for words of strangers: the leftmost place for each part is always good enough."""
        start, end = len(self.prefix), len(word) - len(self.suffix)
        if start > end or not word.startswith(self.prefix) or not word.endswith(self.suffix):
            return False
        for part in self.middle:
            start = word.find(part, start, end)
            if start < 0:
                return False
            start += len(part)
        return True


Word = str | Glob | Wildcard
Pattern = tuple[Word, ...]


def matches(pattern: Pattern, words: Sequence[str]) -> bool:
    """True when the pattern matches a topic of these words. The definition. For text there is `fumarole.matches`."""
    _check_parsed(pattern, words)
    if not pattern:
        return not words
    first, rest = pattern[0], pattern[1:]
    if first is MANY:
        return any(matches(rest, words[taken:]) for taken in range(len(words) + 1))
    if first is SOME:
        return any(matches(rest, words[taken:]) for taken in range(1, len(words) + 1))
    return bool(words) and word_matches(first, words[0]) and matches(rest, words[1:])


def _check_parsed(pattern: object, words: object) -> None:
    """Refuses text: it is a sequence of letters, so it would match nothing, without an error."""
    if isinstance(pattern, str) or isinstance(words, str):
        raise TypeError("expected a parsed pattern and the words of a topic; for text use fumarole.matches")


def word_matches(word: Word, text: str) -> bool:
    """True when this word of a pattern matches this word of a topic."""
    if isinstance(word, Glob):
        return word.matches(text)
    return word is ONE or word == text


def fits(pattern: Pattern, words: Sequence[str]) -> bool:
    """The same for a native pattern, in linear time however deep: for patterns and topics of strangers."""
    _check_parsed(pattern, words)
    return covers(pattern, tuple(words))


class Grammar(Enum):
    """Which characters a namespace's topics may have."""

    STRICT = "strict"
    CHANNEL = "channel"
    OPEN = "open"


STRICT: Final = Grammar.STRICT
CHANNEL: Final = Grammar.CHANNEL
OPEN: Final = Grammar.OPEN

# T1: `%` begins the two digits of a byte that has no place in a strict topic (core/mqtt_topics.py). T2: white space of
# any script, control characters and halves of surrogate pairs, which are no UTF-8, are out, and wildcards are for
# patterns.
_TOPICS = {
    STRICT: re.compile(r"(?:\$SRV\.)?[-_A-Za-z0-9.]*(?:%[0-9A-F]{2}[-_A-Za-z0-9.]*)*"),
    CHANNEL: re.compile(r"(?![.])[^\s\x00-\x20\x7f-\x9f\ud800-\udfff*>]+(?<![.])"),
    OPEN: re.compile(r"[^\s\x00-\x20\x7f-\x9f\ud800-\udfff*>]+"),
}
_NOT_STRICT = re.compile(r"[^-_A-Za-z0-9.%]|%(?![0-9A-F]{2})")
_NOT_CHANNEL = re.compile(r"[\s\x00-\x20\x7f-\x9f\ud800-\udfff]")
_UTF_8 = "UTF-8, no white space, no control characters"
SERVICES: Final = "$SRV."
"""T9: topics that begin so are for the services of NATS clients. Every grammar has them."""
_ALLOWED = {
    STRICT: "letters, digits, `-`, `_` and `.`; with --grammar channel more",
    CHANNEL: _UTF_8,
    OPEN: _UTF_8,
}


def check_topic(topic: str, grammar: Grammar = STRICT) -> None:
    """Raises TopicError, with the position, where a publication may not carry this topic."""
    if _TOPICS[grammar].fullmatch(topic):
        return
    for position, character in enumerate(topic):
        if character in "*>":
            raise TopicError(f"`{character}` is for patterns, a topic has no wildcards", position)
    _check_characters(topic, topic, grammar, TopicError)
    raise AssertionError(topic)


def check_length(text: str, longest: int) -> None:
    """Raises TopicError where a topic, a pattern or a group has more bytes than this (L2)."""
    encoded = text.encode(errors="surrogatepass")  # what is no UTF-8 is for the grammar to refuse
    if len(encoded) > longest:
        raise TopicError(f"more than {longest} bytes", len(encoded[:longest].decode(errors="ignore")))


def parse_pattern(text: str, grammar: Grammar = STRICT) -> Pattern:
    """A pattern in the native dialect. Raises PatternError with the position of the fault."""
    _check_characters(text, text.replace("*", "a").replace(">", "a"), grammar, PatternError)
    return parse_wildcards(text)


def parse_wildcards(text: str) -> Pattern:
    """A pattern whose characters are not checked: only the places of its wildcards are."""
    words = text.split(".")
    if ">" in text:
        _check_last(words)
        return (*map(_native_word, words[:-1]), SOME)
    return tuple(map(_native_word, words)) if "*" in text else tuple(words)


def _check_last(words: list[str]) -> None:
    position = 0
    for word in words[:-1]:
        if ">" in word:
            raise PatternError("`>` must be the last word", position + word.index(">"))
        position += len(word) + 1
    if words[-1] != ">":
        raise PatternError("`>` must be a word of its own", position + words[-1].index(">"))


def _check_characters(text: str, checked: str, grammar: Grammar, error: type[TopicError]) -> None:
    begin = 1 if checked.startswith(SERVICES) else 0
    wrong = (_NOT_STRICT if grammar is STRICT else _NOT_CHANNEL).search(checked, begin)
    if wrong:
        at = wrong.start()
        raise error(f"{text[at]!r} is not allowed ({_ALLOWED[grammar]})", at)
    if grammar is not STRICT:
        if not text:
            raise error("a channel cannot be empty", 0)
        if grammar is CHANNEL and (text[0] == "." or text[-1] == "."):
            raise error("a channel cannot begin or end with `.`", 0 if text[0] == "." else len(text) - 1)


def _native_word(word: str) -> Word:
    if "*" not in word:
        return word
    if word == "*":
        return ONE
    parts = word.split("*")
    middle = tuple([part for part in parts[1:-1] if part])
    return Glob(parts[0], middle, parts[-1]) if parts[0] or middle or parts[-1] else ONE


def split(topic: str) -> list[str]:
    """The words of a topic, native dialect: never none."""
    return topic.split(".")


def literal_prefix(pattern: Pattern) -> str:
    """The words before the first wildcard, joined: every topic that the pattern matches begins with them."""
    literal: list[str] = []
    for word in pattern:
        if not isinstance(word, str):
            break
        literal.append(word)
    return ".".join(literal)


def parse_amqp(text: str) -> Pattern:
    """A pattern in the AMQP dialect (T7): every text is one, `*` and `#` count only as whole words."""
    wildcards: dict[str, Word] = {"*": ONE, "#": MANY}
    return tuple(wildcards.get(word, word) for word in split_amqp(text))


def split_amqp(key: str) -> list[str]:
    """The words of an AMQP routing key: the empty key has none."""
    return key.split(".") if key else []


def covers(wide: Pattern, narrow: Pattern) -> bool:
    """True when `wide` certainly matches every topic that `narrow` matches. Native patterns; in doubt, False."""
    for at, word in enumerate(wide):
        if word is SOME:
            return len(narrow) > at
        if at >= len(narrow) or narrow[at] is SOME:
            return False
        asked = narrow[at]
        if not (
            word is ONE or word == asked or (isinstance(word, Glob) and isinstance(asked, str) and word.fits(asked))
        ):
            return False
    return len(narrow) == len(wide)
