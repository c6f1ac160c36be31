"""The nodes of the demonstration: brokers that form a cluster. One that ends is started again after a while."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fumarole.demo.broker import Launched, launch, stop

AWAY = 3.0
"""Seconds that a node which was killed stays away, so that the effect can be seen."""


class DemoCluster:
    """Some nodes on loopback."""

    def __init__(self, folder: Path, nodes: int, port: int) -> None:
        self._folder = folder
        self._cluster = [_free_port() for _ in range(nodes)]
        self._ports = [port + number if port else _free_port() for number in range(nodes)]
        self.nodes: list[Launched | None] = []
        try:
            for number in range(nodes):
                self.nodes.append(self._launch(number))
        except BaseException:
            self.stop()
            raise

    def urls(self, first: int = 0) -> list[str]:
        """Of all nodes, one of them first."""
        urls = [f"nats://127.0.0.1:{port}" for port in self._ports]
        return urls[first:] + urls[:first]

    def web(self) -> str:
        """The console's address at the first node that runs."""
        return next((node.web for node in self.nodes if node is not None), "")

    def states(self) -> list[str]:
        """`node-1 pid 4711`, for each."""
        return [
            f"node-{number + 1} {'away' if node is None else f'pid {node.process.pid}'}"
            for number, node in enumerate(self.nodes)
        ]

    def victim(self) -> int | None:
        """The process of a node that could be killed: the last that runs."""
        return next((node.process.pid for node in reversed(self.nodes) if node is not None), None)

    async def keep(self) -> None:
        """Restarts the nodes that have ended."""
        while True:
            await asyncio.sleep(0.2)
            for number, node in enumerate(self.nodes):
                if node is not None and node.process.poll() is not None:
                    self.nodes[number] = None
                    await asyncio.sleep(AWAY)
                    self.nodes[number] = await asyncio.to_thread(self._launch, number)

    def stop(self) -> None:
        for node in self.nodes:
            if node is not None:
                stop(node.process)

    def _launch(self, number: int) -> Launched:
        folder = self._folder / str(number)
        folder.mkdir(exist_ok=True)
        peers = [f"127.0.0.1:{port}" for at, port in enumerate(self._cluster) if at != number]
        flags = ["--http", "127.0.0.1:0", "--node", f"node-{number + 1}"]
        flags += ["--cluster", f"127.0.0.1:{self._cluster[number]}"]
        for peer in peers:
            flags += ["--peer", peer]
        return launch(folder, self._ports[number], flags)


@contextmanager
def demo_cluster(nodes: int, port: int) -> Iterator[DemoCluster]:
    """Nodes on this port of loopback and those after it. Afterwards they are gone. Raises DemoError."""
    with tempfile.TemporaryDirectory(prefix="fumarole-demo-") as folder:
        cluster = DemoCluster(Path(folder), nodes, port)
        try:
            yield cluster
        finally:
            cluster.stop()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port
