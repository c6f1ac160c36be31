"""Real nodes in processes of their own: on loopback, or each in a network namespace, where ways can be cut.

A namespace has one interface, on a bridge that exists only for the test; the test itself is at the bridge. What is cut is
the way between two nodes, never that between a client and a node.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.integration.cluster.clients import ask
from tests.integration.cluster.delays import SlowLine
from tests.ports import free_port

ROOT = Path(__file__).parents[3]
START_SECONDS = 20.0
STOP_SECONDS = 15.0


class Network:
    """Loopback: every node has a port of its own."""

    def host(self, number: int) -> str:
        return "127.0.0.1"

    def prefix(self, number: int) -> list[str]:
        return []


class Namespaces(Network):
    """A machine for each node. Needs root, `ip` and `nft`."""

    def __init__(self, nodes: int) -> None:
        self._mark = f"{os.getpid() % 10000}"
        self._net = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self._bridge = f"fumbr{self._mark}"
        self._numbers = range(nodes)

    def open(self) -> None:
        _run("ip", "link", "add", self._bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self._net}.254/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        for number in self._numbers:
            name, outer, inner = self._name(number), f"fumo{self._mark}{number}", f"fumi{self._mark}{number}"
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner)
            _run("ip", "link", "set", inner, "netns", name)
            _run("ip", "link", "set", outer, "master", self._bridge, "up")
            _run("ip", "-n", name, "addr", "add", f"{self.host(number)}/24", "dev", inner)
            _run("ip", "-n", name, "link", "set", inner, "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            self._nft(number, "add table inet cuts")
            self._nft(number, "add chain inet cuts in { type filter hook input priority 0; }")

    def close(self) -> None:
        for number in self._numbers:
            subprocess.run(["ip", "netns", "del", self._name(number)], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self._bridge], check=False, capture_output=True)

    def host(self, number: int) -> str:
        return f"{self._net}.{number + 1}"

    def prefix(self, number: int) -> list[str]:
        return ["ip", "netns", "exec", self._name(number)]

    def cut(self, source: int, target: int) -> None:
        """Nothing from there arrives here any more."""
        self._nft(target, f"add rule inet cuts in ip saddr {self.host(source)} drop")

    def lose(self, source: int, target: int, percent: int) -> None:
        """Some of what comes from there is lost, at random."""
        chance = f"numgen random mod 100 < {percent}"
        self._nft(target, f"add rule inet cuts in ip saddr {self.host(source)} {chance} drop")

    def throttle(self, number: int, rate: str) -> None:
        """The node's interface takes so much, and no more."""
        inner = f"fumi{self._mark}{number}"
        _run(
            "tc",
            "-n",
            self._name(number),
            "qdisc",
            "add",
            "dev",
            inner,
            "root",
            "tbf",
            "rate",
            rate,
            "burst",
            "32k",
            "latency",
            "100ms",
        )

    def heal(self) -> None:
        for number in self._numbers:
            self._nft(number, "flush chain inet cuts in")
            subprocess.run(
                ["tc", "-n", self._name(number), "qdisc", "del", "dev", f"fumi{self._mark}{number}", "root"],
                check=False,
                capture_output=True,
            )

    def _name(self, number: int) -> str:
        return f"fum{self._mark}-{number}"

    def _nft(self, number: int, rule: str) -> None:
        _run(*self.prefix(number), "nft", rule)


def why_no_namespaces() -> str:
    """Why this machine has none; empty: it has."""
    for command in ("ip", "nft"):
        if shutil.which(command) is None:
            return f"there is no {command} here: apt-get install iproute2 nftables"
    if os.geteuid() != 0:
        return "network namespaces need root"
    trials = (["netns", "add", "fum-trial"], ["netns", "exec", "fum-trial", "nft", "list", "tables"])
    faults = [subprocess.run(["ip", *trial], capture_output=True, text=True, check=False).stderr for trial in trials]
    subprocess.run(["ip", "netns", "del", "fum-trial"], capture_output=True, check=False)
    return "".join(faults).strip()


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


class Footing(NamedTuple):
    """What a process takes of the machine (S10)."""

    process: int
    descriptors: int
    tasks: int
    memory: int


ASK = """
import json, sys
from tests.integration.cluster.clients import ask
print(json.dumps(ask("127.0.0.1", int(sys.argv[1]), sys.argv[2].encode())))
"""


class NodeProcess:
    """`fumarole serve` with a part in a cluster."""

    def __init__(
        self,
        folder: Path,
        number: int,
        network: Network,
        cluster_port: int,
        peers: list[str],
        flags: tuple[str, ...] = (),
        pure: bool = False,
    ) -> None:
        self.number = number
        self.name = f"node-{number}"
        self.host = network.host(number)
        self.cluster_address = f"{self.host}:{cluster_port}"
        self._folder = folder / self.name
        self._folder.mkdir(exist_ok=True)
        self._network, self._peers, self._flags, self._pure = network, peers, flags, pure
        self.port = free_port()
        self.log = self._folder / "log"
        self.start()

    def start(self) -> None:
        ready = self._folder / "ready"
        ready.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FUMAROLE_")}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        if self._pure:
            environment["FUMAROLE_PURE"] = "1"
        command = [
            *self._network.prefix(self.number),
            *(sys.executable, "-m", "tests.integration.cluster.tasks", str(self._folder / "tasks")),
            *("serve", "--node", self.name),
            *("--nats", f"{self.host}:{self.port}", "--data", str(self._folder / "data")),
            *("--cluster", self.cluster_address, "--ready-file", str(ready)),
            *(word for peer in self._peers for word in ("--peer", peer)),
            *self._beyond_loopback(),
            *self._flags,
        ]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self._folder)
        deadline = time.monotonic() + START_SECONDS
        while not ready.exists():
            assert self.process.poll() is None, f"{self.name} has ended:\n{self.log.read_text()}"
            assert time.monotonic() < deadline, f"{self.name} did not start:\n{self.log.read_text()}"
            time.sleep(0.02)
        self.port = int(ready.read_text().split()[0].rpartition(":")[2])

    def _beyond_loopback(self) -> list[str]:
        """A host with an address of its own has no users (A1), and an administrator on its loopback (A4)."""
        return [] if self.host.startswith("127.") else ["--insecure", "--nats", f"127.0.0.1:{self.port}"]

    def ask(self, service: str) -> dict[str, Any]:
        """What the node says of itself to an administrator: `stats`, `cluster`."""
        if self.host.startswith("127."):
            return ask(self.host, self.port, service.encode())
        command = [*self._network.prefix(self.number), sys.executable, "-c", ASK, str(self.port), service]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=True)
        answer: dict[str, Any] = json.loads(run.stdout)
        return answer

    def footing(self) -> Footing:
        """What it takes of the machine."""
        system = Path(f"/proc/{self.process.pid}")
        told = self._folder / "tasks"
        told.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + STOP_SECONDS
        while not (told.exists() and told.read_text().endswith("\n")):
            assert time.monotonic() < deadline, f"{self.name} does not say how many tasks it has"
            time.sleep(0.01)
        pages = int((system / "statm").read_text().split()[1])
        return Footing(
            self.process.pid,
            len(list((system / "fd").iterdir())),
            int(told.read_text()),
            pages * os.sysconf("SC_PAGE_SIZE"),
        )

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ends it well. It must."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                code = self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"{self.name} did not end:\n{self.log.read_text()[-2000:]}") from None
            assert code == 0, f"{self.name} ended with {code}:\n{self.log.read_text()[-2000:]}"


class Nodes:
    """Several of them, each given the first as its peer."""

    def __init__(
        self,
        folder: Path,
        count: int,
        network: Network | None = None,
        flags: tuple[str, ...] = (),
        pure: bool = False,
        lines: Sequence[SlowLine] = (),
    ) -> None:
        self.network = network or Network()
        self.lines = lines
        """By which nodes reach each other, where it is not directly: one before each."""
        ports = [free_port() for _ in range(count)]
        for line, port in zip(lines, ports, strict=False):
            line.lead_to("127.0.0.1", port)
        self._folder, self._flags, self._pure = folder, flags, pure
        self.nodes: list[NodeProcess] = []
        try:
            for port in ports:
                self.add(port)
        except BaseException:
            self.kill()
            raise

    def add(self, port: int = 0, flags: tuple[str, ...] = ()) -> None:
        """One more, with flags of its own."""
        peers = [self.nodes[0].cluster_address] if self.nodes else []
        number, port, flags = len(self.nodes), port or free_port(), (*self._flags, *flags)
        if self.lines:
            peers = [f"127.0.0.1:{self.lines[0].port}"] if self.nodes else []
            flags = (*flags, "--links-address", f"127.0.0.1:{self.lines[number].port}")
        self.nodes.append(NodeProcess(self._folder, number, self.network, port, peers, flags, self._pure))

    def __getitem__(self, number: int) -> NodeProcess:
        return self.nodes[number]

    def stop(self) -> None:
        for node in reversed(self.nodes):
            node.stop()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()


@contextlib.contextmanager
def running(
    folder: Path,
    count: int,
    network: Network | None = None,
    flags: tuple[str, ...] = (),
    pure: bool = False,
    lines: Sequence[SlowLine] = (),
) -> Iterator[Nodes]:
    nodes = Nodes(folder, count, network, flags, pure, lines)
    try:
        yield nodes
        nodes.stop()
    finally:
        nodes.kill()


@contextlib.contextmanager
def namespaces(count: int) -> Iterator[Namespaces]:
    network = Namespaces(count)
    try:
        network.open()
        yield network
    finally:
        network.close()
