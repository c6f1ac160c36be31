"""The tree of settings, and reading a document by it.

The tree is what msgspec sees in the types of `settings`. msgspec itself stops at the first fault, so the tree is walked
here, and every fault becomes a mistake; what remains is a tree of values that are right one by one:

    {"limits": {"payload": "2 MiB", "paylod": 1}}    ->    {"limits": {"payload": 2097152}}, one mistake

From the same tree come the names by which a setting is set from outside the file: `limits.payload` is the variable
`FUMAROLE_LIMITS_PAYLOAD` and the flag `--limits-payload`; of a door's name the `doors` is left out. Tables with keys of
the user's choosing (`namespaces`) and lists of tables (`users`) are set in the file only.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from msgspec import inspect

from fumarole.config.mistakes import KeyPath, Report, key_text, kind, nearest, shown
from fumarole.config.settings import FIELD_KINDS, Settings
from fumarole.config.values import Reader, RefusedError, read_count, read_flag, read_seconds

Table = inspect.StructType | inspect.DataclassType
Tree = dict[str, Any]
"""Values by key; tables within are trees, lists of tables are lists of trees, with None where one could not be read."""

PREFIX: Final = "FUMAROLE_"
_NO_PREFIX: Final = "doors"
MISSING: Final = object()
"""Stands for a value that could not be read."""


def read_tree(document: Mapping[str, object], report: Report) -> Tree:
    """The valid values of a document; mistakes go to the report."""
    return cast(Tree, read(ROOT, document, (), report))


def read_value(path: KeyPath, value: object, report: Report) -> None:
    """Reads the value of one setting, for its mistakes only."""
    read(_LEAVES[path], value, path, report)


def fields_of(node: inspect.Type) -> dict[str, inspect.Type]:
    """The settings in a table, in their order."""
    assert isinstance(node, Table)
    return {field.name: _field_type(node, field) for field in node.fields}


def table_of(node: inspect.Type) -> Table | None:
    """The table that this setting is, if it is one."""
    node = _given(node)
    return node if isinstance(node, Table) and _reader(node) is None else None


def is_list(path: KeyPath) -> bool:
    """True when this setting has a list of values."""
    return isinstance(_given(_LEAVES[path]), inspect.VarTupleType)


def _field_type(table: Table, field: inspect.Field) -> inspect.Type:
    own = FIELD_KINDS.get(table.cls, {}).get(field.name)
    return field.type if own is None else inspect.type_info(own)


def _given(node: inspect.Type) -> inspect.Type:
    """The type of a setting where it is given: `X` of `X | None`."""
    if isinstance(node, inspect.UnionType):
        (node,) = (choice for choice in node.types if not isinstance(choice, inspect.NoneType))
    return node


def _reader(node: inspect.Type) -> Reader | None:
    if isinstance(node, inspect.Metadata):
        return node.extra["read"] if node.extra else None
    return {inspect.IntType: read_count, inspect.FloatType: read_seconds, inspect.BoolType: read_flag}.get(type(node))


def _leaves(node: Table, path: KeyPath = ()) -> Iterator[tuple[KeyPath, inspect.Type]]:
    for name, child in fields_of(node).items():
        inner, below = _given(child), (*path, name)
        table = table_of(inner)
        if table:
            yield from _leaves(table, below)
        elif isinstance(inner, inspect.VarTupleType):
            if not table_of(inner.item_type):
                yield below, child
        elif not isinstance(inner, inspect.DictType):
            yield below, child


def read(node: inspect.Type, value: object, path: KeyPath, report: Report) -> object:
    """The value of a setting of this type, or MISSING and at least one mistake in the report."""
    node = _given(node)
    if reader := _reader(node):
        try:
            return reader(value)
        except RefusedError as refused:
            report.add(path, refused.found, refused.expected)
            return MISSING
    if isinstance(node, Table):
        return _read_table(node, value, path, report)
    if isinstance(node, inspect.DictType):
        return _read_named_tables(node, value, path, report)
    if isinstance(node, inspect.VarTupleType):
        return _read_list(node, value, path, report)
    if isinstance(node, inspect.EnumType):
        choice = _read_choice([member.value for member in node.cls], value, path, report)
        return choice if choice is MISSING else node.cls(choice)
    assert isinstance(node, inspect.LiteralType)
    return _read_choice(list(map(str, node.values)), value, path, report)


def _read_table(node: Table, value: object, path: KeyPath, report: Report) -> object:
    if not isinstance(value, dict):
        report.add(path, kind(value), "a table")
        return MISSING
    fields = fields_of(node)
    tree: Tree = {}
    for key, item in value.items():
        if key not in fields:
            expected = f"one of {', '.join(fields)}"
            report.add((*path, key), "an unknown setting", expected, _nearest_setting(key, path, fields))
        elif (field_value := read(fields[key], item, (*path, key), report)) is not MISSING:
            tree[key] = field_value
    for field in node.fields:
        if field.required and field.name not in value:
            report.add((*path, field.name), "nothing", f"a value; {key_text(path)} is not complete without it")
    return tree


def _read_named_tables(node: inspect.DictType, value: object, path: KeyPath, report: Report) -> object:
    if not isinstance(value, dict):
        report.add(path, kind(value), "a table")
        return MISSING
    tree: Tree = {}
    for name, item in value.items():
        # Both are read, so that neither hides the mistakes of the other.
        key = read(node.key_type, name, (*path, name), report)
        table = read(node.value_type, item, (*path, name), report)
        if key is not MISSING and table is not MISSING:
            tree[name] = table
    return tree


def _read_list(node: inspect.VarTupleType, value: object, path: KeyPath, report: Report) -> object:
    if not isinstance(value, list):
        report.add(path, kind(value), "a list of tables" if table_of(node.item_type) else "a list")
        return MISSING
    items = [read(node.item_type, item, (*path, index), report) for index, item in enumerate(value)]
    # An index must go on meaning the same item.
    return [None if item is MISSING else item for item in items]


def _read_choice(choices: list[str], value: object, path: KeyPath, report: Report) -> object:
    if isinstance(value, str) and value in choices:
        return value
    suggestion = nearest(value, choices) if isinstance(value, str) else None
    report.add(path, shown(value), "one of " + ", ".join(f'"{choice}"' for choice in choices), suggestion)
    return MISSING


def _nearest_setting(key: str, path: KeyPath, fields: Mapping[str, object]) -> str | None:
    here = nearest(key, fields)
    if here:
        return here
    elsewhere = {str(leaf[-1]): key_text(leaf) for leaf in _LEAVES if leaf[:-1] != path}
    found = nearest(key, elsewhere)
    return elsewhere[found] if found else None


ROOT: Final = cast(Table, inspect.type_info(Settings))
_LEAVES: Final = dict(_leaves(ROOT))


def _words(path: KeyPath) -> list[str]:
    return [part for part in map(str, path) if part != _NO_PREFIX]


VARIABLES: Final[Mapping[str, KeyPath]] = {PREFIX + "_".join(_words(path)).upper(): path for path in _LEAVES}
"""The environment variable of each setting that has one."""
FLAGS: Final[Mapping[str, KeyPath]] = {"--" + "-".join(_words(path)).replace("_", "-"): path for path in _LEAVES}
"""The flag of each setting that has one."""
