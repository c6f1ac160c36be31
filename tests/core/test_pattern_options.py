import pytest

from fumarole.core.errors import PatternError
from fumarole.core.pattern_options import NONE, Options, parse_with_options, split_options
from fumarole.core.topic import Grammar

SPLIT = [
    ("plain", "volcanoes.>", NONE, "volcanoes.>"),
    ("last", "$LAST.volcanoes.>", Options(last=True), "volcanoes.>"),
    ("every", "$EVERY.500ms.volcanoes.>", Options(every=0.5), "volcanoes.>"),
    ("whole seconds", "$EVERY.2.a", Options(every=2.0), "a"),
    ("no clock", "$EVERY.0.a", Options(every=0.0), "a"),
    ("both", "$LAST.$EVERY.1s.a", Options(last=True, every=1.0), "a"),
    ("both, the other way round", "$EVERY.1s.$LAST.a", Options(last=True, every=1.0), "a"),
    ("alone", "$LAST", Options(last=True), ">"),
    ("the empty topic", "$LAST.", Options(last=True), ""),
    ("other topics of the server", "$SRV.PING", NONE, "$SRV.PING"),
    ("another case", "$last.a", NONE, "$last.a"),
    ("inside", "a.$LAST.b", NONE, "a.$LAST.b"),
]  # fmt: skip
FAULTS = [
    ("last twice", "$LAST.$LAST.a", 6, "a second time"),
    ("every twice", "$EVERY.1s.$EVERY.2s.a", 10, "a second time"),
    ("no period", "$EVERY", 6, "without a period"),
    ("no period either", "$EVERY..a", 7, "without a period"),
    ("no period at all", "$LAST.$EVERY.volcanoes.>", 13, "expected seconds"),
    ("nanoseconds", "$EVERY.1ns.a", 7, "expected seconds"),
    ("centuries", "$EVERY.876000h.a", 7, "from 1ms to 24h"),
    ("the pattern itself", "$LAST.a.>.b", 8, "must be the last word"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "pattern"), [row[1:] for row in SPLIT], ids=[row[0] for row in SPLIT])
def test_splitting(text: str, options: Options, pattern: str) -> None:
    assert split_options(text) == (options, pattern)


@pytest.mark.parametrize(("text", "position", "fault"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_faults(text: str, position: int, fault: str) -> None:
    with pytest.raises(PatternError, match=fault) as raised:
        parse_with_options(text, Grammar.STRICT)
    assert raised.value.position == position
