"""What other doors notice of the web door: 1,000 streams with 1,000 events a second, lists of 10,000 producers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.effort import Effort
from bench.figures import Figure, against
from bench.servers import CannotMeasureError, fumarole
from bench.web_clients import connect, hear, learn, taken_streams
from tests.ports import free_port

SECONDS = 15
TOPICS = 100
"""Each stream has one of so many topics, and a message goes to each of them once a second."""
EVENT = b"POST /v1/topics/beside/%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n21.5"
LIST = b"GET /v1/producers?limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n"


def measure(claim: str, effort: Effort) -> Iterator[Figure]:
    streams, producers, seconds = effort.share(1_000), effort.share(10_000), max(3, effort.share(SECONDS))
    web, msgpack, kubemq = (free_port() for _ in range(3))
    flags = [f"--{door}=127.0.0.1:{port}" for door, port in (("http", web), ("msgpack", msgpack), ("kubemq", kubemq))]
    with fumarole("compiled", *flags) as server:
        learn(web, producers)
        command = [sys.executable, str(Path(__file__).with_name("canaries.py"))]
        command += [*map(str, (server.port, msgpack, kubemq, seconds))]
        effort.tell("a message at a time through each other door, calm")
        calm = _sung(command)
        with ExitStack() as stack:
            taken_streams(web, streams, stack, [f"beside.{number}" for number in range(TOPICS)])
            ended = threading.Event()
            listing = threading.Thread(target=_list_and_post, args=(web, ended))
            listing.start()
            effort.tell(f"the same beside {streams:,} streams and lists of {producers:,} producers")
            try:
                beside = _sung(command)
            finally:
                ended.set()
                listing.join()
    for door, told in beside.items():
        name = f"p99 at the {door} door beside {streams:,} streams and {producers:,} producers listed each second"
        note = f"{told['sent']:,} messages, none lost."
        yield against("calm", claim, name, told["p99"], calm[door]["p99"], "ms", at_most=2.0, note=note)


def _sung(command: list[str]) -> dict[str, dict[str, float]]:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise CannotMeasureError(run.stderr[-500:])
    told: dict[str, dict[str, float]] = json.loads(run.stdout)
    lost = {door: each for door, each in told.items() if each["sent"] != each["came"]}
    if lost:
        raise CannotMeasureError(f"messages were lost: {lost}")
    return told


def _list_and_post(port: int, ended: threading.Event) -> None:
    """Once a second the list of all producers, and a message to every topic."""
    with connect(port) as lists, connect(port) as posts:
        while not ended.is_set():
            lists.sendall(LIST)
            for number in range(TOPICS):
                posts.sendall(EVENT % number)
                hear(posts, b"}")
                if ended.wait(1.0 / TOPICS):
                    break
            hear(lists, b"\r\n0")
