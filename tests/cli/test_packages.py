"""Commands where a package is not installed: one sentence, the command that installs it, exit code 2."""

import subprocess
import sys

import pytest

from tests.cli.commands import Ended

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Bare(MetaPathFinder):
    missing = sys.argv.pop(1).split(",")

    def find_spec(self, name, path, target=None):
        if name in self.missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Bare())
sys.argv[0] = "fumarole"
from fumarole.__main__ import main
main()
"""


def without(modules: str, *arguments: str) -> Ended:
    command = [sys.executable, "-c", WITHOUT, modules, *arguments]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=30)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


@pytest.mark.parametrize(
    ("missing", "command", "sentence"),
    [
        ("typer", "serve", "Fumarole beyond its client needs typer, which is not installed: pip install fumarole"),
        ("msgspec", "serve", "Fumarole beyond its client needs msgspec, which is not installed: pip install fumarole"),
        ("lark", "query explain a=1", "Fumarole beyond its client needs lark, which is not installed: pip install fumarole"),
        ("argon2", "password", "Fumarole beyond its client needs argon2, which is not installed: pip install fumarole"),
        ("aio_pika", "bridge", "the bridge needs aio_pika, which is not installed: pip install 'fumarole[bridge]'"),
        ("zmq", "bridge status", "the bridge needs zmq, which is not installed: pip install 'fumarole[bridge]'"),
        ("numpy", "record --archive x", "the data pipeline needs numpy, which is not installed: pip install 'fumarole[pipeline]'"),
    ],
)  # fmt: skip
def test_the_sentence(missing: str, command: str, sentence: str) -> None:
    ended = without(missing, *command.split())
    assert (ended.code, ended.out, ended.err) == (2, b"", f"{sentence}\n")


KUBEMQ = "the KubeMQ door needs h2, which is not installed: pip install 'fumarole[kubemq]'"


@pytest.mark.parametrize("others", ["", "--nats 127.0.0.1:4222 --msgpack 127.0.0.1:4444"], ids=["alone", "and others"])
def test_a_door_that_was_named_needs_its_package(others: str) -> None:
    ended = without("h2", "serve", "--kubemq", "127.0.0.1:50000", *others.split())
    assert (ended.code, ended.out, ended.err) == (2, b"", f"{KUBEMQ}\n")


def test_what_no_command_asks_for_is_not_missed() -> None:
    extras = "h2,google.protobuf,aio_pika,zmq,msgpack,numpy,pyarrow,pyspark,uvloop"
    assert without(extras, "query", "explain", "Room like '4%'").code == 0
