"""The description of the calls that programs read (OpenAPI 3.1) and the one that people read, made from the table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from fumarole.protocols import http
from fumarole.sessions.http.call import EVENTS, JSON, NDJSON
from fumarole.sessions.http.routes import COMMON, Access, Parameter, Route

PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "position": {"type": "integer"},
    },
}
_KINDS: Final = {
    "text": {"type": "string"},
    "count": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    "seconds": {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(ms|s|m|h)?$"},
    "flag": {"type": "string", "enum": ["0", "1", "true", "false"]},
}
_BODIES: Final = {JSON: {"type": "object"}, NDJSON: {"type": "string"}, EVENTS: {"type": "string"}}
_IN_BRACES = re.compile(r"\{(\w+)\}")
_WORDS: Final = {
    "topic": "The words of a topic, with `/` or `.` between them.",
    "pattern": "The words of a pattern, with `/` or `.` between them.",
    "id": "The id of a producer or a stream, or the number of a connection.",
}
ALWAYS: Final = {
    401: "A user is needed.",
    403: "Not allowed, or asked from another site.",
    405: "Not with this method.",
    431: "The head is too long.",
}
OTHERS: Final = "Any other refusal: a parameter that there is not, a body that comes too slowly, too many requests."
ELSEWHERE: Final = "`node` names another node, whose address is in `Location`."


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """All calls."""
    paths: dict[str, Any] = {}
    for route in routes:
        # Two paths that differ only by a name in braces are one path to OpenAPI.
        paths.setdefault(route.path.replace("{pattern}", "{topic}"), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fumarole",
            "version": version,
            "description": "A message exchange for many small, fresh messages.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {"problem": PROBLEM},
            "securitySchemes": {
                "password": {"type": "http", "scheme": "basic"},
                "token": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "fumarole"},
            },
        },
        "security": [{}, {"password": []}, {"token": []}, {"cookie": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    made: dict[str, Any] = {"summary": route.summary, "operationId": _name(route)}
    words = [
        {
            "name": name.replace("pattern", "topic"),
            "in": "path",
            "required": True,
            "description": _WORDS[name],
            "schema": _word(route, name),
        }
        for name in _IN_BRACES.findall(route.path)
    ]
    common = () if route.access is Access.OPEN else COMMON
    made["parameters"] = words + [_parameter(each) for each in (*route.parameters, *common)]
    if route.body:
        made["requestBody"] = {"content": {route.body: {"schema": _BODIES.get(route.body, {"type": "string"})}}}
    made["responses"] = {
        str(status): _answer(route, status, text) for status, text in sorted({**ALWAYS, **route.answers}.items())
    }
    made["responses"]["default"] = _answer(route, 400, OTHERS)
    if route.access is Access.OPEN:
        made["security"] = [{}]
    else:
        made["responses"]["307"] = {"description": ELSEWHERE}
    return made


def _word(route: Route, name: str) -> dict[str, Any]:
    if name != "id":
        return {"type": "string", "minLength": 1}
    if "streams" in route.path:
        return {"type": "string", "pattern": "^[0-9a-z]{1,64}$"}
    return {"type": "integer", "minimum": 1} if "connections" in route.path else {"type": "string", "format": "uuid"}


def _name(route: Route) -> str:
    words = re.findall(r"\w+", route.path.removeprefix("/v1"))
    return "_".join([route.method.lower(), *words])


def _parameter(each: Parameter) -> dict[str, Any]:
    made: dict[str, Any] = {"name": each.name, "in": "query", "description": each.text, "schema": _KINDS[each.kind]}
    if each.example:
        made["example"] = int(each.example) if each.kind == "count" else each.example
    return made


def _answer(route: Route, status: int, text: str) -> dict[str, Any]:
    if status >= 400:
        return {"description": text, "content": {http.PROBLEM: {"schema": {"$ref": "#/components/schemas/problem"}}}}
    if status in (204, 304):
        return {"description": text}
    return {
        "description": text,
        "content": {kind: {"schema": _BODIES.get(kind, {"type": "string"})} for kind in route.produces},
    }


def table(routes: Iterable[Route]) -> str:
    """The same as rows of Markdown."""
    rows = ["| call | what it does | for | parameters |", "|---|---|---|---|"]
    for route in routes:
        names = ", ".join(f"`{each.name}`" for each in route.parameters)
        rows.append(f"| `{route.method} {route.path}` | {route.summary} | {route.access.value} | {names} |")
    return "\n".join(rows)
