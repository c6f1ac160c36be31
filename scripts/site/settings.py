"""Every setting with its variable, flag and kind, from the types that the configuration itself is read by."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import inspect

from fumarole.config.schema import FLAGS, ROOT, VARIABLES, fields_of, table_of

HEAD: Final = "| setting | default | meaning |\n|---|---|---|\n"
COMPLETE_HEAD: Final = "| setting | variable and flag | kind | default | meaning |\n|---|---|---|---|---|\n"
ROW: Final = re.compile(r"^\| `(?P<name>[^`]+)` \|(?P<rest>.*)$", re.MULTILINE)
KINDS: Final = {
    "read_count": "a whole number above 0",
    "read_query_depth": "a whole number",
    "read_qos": "0, 1 or 2",
    "read_seconds": "a time",
    "size_between": "a size",
    "read_text": "text",
    "read_pattern_text": "a pattern",
    "read_path": "a path",
    "read_address": "`HOST:PORT`",
    "read_node_name": "a name of at most 63 characters",
    "read_workers": "a whole number, or `auto`",
    "read_namespace_name": "a namespace",
    "read_password_hash": "an argon2id hash",
    "read_token_digest": "a SHA-256",
    "read_user_key": "`U…`",
    "read_flag": "`true` or `false`",
    "read_amqp_address": "`amqp://…`",
    "read_broker_addresses": "addresses",
    "read_endpoint": "`tcp://…` or `ipc://…`",
    "read_amqp_name": "a name in AMQP",
    "read_collector": "`http://…` or `https://…`",
    "read_grace": "a time, `0` too",
}
"""What a value of each reader is."""


def all_settings() -> dict[str, inspect.Type]:
    """By name as the reference writes it: `limits.payload`, `namespaces.NAME.outbox`, `users[].name`."""
    return dict(_below(ROOT, ""))


def _below(table: inspect.Type, prefix: str) -> Iterator[tuple[str, inspect.Type]]:
    for key, node in fields_of(table).items():
        name, given = prefix + key, _given(node)
        if inner := table_of(given):
            yield from _below(inner, f"{name}.")
        elif isinstance(given, inspect.DictType):
            yield from _below(given.value_type, f"{name}.NAME.")
        elif isinstance(given, inspect.VarTupleType) and table_of(given.item_type):
            yield from _below(given.item_type, f"{name}[].")
        else:
            yield name, node


def _given(node: inspect.Type) -> inspect.Type:
    if isinstance(node, inspect.UnionType):
        (node,) = (choice for choice in node.types if not isinstance(choice, inspect.NoneType))
    return node


def kind(node: inspect.Type) -> str:
    """What a value of this setting is, in words. Raises KeyError for a reader that has none."""
    node = _given(node)
    if isinstance(node, inspect.VarTupleType):
        return f"a list; each {kind(node.item_type)}"
    if isinstance(node, inspect.Metadata):
        assert node.extra
        return KINDS[node.extra["read"].__qualname__.partition(".")[0]]
    if isinstance(node, inspect.EnumType):
        return "one of " + ", ".join(f"`{member.value}`" for member in node.cls)
    if isinstance(node, inspect.LiteralType):
        return "one of " + ", ".join(f"`{value}`" for value in node.values)
    plain = {inspect.IntType: "read_count", inspect.FloatType: "read_seconds", inspect.BoolType: "read_flag"}
    return "`true` or `false`" if isinstance(node, inspect.BoolType) else KINDS[plain[type(node)]]


def outside_names() -> dict[str, list[str]]:
    """The variable and the flag of each setting that has them."""
    names: dict[str, list[str]] = {}
    for given in (VARIABLES, FLAGS):
        for name, path in given.items():
            names.setdefault(".".join(map(str, path)), []).append(name)
    return names


def complete(page: str) -> str:
    """The page with variable, flag and kind in its tables. Raises ValueError where it lacks a setting."""
    nodes, outside = all_settings(), outside_names()
    missing = set(nodes) - {row["name"] for row in ROW.finditer(page)}
    if missing:
        raise ValueError(f"docs/reference/configuration.md lacks {', '.join(sorted(missing))}")

    def row(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in nodes:
            return found[0]
        named = "<br>".join(f"`{each}`" for each in outside.get(name, [])) or "in the file only"
        return f"| `{name}` | {named} | {kind(nodes[name])} |{found['rest']}"

    return ROW.sub(row, page.replace(HEAD, COMPLETE_HEAD))
