"""The container file, built and run; and three nodes as the compose file has them. `make soak` runs this, as root."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import fumarole
from tests.deploy.containers import BASE, IMAGE, Containers
from tests.ports import free_port

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]
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


@pytest.fixture
def three_nodes(containers: Containers, tmp_path: Path) -> Iterator[list[int]]:
    """The compose file as it is, but for the ports of this machine. The NATS port of each node."""
    ports: list[int] = []

    def another(found: re.Match[str]) -> str:
        ports.append(free_port())
        return f'"127.0.0.1:{ports[-1]}:{found[1]}"'

    text = (Path(__file__).parents[2] / "deploy" / "compose.yaml").read_text()
    (tmp_path / "compose.yaml").write_text(re.sub(r'"127\.0\.0\.1:\d+:(\d+)"', another, text))
    assert len(ports) == 6
    secret = tmp_path / "cluster.secret"
    secret.write_text("no secret of anybody\n")
    secret.chmod(0o644)
    containers.call("podman-compose", "--file", "compose.yaml", "up", "--detach", "--no-build", cwd=tmp_path)
    yield ports[::2]
    containers.call("podman-compose", "--file", "compose.yaml", "down", cwd=tmp_path)


async def test_three_nodes_form_a_cluster(three_nodes: list[int]) -> None:
    urls = [f"nats://127.0.0.1:{port}" for port in three_nodes]
    async with asyncio.timeout(90):
        for url in urls:
            await until_peers_are_live(url)
        async with (
            fumarole.connect(urls[0]) as one,
            fumarole.connect(urls[2]) as other,
            one.subscribe("a.>", limit=1) as messages,
        ):
            await other.publish("a.b", b"21.5")
            assert [message.payload async for message in messages] == [b"21.5"]


async def until_peers_are_live(url: str) -> None:
    """Returns when this node answers, and hears both others."""
    states: list[str] = []
    while states != ["live", "live"]:
        with contextlib.suppress(fumarole.ClientError):
            async with fumarole.connect(url, reconnect=False) as client:
                told = (await client.request("$FUM.cluster")).json()
            states = [peer["state"] for peer in told["peers"]]
        await asyncio.sleep(0.5)
