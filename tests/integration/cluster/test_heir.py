"""A node that is killed hangs up before its memory is freed: another process has that memory too (fastpath/heir.pyx)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from fumarole.fastpath.hot_path import compiled
from tests.integration.cluster.clients import Client
from tests.integration.cluster.nodes import NodeProcess, running

pytestmark = pytest.mark.skipif(compiled() is None, reason="the fast path is not compiled here")
PATIENCE = 10.0


def heirs_of(node: NodeProcess) -> list[int]:
    """Its children, however they were made."""
    children = Path(f"/proc/{node.process.pid}/task/{node.process.pid}/children").read_text()
    return [int(child) for child in children.split()]


def await_end(process: int) -> None:
    """Ended: it is gone, or has nothing left but its name until its exit code is asked for."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        assert time.monotonic() < deadline, f"process {process} is still there: {state}"
        time.sleep(0.01)


def test_it_has_the_memory_and_nothing_else(tmp_path: Path) -> None:
    with running(tmp_path, 2) as nodes:
        (heir,) = heirs_of(nodes[0])
        system, node = Path(f"/proc/{heir}"), Path(f"/proc/{nodes[0].process.pid}")
        assert list((system / "fd").iterdir()) == []
        assert (system / "comm").read_text() == "fumarole-heir\n"
        assert (system / "maps").read_text().splitlines()[0] == (node / "maps").read_text().splitlines()[0]
        client = Client(nodes[0].host, nodes[0].port)
        client.flush()
        # A signal to all processes of a terminal or a service is meant for the node, which gets it too.
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            os.kill(heir, each)
        client.flush()
        assert heirs_of(nodes[0]) == [heir]
        client.close()
        nodes[0].stop()
        await_end(heir)


def test_it_dies_with_the_node(tmp_path: Path) -> None:
    with running(tmp_path, 1) as nodes:
        (heir,) = heirs_of(nodes[0])
        nodes[0].kill()
        await_end(heir)


def test_a_node_that_has_lost_its_heir_goes_on(tmp_path: Path) -> None:
    with running(tmp_path, 1) as nodes:
        (heir,) = heirs_of(nodes[0])
        os.kill(heir, signal.SIGKILL)
        await_end(heir)
        client = Client(nodes[0].host, nodes[0].port)
        client.flush()
        client.close()


def test_plain_python_has_none(tmp_path: Path) -> None:
    with running(tmp_path, 1, pure=True) as nodes:
        assert heirs_of(nodes[0]) == []
