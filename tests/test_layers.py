"""The arrows between the folders of src/fumarole: who may import whom.

The table below is the rule. Every import counts, wherever it stands: at the top, inside a function, under
TYPE_CHECKING, in a stub, and in Cython sources, `import` and `cimport` alike.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fumarole

SOURCES = Path(__file__).parents[1] / "src" / "fumarole"

# A layer may import itself, the package's own __init__ (for the version), and the layers named in its row.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "exchange": {"core"},
    "protocols": {"core"},
    "sessions": {"core", "exchange", "protocols"},
    "fastpath": {"core", "exchange", "protocols", "sessions"},
    "doors": {"core", "exchange", "protocols", "sessions", "fastpath"},
    "cluster": {"core", "exchange", "protocols", "sessions", "doors"},
    "store": {"core", "exchange"},
    "client": {"core", "protocols", "fastpath"},
    "bridge": {"core", "fastpath", "client"},
    "pipeline": {"core", "client"},
    "config": {"core", "exchange", "cluster"},
    "server": {
        *("core", "exchange", "protocols", "sessions", "fastpath", "doors", "cluster", "store", "client"),
        *("bridge", "config"),
    },
    "demo": {"core", "client", "pipeline", "cli"},
    "cli": {"core", "exchange", "protocols", "client", "bridge", "pipeline", "config", "server", "demo"},
    "__init__": {"client"},
    "__main__": {"cli"},
}

# What the package itself offers by these names is the client.
CLIENT_NAMES = set(fumarole.__all__) - {"__version__"}

# The pure layers do nothing but compute: time comes in as a number, chance as a function.
PURE = {"core", "exchange", "protocols", "sessions", "cluster"}
IMPURE_FILES = {"cluster/link.py"}
PURE_MODULES = {
    f"bridge/{name}.py"
    for name in (
        "calls",
        "curve",
        "erlang_messages",
        "erlang_terms",
        "errors",
        "fields",
        "forms",
        "frames",
        "messages",
        "operations",
        "patterns",
        "xmq_routes",
        "zmtp",
    )
}
IMPURE_MODULES = {"asyncio", "logging", "os", "random", "socket", "ssl", "threading", "time"}

# Core is the standard library alone, but for what the query language is made of.
STANDARD_LIBRARY_ONLY = {"core"}
EXCEPT = {"core/query/parse.py": {"lark"}, "core/query/regex.py": {"re2"}}

CYTHON_IMPORT = re.compile(r"^\s*c?import\s+(?P<modules>[^#\n]+)", re.MULTILINE)
CYTHON_FROM = re.compile(r"^\s*from\s+(?P<module>[\w.]+)\s+c?import\s+(?P<names>\([^)]*\)|[^#\n]+)", re.MULTILINE)


def python_imports(text: str, package: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute("." * node.level + (node.module or ""), package)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def cython_imports(text: str, package: str) -> Iterator[str]:
    for found in CYTHON_IMPORT.finditer(text):
        yield from imported_names(found["modules"])
    for found in CYTHON_FROM.finditer(text):
        module = absolute(found["module"], package)
        yield from (f"{module}.{name}" for name in imported_names(found["names"]))


def imported_names(clause: str) -> list[str]:
    """`(a as b, c)` names a and c."""
    without_comments = re.sub(r"#.*", "", clause).strip("() \t")
    return [part.split()[0] for part in without_comments.split(",") if part.strip()]


def absolute(module: str, package: str) -> str:
    """A relative module name, as seen from inside `package`: ..core in fumarole.exchange is fumarole.core."""
    name = module.lstrip(".")
    dots = len(module) - len(name)
    if not dots:
        return name
    parents = package.split(".")
    return ".".join([*parents[: len(parents) - dots + 1], *([name] if name else [])])


def violations(path: str, text: str) -> list[str]:
    """What the file at `path`, relative to src/fumarole, imports against the table."""
    *folders, _ = parts = Path(path).with_suffix("").parts
    layer = parts[0]
    package = ".".join(["fumarole", *folders])
    imports = python_imports if path.endswith((".py", ".pyi")) else cython_imports
    found = []
    for module in imports(text, package):
        top, _, inner = module.partition(".")
        if top == "fumarole":
            target = inner.partition(".")[0]
            target = "client" if target in CLIENT_NAMES else target
            wrong = target in MAY_IMPORT and target not in MAY_IMPORT[layer] | {layer, "__init__"}
        else:
            is_pure = (layer in PURE and path not in IMPURE_FILES) or path in PURE_MODULES
            wrong = (is_pure and top in IMPURE_MODULES) or (
                layer in STANDARD_LIBRARY_ONLY and top not in sys.stdlib_module_names | EXCEPT.get(path, set())
            )
        if wrong:
            found.append(f"{path} imports {module}")
    return found


def source_files() -> list[str]:
    suffixes = {".py", ".pyi", ".pyx", ".pxd"}
    return sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*") if path.suffix in suffixes)


def test_every_folder_has_a_row() -> None:
    assert {Path(path).with_suffix("").parts[0] for path in source_files()} <= MAY_IMPORT.keys()


def test_arrows_point_one_way() -> None:
    assert [line for path in source_files() for line in violations(path, (SOURCES / path).read_text())] == []


@pytest.mark.parametrize(
    ("path", "text", "imported"),
    [
        pytest.param("core/a.py", "import fumarole.exchange", "fumarole.exchange", id="import"),
        pytest.param("core/a.py", "from fumarole.cli.main import main", "fumarole.cli.main.main", id="from"),
        pytest.param("core/a.py", "from fumarole import doors", "fumarole.doors", id="from the package"),
        pytest.param("core/a.py", "import msgspec", "msgspec", id="third party in core"),
        pytest.param("core/query/tree.py", "import lark", "lark", id="the grammar outside its module"),
        pytest.param("core/query/parse.py", "import re2", "re2", id="expressions outside their module"),
        pytest.param("core/query/a.py", "from ...cli import main", "fumarole.cli.main", id="relative, two up"),
        pytest.param("exchange/a.py", "from ..sessions import nats", "fumarole.sessions.nats", id="relative"),
        pytest.param("exchange/a.py", "from .. import client", "fumarole.client", id="relative, bare"),
        pytest.param("exchange/__init__.py", "from ..client import a", "fumarole.client.a", id="relative in __init__"),
        pytest.param("protocols/a.py", "def f():\n    import asyncio", "asyncio", id="inside a function"),
        pytest.param("protocols/a.py", "if TYPE_CHECKING:\n    import ssl", "ssl", id="for types only"),
        pytest.param("protocols/a.pyi", "from os import path", "os.path", id="in a stub"),
        pytest.param("sessions/a.py", "import json, time as t", "time", id="second of two"),
        pytest.param("sessions/a.py", "from fumarole.fastpath import loop", "fumarole.fastpath.loop", id="fastpath"),
        pytest.param("doors/a.py", "import fumarole.client", "fumarole.client", id="doors to client"),
        pytest.param("bridge/fields.py", "import time", "time", id="a pure module of the bridge"),
        pytest.param("bridge/a.py", "import fumarole.server", "fumarole.server", id="bridge to server"),
        pytest.param("client/a.py", "import fumarole.exchange", "fumarole.exchange", id="client to exchange"),
        pytest.param("core/a.py", "from fumarole import connect", "fumarole.connect", id="client by the package"),
        pytest.param("__init__.py", "from fumarole.core import topic", "fumarole.core.topic", id="package itself"),
        pytest.param("fastpath/a.pyx", "cimport fumarole.doors.pump", "fumarole.doors.pump", id="cimport"),
        pytest.param("fastpath/a.pyx", "  import sys, fumarole.server", "fumarole.server", id="import in pyx"),
        pytest.param("fastpath/a.pxd", "from fumarole.server cimport a", "fumarole.server.a", id="from cimport in pxd"),
        pytest.param("fastpath/a.pyx", "from ..doors import (\n  a as b,\n)", "fumarole.doors.a", id="relative in pyx"),
    ],
)
def test_a_wrong_import_is_caught(path: str, text: str, imported: str) -> None:
    assert violations(path, text) == [f"{path} imports {imported}"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("core/a.py", "import dataclasses\nfrom fumarole.core.topic import words", id="own layer"),
        pytest.param("core/query/parse.py", "from lark import Lark", id="the grammar in its module"),
        pytest.param("core/query/regex.py", "import re2", id="expressions in their module"),
        pytest.param("sessions/a.py", "from fumarole import __version__", id="version"),
        pytest.param("protocols/a.py", "import msgspec", id="third party outside core"),
        pytest.param("client/a.py", "import asyncio\nfrom fumarole.protocols import nats", id="asyncio in client"),
        pytest.param("fastpath/a.pyx", "from libc.string cimport memchr\ncimport cython", id="C library"),
        pytest.param("server/a.py", "from fumarole.doors import pump\nfrom fumarole import client", id="server"),
    ],
)
def test_a_right_import_passes(path: str, text: str) -> None:
    assert violations(path, text) == []
