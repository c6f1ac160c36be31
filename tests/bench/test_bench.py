"""The load generator notices what a server does wrong, and results can be read and shown. No timing is asserted."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bench import figures, readme
from bench.figures import Figure, Results, Run, against, within
from bench.generator import Load, ServerFaultError, run_latency, run_load
from bench.machine import Others, this_machine
from bench.relay import relay
from bench.search import MOST_ATTEMPTS, NEAR, highest, limit

Tamper = Callable[[int, bytes], list[bytes]]
"""What becomes of a message (its number, its frame) on the way to each consumer."""


class LittleServer:
    """As much of a server as the generator needs: a message goes to all whose pattern begins like its topic.

    The members of a group take turns. A thread for each connection, which ends when the generator does.
    """

    def __init__(self, tamper: Tamper) -> None:
        self._tamper = tamper
        self._consumers: list[tuple[socket.socket, bytes, bytes]] = []
        self._published = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # The generator ends at the first fault, whatever is still under way.
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
            connection.sendall(b"INFO {}\r\n")
            for line in lines:
                verb, *words = line.split()
                if verb == b"SUB":
                    group = words[1] if len(words) == 3 else b""
                    self._consumers.append((connection, words[0].rstrip(b">"), group))
                elif verb == b"PING":
                    connection.sendall(b"PING\r\nPONG\r\n")
                elif verb == b"PUB":
                    self._publish(words[0], lines.read(int(words[1]) + 2))

    def _publish(self, topic: bytes, payload: bytes) -> None:
        frame = b"MSG %s 1 %d\r\n%s" % (topic, len(payload) - 2, payload)
        with self._lock:
            matching = [each for each in self._consumers if topic.startswith(each[1])]
            if matching and matching[0][2]:
                matching = [matching[self._published % len(matching)]]
            for each in self._tamper(self._published, frame):
                for consumer, _, _ in matching:
                    consumer.sendall(each)
            self._published += 1


@pytest.fixture
def serve() -> Iterator[Callable[[Tamper], int]]:
    servers: list[LittleServer] = []

    def start(tamper: Tamper) -> int:
        servers.append(LittleServer(tamper))
        return servers[-1].port

    yield start
    for server in servers:
        server.close()


def honest(_: int, frame: bytes) -> list[bytes]:
    return [frame]


LOADS = [
    pytest.param(Load(200, topics=7), id="one to one"),
    pytest.param(Load(200, size=1000, topics=200, window=40), id="every topic new"),
    pytest.param(Load(200, consumers=3), id="fan-out"),
    pytest.param(Load(200, consumers=3, group="sharing"), id="group"),
    pytest.param(Load(200, publishers=4, consumers=2), id="four publishers"),
]


@pytest.mark.parametrize("load", LOADS)
def test_what_arrives_is_counted(serve: Callable[[Tamper], int], load: Load) -> None:
    run = run_load(serve(honest), load)
    assert run.published == 200
    assert run.delivered == 200 * (1 if load.group else load.consumers)
    assert run.seconds > 0


def test_without_consumers_and_with_churn(serve: Callable[[Tamper], int]) -> None:
    assert run_load(serve(honest), Load(200, consumers=0)).delivered == 0
    run = run_load(serve(honest), Load(200, churn="away.%07ld.>", churn_rate=1_000))
    assert run.changes > 0


FAULTS: dict[str, tuple[Tamper, str]] = {
    "one lost": (lambda number, frame: [] if number == 120 else [frame], "lost"),
    "the last lost": (lambda number, frame: [] if number == 199 else [frame], "lost"),
    "one doubled": (lambda number, frame: [frame, frame] if number == 120 else [frame], "doubled"),
    "the last doubled": (lambda number, frame: [frame, frame] if number == 199 else [frame], "doubled"),
    "altered": (lambda number, frame: [frame[:-18] + b"\xff" * 8 + frame[-10:] if number == 120 else frame], "altered"),
    "cut short": (lambda number, frame: [frame[:-3] if number == 120 else frame], "altered"),
    "an error": (lambda number, frame: [b"-ERR 'no'\r\n"] if number == 120 else [frame], "-ERR 'no'"),
}


@pytest.mark.parametrize("load", LOADS[2:4])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(serve: Callable[[Tamper], int], fault: str, load: Load) -> None:
    tamper, sentence = FAULTS[fault]
    with pytest.raises(ServerFaultError, match=sentence):
        run_load(serve(tamper), load._replace(patience=1))


def test_one_lost_and_one_doubled_do_not_cancel_out(serve: Callable[[Tamper], int]) -> None:
    def tamper(number: int, frame: bytes) -> list[bytes]:
        return {120: [], 121: [frame, frame]}.get(number, [frame])

    for group in ("", "sharing"):
        with pytest.raises(ServerFaultError, match=r"lost|doubled"):
            run_load(serve(tamper), Load(200, group=group, patience=1))


def test_latency_notices_too(serve: Callable[[Tamper], int]) -> None:
    assert run_latency(serve(honest), 50).p50 > 0
    with pytest.raises(ServerFaultError, match="doubled"):
        run_latency(serve(lambda number, frame: [frame, frame] if number == 300 else [frame]), 50)


def run(name: str, *measured: Figure) -> Run:
    return Run(
        name=name,
        date="2026-01-31 12:00 UTC",
        commit="0123456789ab",
        rounds=5,
        others=0.5,
        figures=list(measured),
    )


IDLE = within(25 * 1024, "Idle connections", "each", 12_800, "KiB", "A note.")


def example() -> Results:
    throughput = run(
        "throughput",
        against("nats-server", "Throughput, compiled", "one to one", 6_000_000, 1_000_000, "/s", at_least=2.0),
        against("nats-server", "Throughput, plain Python", "one to one", 200_000, 1_000_000, "/s", at_least=0.25),
    )
    return Results(peer="nats-server 2.15.1", machine=this_machine(), runs=[throughput, run("idle", IDLE)])


def test_a_run_takes_the_place_of_the_one_before() -> None:
    again = run("idle", IDLE, IDLE)
    assert example().and_then(again, ["idle", "throughput"]).runs == [again, example().runs[0]]
    assert example().and_then(run("slow"), ["throughput", "idle", "slow"]).runs == [*example().runs, run("slow")]


def test_results_are_written_and_read(tmp_path: Path) -> None:
    figures.write(example(), tmp_path)
    assert figures.read(tmp_path / "results.json") == example()
    page = (tmp_path / "results.md").read_text()
    assert "| one to one | 6.00 | 0.20 |" in page
    assert "| one to one | 6,000,000 /s | 1,000,000 /s (nats-server) | peer | 6.00 | at least 2 | yes |" in page
    assert "| one to one | 200,000 /s | 1,000,000 /s (nats-server) | peer | 0.20 | at least 0.25 | no |" in page
    assert "| each | 12.5 KiB | 25.0 KiB (limit) | limit | 0.50 | within the limit | yes |\n\nA note." in page


def test_others_are_told_from_ours() -> None:
    assert 0 <= Others().cores() < 10_000


@pytest.mark.parametrize(
    ("ours", "bounds", "met"),
    [
        pytest.param(2.0, {"at_least": 2.0}, True, id="just enough"),
        pytest.param(1.9, {"at_least": 2.0}, False, id="too little"),
        pytest.param(0.8, {"at_most": 0.8}, True, id="just little enough"),
        pytest.param(0.9, {"at_most": 0.8}, False, id="too much"),
    ],
)
def test_what_is_wanted(ours: float, bounds: dict[str, float], met: bool) -> None:
    figure: Figure = against("peer", "claim", "name", ours, 1.0, "", **bounds)  # type: ignore[arg-type]
    assert figure.met is met


def test_an_unsteady_ratio_is_a_range() -> None:
    """Rounds that differ by more than a fifth."""
    steady = against("nats-server", "claim", "name", 2.0, 1.0, "", at_least=1.0, rounds=[1.9, 2.0, 2.2])
    unsteady = against("nats-server", "claim", "name", 2.0, 1.0, "", at_least=1.0, rounds=[1.5, 2.0])
    assert [steady.shown_ratio, unsteady.shown_ratio] == ["2.00", "1.50–2.00"]
    assert [steady.kind, against("with 10", "", "", 1.0, 1.0, "", at_most=1.0).kind] == ["peer", "ourselves"]


def test_the_results_in_the_repository_are_shown_as_they_are() -> None:
    folder = Path(figures.__file__).parent
    assert figures.as_markdown(figures.read(folder / "results.json")) == (folder / "results.md").read_text()


def test_the_relay_that_only_copies_loses_nothing() -> None:
    with relay() as port:
        for load in (Load(5_000, ready_made=True), Load(50, size=262_144, window=12, ready_made=True)):
            run = run_load(port, load)
            assert (run.published, run.delivered) == (load.messages, load.messages)


def test_readme_has_the_figures_of_the_results() -> None:
    results = figures.read(figures.ROOT / "bench" / "results.json")
    text = readme.README.read_text()
    assert readme.written(results, text) == text, (
        "python -c 'from bench import figures, readme; …' or bench/run.py writes it"
    )


class Attempt(NamedTuple):
    rate: float


@pytest.mark.parametrize("start", [100.0, 300.0, 900.0])
def test_a_search_ends_just_below_the_limit(start: float) -> None:
    tried: list[float] = []

    def attempt(rate: float) -> Attempt | None:
        tried.append(rate)
        return Attempt(rate) if rate < 300 else None

    found = limit(start, attempt)
    assert found is not None
    assert found.rate < 300 <= found.rate * NEAR
    assert len(tried) <= MOST_ATTEMPTS


def test_a_search_ends_where_the_publisher_is_the_limit() -> None:
    tried: list[float] = []

    def attempt(rate: float) -> Attempt:
        tried.append(rate)
        return Attempt(min(rate, 200.0))

    assert limit(100.0, attempt) == Attempt(200.0)
    assert tried == [100.0, 150.0, 225.0, 337.5]


def test_a_search_tells_where_every_rate_loses() -> None:
    assert limit(100.0, lambda _: None) is None
    assert highest((1, 2), lambda _: None) is None


def test_a_rate_that_lost_once_is_tried_again() -> None:
    answers = iter([1, None, 2, None, None, 4])
    assert highest((1, 2, 3, 4), lambda _: next(answers)) == 2
