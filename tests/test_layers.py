"""The arrows between the folders of src/fumarole: who may import whom.

The table below is the rule. Every import counts, wherever it stands: at the top, inside a function, under
TYPE_CHECKING, in a stub, and in Cython sources, `import` and `cimport` alike.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import fumarole
from fumarole.core.packages import EXTRAS

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
    "config": {"core", "exchange", "cluster", "doors"},
    "server": {
        *("core", "exchange", "protocols", "sessions", "fastpath", "doors", "cluster", "store", "client"),
        *("bridge", "config"),
    },
    "demo": {"core", "client", "pipeline", "cli"},
    "cli": {"core", "exchange", "protocols", "doors", "client", "bridge", "pipeline", "config", "server", "demo"},
    "__init__": {"client", "core"},
    "__main__": {"cli", "core"},
}

# What the package itself offers by these names is the client, and what can be tried at the prompt is core.
CLIENT_NAMES = set(fumarole.__all__) - {"__version__"} - fumarole.AT_THE_PROMPT

# The pure layers do nothing but compute: time comes in as a number, chance as a function.
PURE = {"core", "exchange", "protocols", "sessions", "cluster"}
IMPURE_FILES = {"cluster/peer_link.py"}
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

# Which folders and files may import which packages of others, by the extra that installs them. Nothing else may be
# imported, so the client and all that it imports run on the standard library.
BASE = ""
PACKAGES: dict[str, dict[str, set[str]]] = {
    BASE: {
        "argon2": {"server/credentials.py"},
        "lark": {"core/query/parse.py"},
        "msgspec": {
            *("cli/", "cluster/", "config/", "pipeline/", "server/", "store/"),
            *("protocols/cluster_protocol.py", "protocols/msgpack.py", "sessions/http/"),
        },
        "re2": {"core/query/regex.py", "pipeline/columns/regex_tree.py"},
        "rich": {"cli/", "demo/"},
        "typer": {"cli/"},
    },
    "fast": {"uvloop": {"server/loop.py"}},
    "nkeys": {"nacl": {"server/credentials.py"}},
    "kubemq": {
        "google": {"sessions/kubemq_calls.py", "protocols/kubemq_pb2.py", "protocols/kubemq_pb2.pyi"},
        "h2": {"protocols/grpc.py"},
    },
    "bridge": {key: {"bridge/"} for key in ("aio_pika", "aiormq", "msgpack", "nacl", "pamqp", "yarl", "zmq")},
    "pipeline": {
        **{key: {"pipeline/"} for key in ("deltalake", "matplotlib", "numpy", "pandas", "py4j", "pyarrow")},
        "pyspark": {"pipeline/", "cli/pipeline/"},
    },
}
OF_CYTHON = {"cpython", "cython", "libc"}

# What an extra is for cannot be imported without it. Everything else can.
ROOMS_OF_EXTRAS = {
    "kubemq": {
        "doors/kubemq.py",
        *("sessions/kubemq.py", "sessions/kubemq_calls.py", "sessions/kubemq_connection.py"),
        *("protocols/grpc.py", "protocols/kubemq.py", "protocols/kubemq_pb2.py"),
    },
    "bridge": {"bridge/", "server/bridges.py"},
    "pipeline": {"pipeline/", "demo/pipeline.py", "cli/pipeline/spark.py", "cli/pipeline/table.py"},
}

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
            wrong = (is_pure and top in IMPURE_MODULES) or not may_use(path, top)
        if wrong:
            found.append(f"{path} imports {module}")
    return found


def may_use(path: str, package: str) -> bool:
    """Is this package in the standard library, or may the file at `path` import it?"""
    if package in sys.stdlib_module_names or (package in OF_CYTHON and path.endswith((".pyx", ".pxd"))):
        return True
    return any(package in row and is_in(path, row[package]) for row in PACKAGES.values())


def is_in(path: str, places: set[str]) -> bool:
    return path in places or any(place.endswith("/") and path.startswith(place) for place in places)


def source_files() -> list[str]:
    suffixes = {".py", ".pyi", ".pyx", ".pxd"}
    return sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*") if path.suffix in suffixes)


def test_every_folder_has_a_row() -> None:
    assert {Path(path).with_suffix("").parts[0] for path in source_files()} <= MAY_IMPORT.keys()


def test_arrows_point_one_way() -> None:
    assert [line for path in source_files() for line in violations(path, (SOURCES / path).read_text())] == []


def test_every_extra_has_a_row_and_every_row_an_extra() -> None:
    project = tomllib.loads((SOURCES.parents[1] / "pyproject.toml").read_text())["project"]
    assert set(PACKAGES) == {BASE, *project["optional-dependencies"]} - {"all"}
    for extra, row in EXTRAS.items():
        assert PACKAGES[extra].keys() == {module.partition(".")[0] for module in (*row.modules, *row.optional)}


def test_no_row_outlives_its_import() -> None:
    used = {
        (module.partition(".")[0], path)
        for path in source_files()
        for module in (python_imports if path.endswith((".py", ".pyi")) else cython_imports)(
            (SOURCES / path).read_text(), "fumarole"
        )
    }
    rows = [(package, place) for row in PACKAGES.values() for package, places in row.items() for place in places]
    idle = [row for row in rows if not any(row[0] == package and is_in(path, {row[1]}) for package, path in used)]
    assert idle == []


IMPORT_ALL = """
import importlib, sys
from importlib.abc import MetaPathFinder

class Bare(MetaPathFinder):
    missing = set(sys.argv[1].split(","))

    def find_spec(self, name, path, target=None):
        if name in self.missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Bare())
for module in sys.argv[2:]:
    try:
        importlib.import_module(module)
    except ImportError:
        print(module)
"""


def test_everything_outside_the_rooms_of_extras_is_imported_without_them() -> None:
    rooms = set().union(*ROOMS_OF_EXTRAS.values())
    files = [path for path in source_files() if path.endswith(".py") and not is_in(path, rooms)]
    modules = [".".join(["fumarole", *Path(path).with_suffix("").parts]).removesuffix(".__init__") for path in files]
    missing = {package for extra, row in PACKAGES.items() if extra != BASE for package in row}
    command = [sys.executable, "-c", IMPORT_ALL, ",".join(missing), *modules]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    # The rooms themselves are there, and need what they are for.
    needing = {f"fumarole.{place.removesuffix('.py').strip('/').replace('/', '.')}" for place in rooms - {"bridge/"}}
    command = [sys.executable, "-c", IMPORT_ALL, ",".join(missing), *sorted(needing)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == sorted(needing)


@pytest.mark.parametrize(
    ("path", "text", "imported"),
    [
        pytest.param("core/a.py", "import fumarole.exchange", "fumarole.exchange", id="import"),
        pytest.param("core/a.py", "from fumarole.cli.main import main", "fumarole.cli.main.main", id="from"),
        pytest.param("core/a.py", "from fumarole import doors", "fumarole.doors", id="from the package"),
        pytest.param("core/a.py", "import msgspec", "msgspec", id="third party in core"),
        pytest.param("client/a.py", "import msgspec", "msgspec", id="third party in the client"),
        pytest.param("protocols/nats.py", "import msgspec", "msgspec", id="a package in another file than its row's"),
        pytest.param("doors/pump.py", "import h2.connection", "h2.connection", id="a door's package in another door"),
        pytest.param("server/a.py", "def f():\n    import zmq", "zmq", id="the bridge's package in the server"),
        pytest.param("cli/stats.py", "import numpy", "numpy", id="the pipeline's package in a command"),
        pytest.param("server/a.py", "import requests", "requests", id="a package of no row"),
        pytest.param("fastpath/a.py", "import cython", "cython", id="Cython in plain Python"),
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
        pytest.param("__init__.py", "from fumarole.exchange import a", "fumarole.exchange.a", id="package itself"),
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
        pytest.param("protocols/msgpack.py", "import msgspec", id="a package in a file of its row"),
        pytest.param("bridge/a.py", "def f():\n    import zmq.asyncio", id="a package in a folder of its row"),
        pytest.param("client/a.py", "import asyncio\nfrom fumarole.protocols import nats", id="asyncio in client"),
        pytest.param("fastpath/a.pyx", "from libc.string cimport memchr\ncimport cython", id="C library"),
        pytest.param("server/a.py", "from fumarole.doors import pump\nfrom fumarole import client", id="server"),
    ],
)
def test_a_right_import_passes(path: str, text: str) -> None:
    assert violations(path, text) == []
