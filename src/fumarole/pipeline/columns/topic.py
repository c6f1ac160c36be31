"""A topic pattern as a Spark column."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from fumarole.core.topic import ONE, SOME, STRICT, Glob, Grammar, Word, literal_prefix, parse_pattern
from fumarole.pipeline.columns.regex import java_in_order, java_literal

_NOT_A_DOT = r"[^\x{2e}]"


def topic_matches(column: Column | str, pattern: str, grammar: Grammar = STRICT) -> Column:
    """Does the topic in this column match the pattern? Null where the topic is. Raises PatternError.

    Where a prefix or equality says it all, that is the column, so that Parquet's own statistics can be used; otherwise
    a regular expression, behind the prefix that it begins with.
    """
    topic = (sf.col(column) if isinstance(column, str) else column).cast("string")  # letters have one case
    words = parse_pattern(pattern, grammar)
    if all(isinstance(word, str) for word in words):
        return topic == sf.lit(pattern)
    prefix = literal_prefix(words)
    dotted = f"{prefix}." if prefix or isinstance(words[0], str) else ""
    begins = topic.startswith(sf.lit(dotted))
    if words[-1] is SOME and all(isinstance(word, str) for word in words[:-1]):
        return begins if dotted else sf.when(topic.isNotNull(), sf.lit(True))
    matched = topic.rlike(_regex(words))
    return begins & matched if dotted else matched


def _regex(words: tuple[Word, ...]) -> str:
    return r"\A" + r"\x{2e}".join(map(_word, words)) + r"\z"


def _word(word: Word) -> str:
    if word is ONE:
        return f"{_NOT_A_DOT}*+"
    if word is SOME:
        return "(?s:.*)"
    if isinstance(word, Glob):
        return java_in_order([*map(java_literal, (word.prefix, *word.middle, word.suffix))], _NOT_A_DOT)
    assert isinstance(word, str)
    return java_literal(word)
