"""libnats, a client in C that others wrote: libnats/conversation.c is compiled here and talks to each hot_path."""

import os
import shutil
import subprocess
from pathlib import Path

import argon2
import pytest

from tests.integration.conftest import Brokers
from tests.integration.running import RunningBroker

SOURCE = Path(__file__).parent / "libnats" / "conversation.c"
STEPS = [
    "connect",
    "subscribe",
    "group",
    "request",
    "no responders",
    "headers",
    "auto-unsubscribe",
    "drain",
]


@pytest.fixture(scope="session")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program. What it is made with is part of the tests: where it is missing they fail, and say so."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.fail("there is no C compiler; `make setup-test` installs it (Debian package gcc)")
    program = tmp_path_factory.mktemp("libnats") / "conversation"
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-o", str(program), str(SOURCE), "-lnats"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if "nats/nats.h" in done.stderr:
        pytest.fail("libnats is missing; `make setup-test` installs it (Debian package libnats-dev)")
    assert done.returncode == 0, done.stderr
    return program


def run(program: Path, *words: str) -> list[str]:
    done = subprocess.run([program, *words], check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, f"{done.stderr} after {done.stdout.split()}"
    return done.stdout.splitlines()


def test_a_conversation(broker: RunningBroker, conversation: Path) -> None:
    assert run(conversation, broker.url) == STEPS


def test_a_conversation_in_a_namespace_of_its_own(broker: RunningBroker, conversation: Path) -> None:
    assert run(conversation, broker.url, "libnats", "whatever") == STEPS


def test_a_conversation_with_credentials(brokers: Brokers, engine_name: str, conversation: Path) -> None:
    password = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash("lovelace")
    broker = brokers.start(f'[[users]]\nname = "ada"\npassword = "{password}"\nnamespace = "volcanoes"\n', engine_name)
    try:
        assert run(conversation, broker.url, "ada", "lovelace") == STEPS
        with pytest.raises(AssertionError, match=r"connect: .*(?i:auth)"):
            run(conversation, broker.url, "ada", "wrong")
    finally:
        broker.stop()
