"""Queries explained, facets, previews and copies, on a node without sockets."""

from typing import Any
from urllib.parse import quote

import pytest

from fumarole.core.query.holds import holds
from fumarole.core.query.parse import parse
from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.hot_path import HotPath
from fumarole.sessions.http.explore import MOST_VALUES, Facets, branch
from tests.desk import Desk
from tests.sessions.http.web import Web

ATKA = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
ETNA = "3a1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e61"


@pytest.fixture
def desk(hot_path: HotPath) -> Desk:
    return Desk(hot_path)


@pytest.fixture
def web(desk: Desk) -> Web:
    return Web(desk)


def describe(web: Web, producer: str, metadata: str) -> None:
    assert web.asks("PATCH", f"/v1/producers/{producer}", metadata).status == 200


def explained(web: Web, where: str, producer: str = "") -> Any:
    chosen = f"&id={producer}" if producer else ""
    return web.asks("GET", f"/v1/explain?where={quote(where)}{chosen}").json()


def test_how_a_query_is_read(web: Web) -> None:
    told = explained(web, "not (Kind != 'so2' or $value <= 80)")
    assert told["canonical"] == "$value > 80 AND Kind = 'so2'"
    assert (told["keys"], told["message"]) == (["Kind"], ["$value"])
    assert told["tree"] == {
        "text": "NOT",
        "terms": [{"text": "OR", "terms": [{"text": "Kind != 'so2'"}, {"text": "$value <= 80"}]}],
    }


def test_the_part_of_a_query_that_decides_the_set(web: Web) -> None:
    assert explained(web, "not (Kind != 'so2' or $value <= 80)")["set"] == "Kind = 'so2'"
    assert explained(web, "Kind = 'so2' or $value > 80")["set"] == ""
    assert explained(web, "select Region where has Kind")["set"] == "HAS Kind"


def test_a_mistake_has_its_position(web: Web) -> None:
    said = web.asks("GET", "/v1/explain?where=Kind%20==%20%271%27")
    assert (said.status, said.json()["position"]) == (400, 6)


def test_how_a_view_is_read(web: Web) -> None:
    told = explained(web, "select Region, count(*) where not Kind != 'so2'")
    assert (told["canonical"], told["keys"]) == ("Kind = 'so2'", ["Kind"])
    assert told["view"] == {"keys": ["Region"], "counted": True}
    said = web.asks("GET", "/v1/explain?where=select%20Region%20were%20a")
    assert (said.status, said.json()["position"]) == (400, 14)


def test_why_a_producer_is_in_the_set_or_not(web: Web) -> None:
    describe(web, ATKA, '{"Kind": "so2", "Floor": 4}')
    told = explained(web, "Kind = 'so2' and Floor > 4 and Room = '4' and $value > 1", ATKA)
    assert not told["in_set"]
    assert [term["truth"] for term in told["tree"]["terms"]] == ["true", "false", "unknown", "message"]
    assert explained(web, "Kind = 'so2' and $value > 1", ATKA)["in_set"]
    assert web.asks("GET", f"/v1/explain?where=a=1&id={ETNA}").status == 404


@pytest.mark.parametrize(
    ("where", "truth"),
    [
        ("Kind = 'so2' and $value > 1", "message"),
        ("Kind = 'so2' or $value > 1", "true"),
        ("Kind = 'tilt' and $value > 1", "false"),
        ("Kind = 'tilt' or $value > 1", "message"),
        ("Room = '4' and $value > 1", "unknown"),
        ("Room = '4' or $value > 1", "message"),
        ("not (Kind = 'so2' and $value > 1)", "message"),
        ("not (Kind = 'so2' or $value > 1)", "false"),
        ("Kind = 'so2' and $value is null", "message"),
    ],
)
def test_a_branch_that_a_message_decides(where: str, truth: str) -> None:
    assert branch(parse(where), {"Kind": "so2"})["truth"] == truth


@pytest.mark.parametrize("metadata", [{}, {"a": 1}, {"a": 2}, {"a": "1"}, {"b": True}, {"a": 1, "b": False}])
@pytest.mark.parametrize("where", ["a = 1", "not a = 1", "a = 1 or b", "not (a = 1 and b)", "a is null and not b"])
def test_the_truth_of_each_branch_is_that_of_the_definition(where: str, metadata: dict[str, Any]) -> None:
    query = parse(where)
    names = {True: "true", False: "false", None: "unknown"}
    assert branch(query, metadata)["truth"] == names[holds(query, metadata)]


def test_facets_count_the_producers_selected(web: Web) -> None:
    describe(web, ATKA, '{"Region": "usa", "Critical": true, "Floor": 1}')
    describe(web, ETNA, '{"Region": "italy", "Floor": 1}')
    all_of_them = web.asks("GET", "/v1/facets").json()
    assert all_of_them["producers"] == 2
    floor = next(each for each in all_of_them["keys"] if each["key"] == "Floor")
    assert floor == {"key": "Floor", "name": "Floor", "producers": 2, "values": [{"value": 1, "count": 2}], "more": 0}
    some = web.asks("GET", "/v1/facets?where=Region%20=%20%27italy%27&key=Region&limit=1").json()
    assert (some["producers"], [each["key"] for each in some["keys"]]) == (1, ["Region"])


def test_facets_tell_true_from_one_and_are_bounded() -> None:
    found = Facets()
    for number in range(MOST_VALUES + 10):
        found.add({"n": number, "either": True if number % 2 else 1, "long": "x" * 10_000})
    told = {each["key"]: each for each in found.report(3)["keys"]}
    assert [(each["value"], each["count"]) for each in told["either"]["values"]] == [(1, 1005), (True, 1005)]
    assert told["n"]["more"] == MOST_VALUES - 3 + 10
    assert len(told["long"]["values"][0]["value"]) == 200


def test_facets_and_explanations_show_only_what_the_user_may_receive(desk: Desk) -> None:
    desk.node.authentication = True
    user = User("reader", "default", subscribe=Permissions(allow=(f"readings.{ATKA}",)))
    web = Web(desk, {"reader": user, "writer": User("writer", "default")})
    for producer in (ATKA, ETNA):
        said = web.asks("PATCH", f"/v1/producers/{producer}", '{"Region": "usa"}', Authorization="Bearer writer")
        assert said.status == 200
    seen = web.asks("GET", "/v1/facets", Authorization="Bearer reader").json()
    assert (seen["producers"], seen["keys"][0]["producers"]) == (1, 1)
    for producer, status in ((ATKA, 200), (ETNA, 404)):
        said = web.asks("GET", f"/v1/explain?where=a=1&id={producer}", Authorization="Bearer reader")
        assert said.status == status
    assert web.asks("GET", "/v1/namespaces", Authorization="Bearer reader").status == 403


def test_a_preview_counts_and_changes_nothing(web: Web, desk: Desk) -> None:
    describe(web, ATKA, '{"Region": "usa"}')
    for where in ("Region = 'usa'", "Region = 'italy'", "Region = 'italy' or Floor = 4", "Floor = 4"):
        web.connect().sends("GET", f"/v1/stream?where={quote(where)}")
    told = web.asks("POST", f"/v1/preview/{ATKA}", '{"Region": "italy"}').json()
    assert told == {"enters": 2, "leaves": 1}
    assert web.asks("GET", f"/v1/producers/{ATKA}").json()["metadata"] == {"Region": "usa", "_online": False}


def test_producers_by_their_ids(web: Web) -> None:
    describe(web, ATKA, "{}")
    describe(web, ETNA, "{}")
    told = web.asks("GET", f"/v1/producers?ids={ETNA},{ATKA[:-1]}f").json()
    assert [each["id"] for each in told["producers"]] == [ETNA]
    assert web.asks("GET", "/v1/producers?ids=x").status == 400
    assert web.asks("GET", f"/v1/producers?ids={','.join([ATKA] * 301)}").status == 400


def test_namespaces_with_their_traffic_first(web: Web) -> None:
    web.asks("POST", "/v1/topics/a?namespace=lab", "x")
    told = web.asks("GET", "/v1/namespaces").json()["namespaces"]
    assert told[0]["name"] == "lab" or "lab" not in [each["name"] for each in told]


def test_copies_need_one_of_query_and_pattern(web: Web) -> None:
    assert web.asks("GET", "/v1/copies").status == 400
    assert web.asks("GET", "/v1/copies?where=a=1&topic=b").status == 400
    assert web.asks("GET", "/v1/copies?where=a%20=").status == 400
    forms = web.asks("GET", "/v1/copies?where=a=1").json()["copies"]
    assert all(bool(each["lines"]) != bool(each["why_not"]) for each in forms)


def test_a_connection_that_is_not_there_cannot_be_cut_off(web: Web) -> None:
    for number in ("7", "x", "-1", "9" * 40):
        assert web.asks("DELETE", f"/v1/connections/{number}").status == 404
