"""From a TOML file, the environment and flags to `Settings`: flags over variables over the file.

`load` either gives settings that are right as a whole or raises one `ConfigurationError` with every mistake in it, also
those in values that another source overrides. Nothing is ever half loaded.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fumarole.config.consistency import check_consistency
from fumarole.config.key_lines import key_lines
from fumarole.config.mistakes import ConfigurationError, KeyPath, Mistake, Origin, Report, kind, nearest
from fumarole.config.schema import FLAGS, PREFIX, VARIABLES, Tree, is_list, read_tree, read_value
from fumarole.config.settings import BridgeSettings, Settings
from fumarole.core.topic import Grammar
from fumarole.doors.registry import DOORS
from fumarole.exchange.namespaces import default_rules

__all__ = ["FLAGS", "VARIABLES", "ConfigurationError", "Mistake", "load", "load_bridge"]

READ_ELSEWHERE: Final = frozenset(
    {
        *("FUMAROLE_SERVERS", "FUMAROLE_PURE", "FUMAROLE_BRIDGE_AMQP", "FUMAROLE_BRIDGE_SERVERS"),
        *("FUMAROLE_INSECURE", "FUMAROLE_COLD"),
    }
)
"""Variables that are not settings of a broker: the client's servers, the uncompiled loop, a bridge's addresses."""
OTHERS: Final = frozenset({"payloads", "rules"})
"""Lists of tables in the same file that are not settings of a broker: the pipeline reads them."""
# Kubernetes gives containers variables named after each Service, and one may well be called `fumarole`.
_OF_KUBERNETES: Final = re.compile(
    r"FUMAROLE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_\w+)?)"
)
_KUBERNETES_PORT: Final = re.compile(r"(tcp|udp|sctp)://.*")
_SYNTAX_PLACE: Final = re.compile(r" \(at (?:line (?P<line>[0-9]+), column [0-9]+|end of document)\)$")

Document = dict[str, Any]


def load(
    path: Path | str | None, environ: Mapping[str, str], flags: Mapping[str, str | Sequence[str] | None]
) -> Settings:
    """The settings of a broker.

    `flags` are by name (`--nats`, see `FLAGS`); a flag that is not given is None, an empty list, or absent.
    """
    document, report = read_file(Path(path)) if path is not None else ({}, Report({(): Origin("defaults")}))
    for name in OTHERS:
        document.pop(name, None)
    _override_by_variables(document, environ, report)
    _override_by_flags(document, flags, report)
    return _right(document, report)


def load_bridge(flags: Mapping[str, str | Sequence[str] | None]) -> BridgeSettings:
    """One bridge from flags alone, each named after its setting (`--direct-queue`); None or empty: not given."""
    table: Document = {}
    origins: dict[KeyPath, Origin] = dict.fromkeys([(), ("bridges",), ("bridges", 0)], Origin("defaults"))
    for flag, given in flags.items():
        if given or given == "":
            name = flag.removeprefix("--").replace("-", "_")
            table[name] = given if isinstance(given, str) else list(given)
            origins[("bridges", 0, name)] = Origin(flag)
    return _right({"bridges": [table]}, Report(origins)).bridges[0]


def _right(document: Document, report: Report) -> Settings:
    tree = read_tree(document, report)
    check_consistency(tree, report)
    if report.mistakes:
        raise ConfigurationError(report.mistakes)
    return _settings(tree)


def _settings(tree: Tree) -> Settings:
    if named := tree.pop("doors", None):
        tree["doors"] = dict.fromkeys(DOORS, ()) | named
    for name, rules in tree.get("namespaces", {}).items():
        rules.setdefault("grammar", default_rules(name, tree.get("grammar", Grammar.STRICT)).grammar)
    # Each value has been checked; msgspec checks the whole once more against the types.
    return msgspec.convert(tree, Settings, dec_hook=_read_already)


def _read_already(_kind: type, value: object) -> object:
    return value


def read_file(path: Path) -> tuple[Document, Report]:
    """The values of the file, with their lines. An unreadable file is one mistake, and the end."""
    source = str(path)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        raise _unreadable(source, None, reason.lower(), "a file that can be read") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _unreadable(source, line, "bytes that are not UTF-8", "a text in UTF-8") from None
    try:
        document = tomllib.loads(text)
        lines = key_lines(text)
    except tomllib.TOMLDecodeError as error:
        reason, line = _syntax_place(str(error), text)
        raise _unreadable(source, line, f"this fault: {reason}", "TOML") from None
    except RecursionError:
        raise _unreadable(source, None, "lists or tables that are nested too deep", "settings") from None
    except ValueError:  # a number of thousands of digits
        raise _unreadable(source, None, "a number that is too long", "settings") from None
    return document, Report({key: Origin(source, line) for key, line in lines.items()})


def _unreadable(source: str, line: int | None, found: str, expected: str) -> ConfigurationError:
    return ConfigurationError([Mistake(Origin(source, line), "", found, expected)])


def _syntax_place(message: str, text: str) -> tuple[str, int]:
    place = _SYNTAX_PLACE.search(message)
    last_line = text.rstrip("\n").count("\n") + 1
    reason = _SYNTAX_PLACE.sub("", message)
    return reason[:1].lower() + reason[1:], int(place["line"]) if place and place["line"] else last_line


def _override_by_variables(document: Document, environ: Mapping[str, str], report: Report) -> None:
    for name in sorted(environ):
        text = environ[name]
        if name in VARIABLES:
            path = VARIABLES[name]
            _override(document, path, _items(text) if is_list(path) else text, Origin(name), report)
        elif name.startswith(PREFIX) and not _is_foreign(name, text):
            origin, suggestion = Origin(name), nearest(name, [*VARIABLES, *READ_ELSEWHERE])
            report.mistakes.append(Mistake(origin, "", "an unknown variable", "the name of a setting", suggestion))


def _is_foreign(name: str, text: str) -> bool:
    if name in READ_ELSEWHERE or _OF_KUBERNETES.fullmatch(name):
        return True
    return name.endswith("_PORT") and _KUBERNETES_PORT.fullmatch(text) is not None


def _override_by_flags(document: Document, flags: Mapping[str, str | Sequence[str] | None], report: Report) -> None:
    for name, given in flags.items():
        path = FLAGS[name]
        if not given and given != "":
            continue
        texts = [given] if isinstance(given, str) else list(given)
        if is_list(path):
            _override(document, path, [item for text in texts for item in _items(text)], Origin(name), report)
        else:
            _override(document, path, texts[-1], Origin(name), report)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


def _override(document: Document, path: KeyPath, value: object, origin: Origin, report: Report) -> None:
    """Overrides a value of an earlier source, whose mistakes are still reported."""
    table = document
    for depth, key in enumerate(path[:-1], 1):
        below = table.setdefault(str(key), {})
        report.origins.setdefault(path[:depth], origin)
        if not isinstance(below, dict):
            report.add(path[:depth], kind(below), "a table")
            below = table[str(key)] = {}
        table = below
    name = str(path[-1])
    if name in table:
        read_value(path, table[name], report)
    table[name] = value
    for known in [known for known in report.origins if known[: len(path)] == path]:
        del report.origins[known]
    report.origins[path] = origin
