"""The container file, built and run; and three nodes as the compose file has them. `make soak` runs this, as root."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

import fumarole
from tests.deploy.containers import BASE, IMAGE, ROOT, Containers
from tests.deploy.test_prometheus import scraped
from tests.ports import free_port

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]
NODES = ("a", "b", "c")
PRODUCER = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
HARDENED = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")


@pytest.fixture(scope="module")
def containers(context: Path) -> Iterator[Containers]:
    """With the image built."""
    with TemporaryDirectory(prefix="fumarole-containers-", ignore_cleanup_errors=True) as name:
        made = Containers(Path(name))
        try:
            made.import_base()
            made.build(context, {"BASE": BASE, "PIP_NO_INDEX": "1"})
            yield made
        finally:
            made.remove_everything()


def until(succeeds: Callable[[], str], seconds: float = 60) -> str:
    """What it returns once it no longer fails."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return succeeds()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def test_the_image_runs_a_broker_that_is_not_root_and_keeps_its_data(containers: Containers) -> None:
    health = containers.inspect("image", IMAGE)["Healthcheck"]["Test"]
    assert health[0] == "CMD"

    def start(name: str) -> None:
        # Without a network of its own it can be run on any machine: what asks it is inside as well.
        options = ("--name", name, "--pull=never", "--network=none", "--no-healthcheck", *HARDENED)
        containers.call("podman", "run", "--detach", *options, "--volume", "kept:/var/lib/fumarole", IMAGE)

    def inside(name: str, *command: str) -> str:
        return containers.call("podman", "exec", name, *command)

    start("first")
    stats = json.loads(until(lambda: inside("first", *health[1:])))
    assert stats["namespace"] == "default"
    assert inside("first", "id", "-u") == "10001"
    metadata = json.dumps({"Room": "410"})
    inside("first", "fumarole", "pub", "hall", "21.5", "-H", f"Producer: {PRODUCER}", "-H", f"Metadata: {metadata}")
    assert "hot path: compiled" in containers_log(containers, "first")

    began = time.monotonic()
    containers.call("podman", "stop", "--time=20", "first")
    assert time.monotonic() - began < 15
    assert containers.inspect("container", "first")["State"]["ExitCode"] == 0

    start("second")
    known = until(lambda: inside("second", "fumarole", "producers", "--json"))
    assert (PRODUCER in known, '"Room": "410"' in known) == (True, True)
    modes = inside("second", "stat", "-c", "%a %U", "/var/lib/fumarole").split()
    assert modes == ["700", "fumarole"]
    containers.call("podman", "rm", "--force", "first", "second")


def containers_log(containers: Containers, name: str) -> str:
    """Its stderr too, where a broker's log goes."""
    return containers.call("sh", "-c", f"podman logs {name} 2>&1")


Ports = dict[tuple[str, int], int]


@pytest.fixture
def three_nodes(containers: Containers, tmp_path: Path) -> Iterator[Ports]:
    """The nodes of the compose file as they are, but for the ports of this machine: by service and port inside."""
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    ports: Ports = {}
    for name in NODES:
        service = compose["services"][name]
        inside = [int(port.rsplit(":", 1)[1]) for port in service["ports"]]
        ports |= {(name, port): free_port() for port in inside}
        service["ports"] = [f"127.0.0.1:{ports[name, port]}:{port}" for port in inside]
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(compose))
    secret = tmp_path / "cluster.secret"
    secret.write_text("no secret of anybody\n")
    secret.chmod(0o644)
    # The image of Prometheus is in a registry: another test runs it on the same configuration.
    up = ("up", "--detach", "--no-build", *NODES)
    containers.call("podman-compose", "--project-name", "three", "--file", "compose.yaml", *up, cwd=tmp_path)
    yield ports
    containers.call("podman-compose", "--project-name", "three", "--file", "compose.yaml", "down", cwd=tmp_path)


async def test_three_nodes_form_a_cluster(containers: Containers, three_nodes: Ports, tmp_path: Path) -> None:
    for name in NODES:
        await asyncio.to_thread(until, partial(two_live_peers, containers, name))
    urls = [f"nats://127.0.0.1:{three_nodes[name, 4222]}" for name in NODES]
    async with (
        asyncio.timeout(90),
        fumarole.connect(urls[0]) as one,
        fumarole.connect(urls[2]) as other,
        one.subscribe("a.>", limit=1) as messages,
    ):
        await other.publish("a.b", b"21.5")
        assert [message.payload async for message in messages] == [b"21.5"]
    config = (ROOT / "deploy" / "prometheus" / "compose.yml").read_text().replace("15s", "1s")
    for name in NODES:
        config = config.replace(f"{name}:8222", f"127.0.0.1:{three_nodes[name, 8222]}")
    (tmp_path / "prometheus.yml").write_text(config)
    found = await asyncio.to_thread(scraped, tmp_path, "sum(fumarole_received_messages_total)", "sum(up) == 3")
    assert int(found) >= 1


def two_live_peers(containers: Containers, name: str) -> str:
    """Asked on loopback, where a client without a user has the role admin."""
    (container,) = [
        each for each in containers.call("podman", "ps", "--format", "{{.Names}}").split() if f"_{name}_" in each
    ]
    told = json.loads(containers.call("podman", "exec", container, "fumarole", "cluster", "status", "--json"))
    assert [peer["state"] for peer in told["peers"]] == ["live", "live"]
    return name
