"""Topics and patterns on their way to the wire and back.

Only the server knows the grammar of the namespace. So the client refuses only text that would break the protocol's
lines, or that no grammar allows. The empty topic is `$EMPTY` on the wire (T9).
"""

import re

from fumarole.core.errors import PatternError, TopicError
from fumarole.core.pattern_options import EVERY, LAST
from fumarole.core.periods import parse_every

EMPTY = b"$EMPTY"
KEPT = 16_384
"""The number of topics in the cache of encoded forms."""
_NOT_IN_PATTERN = re.compile(r"[\s\x00-\x20\x7f-\x9f]")
_NOT_IN_TOPIC = re.compile(r"[\s\x00-\x20\x7f-\x9f*>]")


def encode_topic(topic: str) -> bytes:
    """A topic to publish to. Raises TopicError."""
    wrong = _NOT_IN_TOPIC.search(topic)
    if wrong:
        kind = "a wildcard; a topic has none" if wrong[0] in "*>" else "white space or a control character"
        raise TopicError(f"{topic!r} has {kind}", wrong.start())
    return _encode(topic, TopicError)


def encode_pattern(pattern: str) -> bytes:
    """A pattern to subscribe to, or the name of a group. Raises PatternError."""
    wrong = _NOT_IN_PATTERN.search(pattern)
    if wrong:
        raise PatternError(f"{pattern!r} has white space or a control character", wrong.start())
    return _encode(pattern, PatternError)


def encode_options(last: bool, every: float | str | None) -> bytes:
    """The options of a subscription as leading words of its pattern (F9). Raises PeriodError."""
    words = [LAST] if last else []
    if every is not None:
        words += [EVERY, f"{round(parse_every(every) * 1000)}ms"]
    return "".join([f"{word}." for word in words]).encode()


def _encode(text: str, error: type[TopicError]) -> bytes:
    try:
        return text.encode() or EMPTY
    except UnicodeEncodeError as fault:
        raise error(f"{text!r} is not text in Unicode", fault.start) from None


class EncodedTopics(dict[str, bytes]):
    """A cache of topics and their bytes. It checks and encodes a topic on its first use."""

    def __missing__(self, topic: str) -> bytes:
        encoded = encode_topic(topic)
        if len(self) >= KEPT:
            self.clear()
        self[topic] = encoded
        return encoded


class DecodedTopics(dict[bytes, str]):
    """The other direction, for arriving topics."""

    def __missing__(self, topic: bytes) -> str:
        decoded = "" if topic == EMPTY else topic.decode("utf-8", "replace")
        if len(self) >= KEPT:
            self.clear()
        self[topic] = decoded
        return decoded


decoded_topics = DecodedTopics()
