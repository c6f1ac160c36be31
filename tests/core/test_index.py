import ast
import random
import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core import index as plain
from fumarole.core.topic import Pattern, matches, parse_amqp, parse_pattern, split, split_amqp
from fumarole.fastpath import index as compiled
from tests.conformance.tables import AMQP_BINDINGS, AMQP_KEYS, NATIVE
from tests.core.strategies import bindings, keys, patterns, topics


@pytest.fixture(params=[plain, compiled], ids=["plain", "compiled"])
def index(request: pytest.FixtureRequest) -> plain.Index:
    made: plain.Index = request.param.Index()
    return made


def found(index: plain.Index, words: list[str]) -> list[object]:
    return [value for node in index.match(words) for value in node.values or ()]


def test_the_table_all_at_once(index: plain.Index) -> None:
    for pattern in {row.pattern for row in NATIVE}:
        index.add(parse_pattern(pattern), pattern)
    for row in NATIVE:
        assert (row.pattern in found(index, split(row.topic))) is row.matches, row.name


def test_the_amqp_table(index: plain.Index) -> None:
    for name, text in AMQP_BINDINGS.items():
        index.add(parse_amqp(text), name)
    for key, names in AMQP_KEYS.items():
        assert sorted(found(index, split_amqp(key))) == names.split()  # type: ignore[type-var]


@pytest.mark.parametrize("module", [plain, compiled], ids=["plain", "compiled"])
@given(st.lists(patterns, max_size=12), st.lists(topics, max_size=6))
def test_equals_the_definition(module: object, texts: list[str], asked: list[str]) -> None:
    """T8, and each value is found once."""
    made: plain.Index = module.Index()  # type: ignore[attr-defined]
    for text in texts:
        made.add(parse_pattern(text), text)
    assert len(made) == len(set(texts))
    for topic in asked:
        expected = {text for text in texts if matches(parse_pattern(text), split(topic))}
        answer = found(made, split(topic))
        assert len(answer) == len(expected)
        assert set(answer) == expected


@pytest.mark.parametrize("module", [plain, compiled], ids=["plain", "compiled"])
@given(st.lists(bindings, max_size=10), st.lists(keys, max_size=6))
def test_equals_the_definition_in_amqp(module: object, texts: list[str], asked: list[str]) -> None:
    made: plain.Index = module.Index()  # type: ignore[attr-defined]
    for text in texts:
        made.add(parse_amqp(text), text)
    for key in asked:
        expected = {text for text in texts if matches(parse_amqp(text), split_amqp(key))}
        answer = found(made, split_amqp(key))
        assert len(answer) == len(expected)
        assert set(answer) == expected


def test_add_at_random_remove_at_random_nothing_is_left(index: plain.Index) -> None:
    chance = random.Random(7)
    words = ["a", "b", "c", "*", "a*", "*b", "a*c"]
    held: dict[tuple[str, int], Pattern] = {}
    for number in range(3000):
        text = ".".join(chance.choices(words, k=chance.randint(1, 4))) + chance.choice(["", ".>"])
        held[text, number] = parse_pattern(text)
        index.add(held[text, number], (text, number))
        if chance.random() < 0.4:
            value = chance.choice(list(held))
            assert index.remove(held.pop(value), value)
            assert not index.remove(parse_pattern(value[0]), value)
    assert len(index) == len(held)
    for topic in ("a.b", "abc.a.b", "c", "ab.b.c.a.a"):
        expected = {value for value, pattern in held.items() if matches(pattern, split(topic))}
        assert set(found(index, split(topic))) == expected
    assert sorted(index) == sorted(held)
    for value in chance.sample(list(held), len(held)):
        assert index.remove(held[value], value)
    assert len(index) == 0
    assert plain._is_empty(index._root)


def test_who_keeps_an_answer_can_tell_whether_it_is_right(index: plain.Index) -> None:
    """Other levels are found only after an `add` that says so; those found say when their values changed."""
    assert index.add(parse_pattern("a.>"), 1)
    (node,) = index.match(["a", "b"])
    version = index.version
    assert index.add(parse_pattern("x.*"), 2)
    assert node.version <= version < index.version
    assert not index.add(parse_pattern("a.>"), 3)
    assert node.version == index.version
    assert index.match(["a", "b"]) == [node]
    assert list(node.values or ()) == [1, 3]


def test_a_pattern_that_comes_and_goes_is_not_new_each_time(index: plain.Index) -> None:
    index.add(("a",), "stays")
    assert index.add(parse_pattern(">"), 1)
    for number in range(10):
        assert index.remove(parse_pattern(">"), number or 1)
        assert found(index, ["a"]) == ["stays"]
        assert not index.add(parse_pattern(">"), number + 1)
        assert sorted(found(index, ["a"]), key=str) == [number + 1, "stays"]


def test_patterns_that_went_do_not_pile_up(index: plain.Index) -> None:
    index.add(("stays",), 0)
    for number in range(1000):
        index.add(("b", str(number), "c"), number)
        index.remove(("b", str(number), "c"), number)
    assert sum(bool(index.match(["b", str(number), "c"])) for number in range(1000)) == plain.IDLE_KEPT
    index.remove(("stays",), 0)
    assert plain._is_empty(index._root)


def test_a_node_that_was_only_on_the_way_becomes_one_that_is_found(index: plain.Index) -> None:
    index.add(("a", "b", "c"), "long")
    assert index.match(["a", "b"]) == []
    assert index.add(("a", "b"), "short")
    assert found(index, ["a", "b"]) == ["short"]


def test_adding_twice_counts_once(index: plain.Index) -> None:
    index.add(("a",), "x")
    index.add(("a",), "x")
    assert len(index) == 1
    assert index.remove(("a",), "x")
    assert len(index) == 0


def test_many_wildcards_and_long_topics_stay_cheap(index: plain.Index) -> None:
    """T7, and nothing is recursive: a cost that grew exponentially, or a stack, would not come through this."""
    index.add(parse_amqp(".".join(["#", "a"] * 40)), "many")
    index.add(parse_pattern(".".join(["*"] * 2000)), "long")
    index.add(parse_pattern(".".join(["a*a*a"] * 50)), "globs")
    assert found(index, ["a"] * 2000) == ["long", "many"] or found(index, ["a"] * 2000) == ["many", "long"]
    assert found(index, ["a"] * 1999 + ["b"]) == ["long"]
    assert "globs" in found(index, ["a" * 60] * 50)


@pytest.mark.parametrize("module", [plain, compiled], ids=["plain", "compiled"])
@given(st.sets(st.text("ab*", min_size=2, max_size=9), max_size=60), st.lists(st.text("ab", max_size=8), max_size=6))
def test_globs_equal_the_definition(module: object, texts: set[str], words: list[str]) -> None:
    """More of a shape than a word has places, and fewer."""
    made: plain.Index = module.Index()  # type: ignore[attr-defined]
    for text in texts:
        made.add(parse_pattern(text), text)
    for word in words:
        answer = found(made, [word])
        assert sorted(answer) == sorted(t for t in texts if matches(parse_pattern(t), [word]))  # type: ignore[type-var]
    for text in texts:
        assert made.remove(parse_pattern(text), text)
    assert plain._is_empty(made._root)


@pytest.mark.parametrize("glob", ["sensor-{}*", "*-{}", "*-{}-*", "*sensor-{}*east*"])
def test_globs_are_found_by_what_is_fixed_about_them(index: plain.Index, glob: str) -> None:
    for number in range(5000):
        index.add(parse_pattern(glob.format(number)), number)
    before = index.looked_at
    assert found(index, ["x-1234-y"]) == ([1234] if glob == "*-{}-*" else [])
    assert index.looked_at - before < 100


def test_what_a_match_looks_at_is_counted(index: plain.Index) -> None:
    """A publisher can tell what a topic took, however its patterns were made."""
    for words in product("a*", repeat=10):
        index.add(parse_pattern(".".join([*words, "b"])), words)
    assert index.looked_at == 0
    assert found(index, ["a"] * 10 + ["c"]) == []
    assert index.looked_at >= 2**10
    for number in range(1000):
        index.add(parse_pattern(f"*all-alike-{number}*"), number)
    before = index.looked_at
    assert found(index, ["all-alike-"]) == []
    assert index.looked_at - before >= 1000


def test_the_c_types_name_variables_that_are_there() -> None:
    """A variable that is renamed here and not in fastpath/index.pxd loses its type, and with it a third of the speed."""
    source = Path(plain.__file__)
    used: dict[str, set[str]] = {}
    for node in ast.parse(source.read_text()).body:
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, ast.FunctionDef):
                place = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                used[f"{place}{each.name}"] = {word.id for word in ast.walk(each) if isinstance(word, ast.Name)}
    place, typed = "", 0
    text = (source.parents[1] / "fastpath" / "index.pxd").read_text()
    for opened, variables, name in re.findall(
        r"(?m)^cdef class (\w+)|^ *@cython\.locals\(([^)]*)\)\s*cp?def [\w ]*?(\w+)\(", text
    ):
        place = f"{opened}." if opened else place
        if name:
            typed += 1
            known = used[f"{place}{name}" if f"{place}{name}" in used else name]
            assert set(re.findall(r"(\w+)=", variables)) <= known, name
    assert typed == 6
