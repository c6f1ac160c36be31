import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.config.mistakes import ConfigurationError, KeyPath, Mistake, Origin, Report, key_text, nearest, shown

FILE = Origin("f.toml", 3)

TEXTS = {
    "in a file": (Mistake(FILE, "log.level", "'x'", "y"), "f.toml:3: log.level: found 'x', expected y"),
    "of a variable": (Mistake(Origin("FUMAROLE_X"), "a", "b", "c"), "FUMAROLE_X: a: found b, expected c"),
    "without a key": (Mistake(Origin("f"), "", "b", "c"), "f: found b, expected c"),
    "with a suggestion": (Mistake(FILE, "a", "b", "c", "d"), "f.toml:3: a: found b, expected c (did you mean d?)"),
}


@pytest.mark.parametrize(("mistake", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_text(mistake: Mistake, text: str) -> None:
    assert str(mistake) == text


def test_mistakes_are_in_the_order_of_lines_then_variables_then_flags() -> None:
    places = [Origin("--nats"), Origin("FUMAROLE_B"), Origin("f", 10), Origin("f", 9), Origin("FUMAROLE_A")]
    error = ConfigurationError(Mistake(place, "", "x", "y") for place in places)
    assert [str(mistake.origin) for mistake in error.mistakes] == ["f:9", "f:10", "FUMAROLE_B", "FUMAROLE_A", "--nats"]
    assert str(error).count("\n") == len(places) - 1


KEYS: dict[str, tuple[KeyPath, str]] = {
    "the root": ((), ""),
    "a table's key": (("limits", "payload"), "limits.payload"),
    "a list's item": (("users", 0, "publish", "allow", 12), "users[0].publish.allow[12]"),
    "a key with a dot": (("a.b", "c"), "'a.b'.c"),
    "a key with control characters": (("a\x1b[1m",), r"'a\x1b[1m'"),
    "an empty key": (("a", ""), "a.''"),
}


@pytest.mark.parametrize(("path", "text"), KEYS.values(), ids=KEYS.keys())
def test_key_text(path: KeyPath, text: str) -> None:
    assert key_text(path) == text


SHOWN = {
    "text": ("big", "'big'"),
    "an empty text": ("", "an empty text"),
    "the longest text": ("x" * 60, f"'{'x' * 60}'"),
    "a longer text": ("x" * 61, f"'{'x' * 60}…'"),
    "a number": (5, "5"),
    "a number with a fraction": (0.5, "0.5"),
    "not a number": (float("nan"), "nan"),
    "a number of many digits": (10**4000, "a huge number"),
    "true": (True, "true"),
    "a table, whatever is in it": ({"password": "hunter2"}, "a table"),
    "a list, whatever is in it": (["hunter2"], "a list"),
    "credentials in a URL": ("nats://ada:hunter2@host", "'nats://…@host'"),
    "credentials with the marks of a URL": ("nats://ada:hun/t@er2@host", "'nats://…@host'"),
}


@pytest.mark.parametrize(("value", "text"), SHOWN.values(), ids=SHOWN.keys())
def test_shown(value: object, text: str) -> None:
    assert shown(value) == text


@given(st.text())
def test_texts_are_shown_short_and_printable(text: str) -> None:
    assert shown(text).isprintable()
    assert len(shown(text)) <= 10 * 61 + 2


NEAREST = {
    "a letter too few": ("paylod", "payload"),
    "another case": ("PAYLOAD", "payload"),
    "nothing near": ("zebra", None),
    "nothing at all": ("", None),
}


@pytest.mark.parametrize(("word", "expected"), NEAREST.values(), ids=NEAREST.keys())
def test_nearest(word: str, expected: str | None) -> None:
    assert nearest(word, ["payload", "outbox"]) == expected


def test_what_was_not_written_stands_where_its_table_stands() -> None:
    report = Report({(): Origin("f", 1), ("tls",): Origin("f", 7)})
    report.add(("tls", "key"), "nothing", "a value")
    report.add(("log",), "nothing", "a value")
    assert [(mistake.key, mistake.line) for mistake in report.mistakes] == [("tls.key", 7), ("log", 1)]
