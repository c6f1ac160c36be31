"""What is offered under "copy as": each form compiles, quotes what it is given, and says why where there is none."""

import ast
import shlex

import pytest

from fumarole.sessions.http.copies import Copy, copies

DOORS = {"nats": 4222, "msgpack": 4444, "mqtt": 1883, "http": 8222}
HOSTILE = "Name = '$(touch x)' or Name = \"`id`\" or `a'b` = 'it''s \\ \n'"


def made(
    where: str = "", topic: str = "", namespace: str = "default", doors: dict[str, int] = DOORS
) -> dict[str, Copy]:
    found = copies(where=where, topic=topic, host="127.0.0.1", doors=doors, namespace=namespace)
    return {each.form: each for each in found}


@pytest.mark.parametrize("where", ["Region = 'italy'", HOSTILE])
def test_programs_have_the_query_as_it_is(where: str) -> None:
    forms = made(where=where)
    for form in ("python", "msgpack", "spark"):
        strings = [node.value for node in ast.walk(ast.parse(forms[form].lines)) if isinstance(node, ast.Constant)]
        assert where in strings
    assert where in shlex.split(forms["fumarole"].lines)
    assert where in shlex.split(forms["nats"].lines.partition("\n")[2])
    assert len(shlex.split(forms["curl"].lines)) == 3


@pytest.mark.parametrize("topic", ["volcanoes.>", "volcanoes.*.atka", "a'b", "$(x)"])
def test_commands_have_the_pattern_as_it_is(topic: str) -> None:
    forms = made(topic=topic)
    assert topic in shlex.split(forms["fumarole"].lines)
    assert topic in shlex.split(forms["nats"].lines)


FILTERS = {"volcanoes.*.atka": "volcanoes/+/atka", ">": "'#'", "a": "a", "a.b": "a/b"}


@pytest.mark.parametrize("topic", FILTERS)
def test_patterns_of_mqtt(topic: str) -> None:
    assert made(topic=topic)["mosquitto_sub"].lines.endswith(f"-t {FILTERS[topic]}")


VIEW = "select Room, count(*) where Kind = 'it''s'"


def test_programs_have_the_view_as_it_is() -> None:
    forms = made(where=VIEW)
    for form in ("python", "msgpack"):
        assert VIEW in [node.value for node in ast.walk(ast.parse(forms[form].lines)) if isinstance(node, ast.Constant)]
    assert VIEW in shlex.split(forms["nats"].lines.partition("\n")[2])
    assert VIEW in shlex.split(forms["fumarole"].lines)
    assert "view" in forms["javascript"].lines


REASONS = {
    "a view in Spark": (made(where=VIEW), "spark", "reads messages"),
    "a query": (made(where="a = 1"), "mosquitto_sub", "MQTT has no place for a query"),
    "`>` below a word": (made(topic="a.>"), "mosquitto_sub", "matches the level above it too"),
    "a wildcard in a word": (made(topic="a*"), "mosquitto_sub", "no wildcard inside a level"),
    "a closed door": (made(where="a = 1", doors={"nats": 1}), "msgpack", "is closed"),
    "another namespace": (made(topic="a", namespace="lab"), "mosquitto_sub", "in one namespace"),
}


@pytest.mark.parametrize("case", REASONS)
def test_why_there_is_no_form(case: str) -> None:
    forms, form, reason = REASONS[case]
    assert (forms[form].lines, reason in forms[form].why_not) == ("", True)


def test_another_namespace_is_chosen() -> None:
    forms = made(where="a = 1", namespace="lab")
    assert "nats://lab@127.0.0.1:4222" in forms["python"].lines
    assert "namespace=lab" in forms["curl"].lines
