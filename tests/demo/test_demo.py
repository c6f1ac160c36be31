import io
import os
import pty
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest
from rich.console import Console

from fumarole.core.query.compile import compiled
from fumarole.core.query.parse import parse
from fumarole.core.topic import check_topic, matches, parse_pattern
from fumarole.demo.broker import Launched
from fumarole.demo.cluster import DemoCluster
from fumarole.demo.demo import SAMPLE, Flow, Scene
from fumarole.demo.screen import bars, picture, sparkline, status_line
from fumarole.demo.sensors import ALARM, CALM, alarming, sensors

SECONDS = 20.0
Process = subprocess.Popen[bytes]


def test_sensors_publish_on_the_topics_of_the_consumer() -> None:
    for topic in CALM:
        check_topic(topic)
        assert matches(parse_pattern("volcanoes.>"), topic.split("."))


def test_sensors_say_what_they_are() -> None:
    """So that a query finds some of them."""
    described = [sensor.metadata() for sensor in sensors(random.Random())]
    selects = compiled(parse("Region = 'italy' and Kind = 'temperature'"))
    assert [each["Station"] for each in described if selects(each)] == ["etna/south", "stromboli"]


def test_temperatures_drift_and_sometimes_spike() -> None:
    for sensor in sensors(random.Random(7)):
        read = [sensor.read() for _ in range(20_000)]
        calm = [value for value in read if abs(value - sensor.calm) < ALARM]
        assert len(calm) > len(read) / 2
        assert len(set(calm)) > 20
        assert any(alarming(sensor.topic, value) for value in read)
        # However hot it was, it calms down again.
        hottest = read.index(max(read))
        assert any(abs(value - sensor.calm) < 10 for value in read[hottest:]) or hottest > 19_000


def test_what_is_no_sensor_of_ours_alarms_nobody() -> None:
    assert not alarming("volcanoes.elsewhere", 1000.0)


def test_eruptions_begin_and_end_in_the_metadata() -> None:
    sensor = sensors(random.Random(5))[0]
    status = []
    for _ in range(20_000):
        sensor.read()
        before = sensor.metadata()["Status"]
        if change := sensor.change():
            assert change["Status"] != before
            status.append(change["Status"])
        assert sensor.metadata()["Status"] == change.get("Status", before)
    assert status[:4] == ["erupting", "quiet", "erupting", "quiet"]


@pytest.mark.parametrize(
    ("values", "width", "drawn"),
    [([], 5, ""), ([1, 1, 1], 5, "▁▁▁"), ([0, 7], 5, "▁█"), ([9, 9, 0, 1, 2, 3, 4, 5, 6, 7], 8, "▁▂▃▄▅▆▇█")],
)
def test_sparkline(values: list[float], width: int, drawn: str) -> None:
    assert sparkline(values, width) == drawn


def test_bars_begin_at_zero() -> None:
    assert bars([7, 7, 7], 2) == "██"
    assert bars([0, 0], 5) == "▁▁"


def test_rates() -> None:
    flow = Flow("a", "b")
    assert flow.rate() == 0
    for total in (100, 300, 500):
        flow.total = total
        flow.sample()
    assert flow.rates() == [100 / SAMPLE, 200 / SAMPLE, 200 / SAMPLE]
    assert flow.rate() == 200 / SAMPLE


def busy_scene(url: str = "nats://127.0.0.1:4222") -> Scene:
    scene = Scene(url)
    for number in range(100):
        for flow in scene.flows():
            flow.total = number * 1_000_000
            flow.sample()
        for topic, calm in CALM.items():
            scene.note(topic, calm + number)
    scene.broker = {"received": 10**9, "delivered": 10**9, "dropped": {"outbox full": 12_345}}
    return scene


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60), (80, 20)])
def test_the_picture_fits(width: int, height: int) -> None:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(picture(busy_scene(), width, height))
    lines = captured.get().splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for part in (
        "sensors",
        "consumer",
        "archive 1",
        "archive 2",
        "volcanoes.usa.atka",
        "12,345 dropped",
        "sub 'volcanoes.usa.>'",
        "sub --where",
    ):
        assert part in text
    assert "…" not in text
    assert "--servers" not in text


def test_hints_name_the_port_where_it_is_not_the_usual_one() -> None:
    console = Console(width=120, file=io.StringIO())
    with console.capture() as captured:
        console.print(picture(busy_scene("nats://127.0.0.1:5000"), 120, 40))
    assert "stats --watch --servers nats://127.0.0.1:5000" in captured.get()


def test_a_cluster_says_what_to_kill_and_whose_numbers_these_are() -> None:
    scene = busy_scene()
    scene.broker["node"] = "node-1"
    scene.cluster = DemoCluster.__new__(DemoCluster)  # one whose nodes were not started
    process = subprocess.Popen(["true"])
    process.wait()
    scene.cluster.nodes = [Launched(process, "nats://127.0.0.1:4222", "http://127.0.0.1:8222"), None]
    console = Console(width=100, file=io.StringIO())
    with console.capture() as captured:
        console.print(picture(scene, 100, 40))
    shown = captured.get()
    assert f"node-1 pid {process.pid}, node-2 away: kill one and see" in shown
    assert "node-1, where the sensors are: 1,000,000,000 received" in shown
    assert f"kill -9 {process.pid}" in shown
    assert "cluster status" in shown


def test_status_line() -> None:
    scene = Scene("nats://127.0.0.1:4222")
    assert status_line(scene) == "sensors 0/s, consumer 0/s, archive 1 0/s, archive 2 0/s"


class Demo:
    """`fumarole demo` in a process group of its own, as a shell starts it."""

    def __init__(self, *arguments: str, stdout: int = subprocess.PIPE) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fumarole.cli.main", "demo", *arguments],
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "xterm", "FUMAROLE_NATS": "192.0.2.1:1"},  # of another broker, not for this one
            start_new_session=True,
        )

    def broker(self) -> int:
        """The process of its broker."""
        deadline = time.monotonic() + SECONDS
        while not (found := children(self.process.pid)):
            assert self.process.poll() is None, self.error()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return found[0]

    def interrupt(self) -> None:
        """Ctrl-C: to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def error(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def demos() -> Iterator[list[Demo]]:
    started: list[Demo] = []
    yield started
    for demo in started:
        if demo.process.poll() is None:
            demo.process.kill()
        demo.process.communicate()


def test_a_line_a_second_and_a_summary_at_the_end(demos: list[Demo]) -> None:
    demo = Demo("--port", "0", "--rate", "5000")
    demos.append(demo)
    broker = demo.broker()
    assert demo.process.stdout is not None
    line = demo.process.stdout.readline()
    assert re.fullmatch(rb"broker: nats://127.0.0.1:\d+, console: http://127.0.0.1:\d+\n", line), demo.error()
    while not re.match(
        rb"sensors [1-9][0-9,]*/s, consumer [1-9][0-9,]*/s, archive 1 [1-9].*, archive 2 [1-9].*\n", line
    ):
        line = demo.process.stdout.readline()
        assert line.startswith(b"sensors "), demo.error()
    demo.interrupt()
    out, err = demo.process.communicate(timeout=SECONDS)
    assert (demo.process.returncode, err) == (0, b"")
    published, consumer, group = (
        int(count.replace(",", "")) for count in re.findall(r"(?:sensors|consumer|group) +([0-9,]+)", out.decode())[-3:]
    )
    assert published == consumer == group > 0
    assert not running(broker)


def test_a_live_screen_on_a_terminal(demos: list[Demo]) -> None:
    terminal, end = pty.openpty()
    ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    demo = Demo("--port", "0", stdout=end)
    demos.append(demo)
    os.close(end)
    broker = demo.broker()
    shown = b""
    while b"volcanoes.usa.atka" not in shown or b"Try in another terminal" not in shown:
        shown += os.read(terminal, 65536)
    demo.interrupt()
    rest = b""
    while b"received by the group" not in rest:
        rest += os.read(terminal, 65536)
    assert demo.process.wait(SECONDS) == 0
    assert demo.error() == ""
    _, _, summary = rest.partition(b"\x1b[?1049l")
    assert b"\x1b[?1049h" in shown
    assert b"published by the sensors" in summary
    assert b"\x1b[?25h" in rest  # the cursor is back
    assert not running(broker)
    os.close(terminal)


def test_a_port_that_is_taken(demos: list[Demo]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        demo = Demo("--port", str(port))
        demos.append(demo)
        out, err = demo.process.communicate(timeout=SECONDS)
    assert (demo.process.returncode, out) == (1, b"")
    expected = f"port {port} is taken, perhaps by another broker; try `fumarole demo --port {port + 1}`\n"
    assert err.decode() == expected


def test_the_broker_does_not_outlive_a_demonstration_that_was_killed(demos: list[Demo]) -> None:
    demo = Demo("--port", "0")
    demos.append(demo)
    broker = demo.broker()
    assert demo.process.stdout is not None
    demo.process.stdout.readline()
    demo.process.kill()
    deadline = time.monotonic() + SECONDS
    while running(broker):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_broker_that_dies_ends_it_with_a_sentence(demos: list[Demo]) -> None:
    demo = Demo("--port", "0")
    demos.append(demo)
    broker = demo.broker()
    assert demo.process.stdout is not None
    demo.process.stdout.readline()
    os.kill(broker, signal.SIGKILL)
    _, err = demo.process.communicate(timeout=SECONDS)
    assert demo.process.returncode == 1
    assert err.startswith(b"the broker is gone: the connection to nats://127.0.0.1:")
    assert b"Traceback" not in err
