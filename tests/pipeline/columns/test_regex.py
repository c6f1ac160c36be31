"""RE2's expressions in Java's words: the same texts, asked of both."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from fumarole.core.query.regex import RegexError, finder
from fumarole.pipeline.columns.regex import java_regex
from fumarole.pipeline.columns.regex_tree import CannotTranslateError

TEXTS = [
    "", "a", "b", "ab", "aab", "abab", "A", "aB", "a\n", "\n", "a\nb", "a\r\nb", "\r", "\u0085", "\u2028", "a b", "_", "-",
    "k", "K", "\u212a", "s", "S", "ſ", "i", "I", "ı", "İ", "ß", "ẞ", "ss", "é", "É", "e\u0301", "火", "🌋", "🌋a", "a🌋", "٣", "1", "12",
    "\x0b", "\x0c", "\t", " ", "\xa0", "a.b", ".", "*", "[", "]", "{2}", "a{,2}", "x" * 60 + "!", "foo bar", "foobar", "\0", "aéb", "Σ", "σ", "ς", "ǅ",
]  # fmt: skip

EXPRESSIONS = [
    "", "a", "^a", "b$", "^$", "$^", "^(a|b)+$", "(?i)B", "^.$", "(?s)^.$", "(?m)^b$", "(?m)^$", "(?sm)a.b$", r"\s", r"^\s$", r"\S", r"\d", r"^\D$",
    r"\w", r"^\W$", r"\bfoo\b", r"\ba", r"a\b", "[[:alpha:]]", "[^[:space:]]", "[[:^word:]]", r"[\d\s]", r"[^\d\n]", "[]a]", "[^]a]", "[a-]", r"\pL", r"^\PL$",
    r"\p{Greek}", r"\p{^Lu}", "(?i)k", "(?i)[k-s]", "(?i)[^k]", "(?i)ß", "(?i)i", "(?i)σ", "(?i)é", "(?i)ǆ", "^..$", "^🌋", "[🌋]", "[^🌋]", "[^a]", "^[^a]$",
    r"\Qa.b\E", r"\Q*\E", r"a\.b", "a{,2}", "a{2}", "(ab){2}", "a{0,1}b", "a{2,}", "(?P<x>a)(?<y>b)", "(?:a)(?i:B)b", "(?i)a(?-i)b", "a(?i)b|c", "a|", "(|a)b", "a??b", "(?U)a+",
    r"\x61", r"\x{1F30B}", r"\141", r"\t|\v|\f", r"\A", r"\z", r"a\z", "^*a", "(x+)+$", "(x*)*$", "(x|x)*$", "(?:x*y*)*!$", "(x+y?)+$", "(a*)*", "(a|b|ab)", "[[:ascii:]]", "é", r"[\x{0}-\x{10FFFF}]",
    r"[^\x{0}-\x{10FFFF}]", "a|[^\\x00-\\x{10FFFF}]", "x{2", "]", "}",
    "^a(?i)*b$", r"^a\Q\E*b$", "^a(?i){2}b$", r"^x\Q\E{60}!", "a*(?i)?b", "^a(?s)(?m)+b", r"^\Qaa\E(?i)*b", "(?P<e\u0301>a)b", "(?<é>a)",
    "(a|ab|b)*c", "(?:a.*)*b", r"(\w|\d\d)+$", "(x{1,9}){1,9}!$", "(a?b?c?a?){9}$", "a?" * 40 + "b", ".*a.*", ".+b+?", "(?:.*a|b+)b", r"(^|.*)a\n*", r".*\ba", "(a*|$)b*",
    "a.*b.*a", "^.*a.*b", ".*x+.+!$", r"^.*\bf.*\bb.*r$", "o.*(b|oo|ba).*r", "o.*(ob|a|ba).*r", "^[ab]+b[abc]*c?$", "^a[^b]*a.*b$", "(?s)a.*b.*a$", "^(?:a.*b.*a\n)*$", "^.*(a|bab|).*b$", r"^\s*\w+\s.*b",
]  # fmt: skip

_atoms = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        r"\w",
        r"\s",
        r"\b",
        "^",
        "$",
        "é",
        "(?i:a)",
        "k",
        r"\d",
        "x",
        "🌋",
        r"\n",
        "(?s:.)",
    ]
)
_regexes = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(".*".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,3}", "*?", "{1,5}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
        inner.map(lambda one: f"(?i)(?:{one})"),
        inner.map(lambda one: f"(?m:{one})"),
    ),
    max_leaves=7,
)


def compare(spark: SparkSession, expressions: list[str], texts: list[str]) -> None:
    rows = []
    for expression in expressions:
        found = finder(expression)
        java = java_regex(expression)
        rows += [(expression, java, text, found(text)) for text in texts]
    frame = spark.createDataFrame(rows, "expression string, java string, text string, expected boolean")
    wrong = frame.where(sf.regexp(sf.col("text"), sf.col("java")) != sf.col("expected")).collect()
    assert [(row["expression"], row["java"], row["text"], row["expected"]) for row in wrong] == []


def test_expressions_by_hand(spark: SparkSession) -> None:
    compare(spark, EXPRESSIONS, TEXTS)


def test_random_expressions(spark: SparkSession) -> None:
    drawn: set[str] = set()

    @settings(max_examples=600)
    @given(_regexes)
    def draw(expression: str) -> None:
        drawn.add(expression)

    draw()
    usable = []
    for expression in sorted(drawn):
        try:
            finder(expression)
            java_regex(expression)
        except (RegexError, CannotTranslateError):
            continue
        usable.append(expression)
    assert len(usable) > len(drawn) * 0.8
    chance = random.Random(1)
    texts = ["".join(chance.choices("ab éKkx1🌋\n_", k=chance.randrange(7))) for _ in range(12)]
    compare(spark, usable, ["", "a", "xx", "aab", *texts])


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (r"^(a|ab|b)*c", "more than one way"),
        (r"^(?:a.*)*b", "more than one way"),
        (r"^(\w|\d\d)+$", "more than one way"),
        ("^(x{1,30}){1,30}$", "more than one way"),
        ("^(a?b?c?a?){9}$", "more than one way"),
        (r"^\w+-?\w+-?\w+-?\w+$", "share their text"),
        (r"x\w*\d?\w*\d?\w*y", "share their text"),
        (r"^(\s*\w+\s*,?\s*){1,3}$", "share their text"),
        ("x" + "a{0,9}b?" * 5 + "y", "share their text"),
        ("x" + "a?" * 12 + "b", "choices"),
        ("^(?:(?:(?:(?:a?){3}){3}){3}){3}b", "choices"),
        ("^" + "(a|ab)(b|)" * 12 + "$", "choices"),
    ],
)
def test_what_could_take_for_ever_is_refused(expression: str, why: str) -> None:
    with pytest.raises(CannotTranslateError, match=why):
        java_regex(expression)


@pytest.mark.parametrize("states", [40, 148])
def test_it_is_refused_at_once(states: int) -> None:
    begin = time.monotonic()
    with pytest.raises(CannotTranslateError, match="more than one way"):
        java_regex("^(?:x" + ".?" * states + ")*y")
    assert time.monotonic() - begin < 2


@pytest.mark.parametrize(
    "expression",
    [
        r"([a-z]+\.)+[a-z]+$",
        r"(?:\w+\s)*\w+$",
        "(north|south|east|west)+",
        r"^(\d{1,3}\.){3}\d{1,3}$",
        "(?:ab|cd)*$",
        "^etna-.*-(north|south)$",
        ".*a.*",
        r"\d+\.\d+",
        r"^\d+-\d+-\d+-\d+-\d+$",
        r"^[a-z]{4}.{4}\d{4}[0-9]{4}$",
        "(error|warn).*(disk|net).*(full|dead)",
        "^.*,.*,.*,.*$",
        r"^https?://(www\.)?[a-z.]+(:\d+)?(/.*)?$",
        r"^[\w.+-]+@[\w-]+\.[\w.-]+$",
        "^(" + "|".join([f"station-{number}" for number in range(80)]) + ")$",
        r"^\s*\w+\s+.*foo.*bar\s*$",
    ],
)
def test_what_can_be_read_in_few_ways_is_not(expression: str) -> None:
    assert java_regex(expression)


@pytest.mark.parametrize(("expression", "why"), [(r"a\Cb", "one byte"), (r"\Ba", "between its bytes")])
def test_what_only_bytes_have_is_refused(expression: str, why: str) -> None:
    with pytest.raises(CannotTranslateError, match=why):
        java_regex(expression)


def test_long_texts_are_read_in_time(spark: SparkSession) -> None:
    """As long as metadata may be."""
    long = ["x" * 8000 + "!", "ab" * 4000, "a.b." * 2000, "word " * 1600]
    expressions = ["(x+)+$", "^(ab)*$", r"^([a-z]\.)*$", r"^(\w+ )*$", "(a|b)*c", "^(ab|cd|ef)+$"]
    expressions += ["^x.*x.*x.*y", ".*x.*x.*x.*y", "^a.*(b|rd).*(b|rd).*c", r"^.*\w+.*\d+$"]
    begin = time.monotonic()
    compare(spark, expressions, long)
    assert time.monotonic() - begin < 30
