"""The live job with a real broker: alarms are raised and cleared once, also by a job that is started again (P13)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

import fumarole
from fumarole.core.rules import parse
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.jobs.watching import SETTINGS, Watch, WatchingJob, check, rows_of, shards_of
from tests.integration.running import RunningBroker
from tests.pipeline.archives import FOR_COMMANDS
from tests.pipeline.commands import run_command
from tests.pipeline.jobs.test_cluster import cluster, wait_for
from tests.pipeline.live import alarm_faults
from tests.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOT: dict[str, Any] = {"name": "hot", "where": "Kind = 'heat' AND $value > 80", "publish": "alarms.hot.{Region}"}
PATIENCE = 240.0


def watch_of(folder: Path, *tables: dict[str, Any], url: str = "nats://127.0.0.1:1", adopt: bool = False) -> Watch:
    return Watch(parse(list(tables)), url, folder, adopt=adopt)


def test_other_rules_need_to_be_adopted(tmp_path: Path) -> None:
    cold = {"name": "cold", "where": "$value < 0", "publish": "alarms.cold"}
    assert check(watch_of(tmp_path, HOT, cold)) == ""
    assert check(watch_of(tmp_path, {**HOT, "publish": "alarms.elsewhere"}, cold)) == ""
    other = {**HOT, "for": "1 s"}
    with pytest.raises(PipelineError, match=r"--adopt goes on \(state kept: cold; begins anew: hot; .* ended: hot\)"):
        check(watch_of(tmp_path, other, cold))
    assert check(watch_of(tmp_path, other, adopt=True)).endswith("open alarms ended: hot, cold")
    assert check(watch_of(tmp_path, other)) == ""


def test_windows_of_other_rollups_are_dropped_only_when_it_is_adopted(tmp_path: Path) -> None:
    hours = {"name": "hours", "rollup": "1 hour", "publish": "rollups"}
    assert check(watch_of(tmp_path, HOT, hours)) == ""
    other = {**hours, "rollup": "1 minute"}
    with pytest.raises(PipelineError, match=r"kept: hot; begins anew: hours; .* ended: none; .* dropped: hours\)"):
        check(watch_of(tmp_path, HOT, other))
    assert check(watch_of(tmp_path, HOT, other, adopt=True)).endswith("open windows dropped: hours")
    assert check(watch_of(tmp_path, HOT, other)) == ""


def test_a_checkpoint_keeps_its_number_of_shards(tmp_path: Path) -> None:
    """A machine with other cores, or rules that are adopted, must not deal producers out anew."""
    watch = watch_of(tmp_path, HOT)
    assert check(watch) == ""
    assert (shards_of(watch, 4), shards_of(watch, 8)) == (4, 4)
    check(watch_of(tmp_path, {**HOT, "for": "1 s"}, adopt=True))
    assert shards_of(watch, 8) == 4
    (tmp_path / "job.json").write_text('{"rules": {}}')
    with pytest.raises(PipelineError, match="begin with another --checkpoint"):
        shards_of(watch, 8)


@pytest.mark.parametrize(
    ("begin", "end", "rows"),
    [
        ('{"offset": 1767225600000000}', '{"offset": 1767225600000300}', 300),
        ("{'offset': 5}", "{'offset': 5}", 0),
        (None, '{"offset": 7}', 2),
        ("None", "{'offset': 7}", 2),
    ],
)
def test_rows_are_those_of_the_source_and_not_the_packed_ones(begin: str | None, end: str, rows: int) -> None:
    assert rows_of({"startOffset": begin, "endOffset": end, "numInputRows": 2}) == rows


def test_mistakes_are_told_before_spark_starts(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rules]]\nname = "hot"\nwhere = "$value >"\npublish = "alarms"\n')
    assert f"{rules}:3: rules[0].where" in run_command("pipeline", "watch", "--rules", str(rules), code=2)[1]
    rules.write_text("")
    assert "has no rules" in run_command("pipeline", "watch", "--rules", str(rules), code=2)[1]
    rules.write_text('[[rules]]\nname = "hot"\nwhere = "$value > 1"\npublish = "alarms"\n')
    odd = rules.with_name("odd.toml")
    odd.write_text('[[rules]]\nname = "odd"\npython = "nowhere:at_all"\npublish = "alarms"\n')
    assert "No module named 'nowhere'" in run_command("pipeline", "watch", "--rules", str(odd), code=2)[1]
    asked = ("pipeline", "watch", "--rules", str(rules), "--checkpoint", str(tmp_path / "c"))
    assert "--metrics" in run_command(*asked, "--metrics", "nowhere", code=2)[1]
    assert "position" in run_command(*asked, "--where", "Kind =", code=2)[1]


@contextmanager
def watching(spark: SparkSession, watch: Watch) -> Iterator[WatchingJob]:
    """A job that has done a batch."""
    job = WatchingJob(spark, watch)
    with job.started():
        wait_until(job, lambda: job.progress.batches > 0)
        yield job


def wait_until(job: WatchingJob, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        job.look()
        assert time.monotonic() < deadline, job.progress
        time.sleep(0.05)


class Heard:
    """All messages on some topics, from when it is made."""

    def __init__(self, url: str, *patterns: str) -> None:
        self.messages: list[fumarole.Message] = []
        self._ready, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._listen(url, patterns)), daemon=True)
        self._thread.start()
        assert self._ready.wait(20)

    async def _listen(self, url: str, patterns: tuple[str, ...]) -> None:
        async with fumarole.connect(url) as client:
            subscriptions = [await client.subscribe(pattern) for pattern in patterns]
            tasks = [asyncio.create_task(self._take(each)) for each in subscriptions]
            self._ready.set()
            await asyncio.to_thread(self._stop.wait)
            for task in tasks:
                task.cancel()

    async def _take(self, subscription: Any) -> None:
        async for message in subscription:
            self.messages.append(message)

    def on(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(each.payload or b"{}") for each in self.messages if each.topic.startswith(topic)]

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)


def publish(url: str, *values: float, metadata: dict[str, str] | None = None, producer: str | None = None) -> str:
    """Readings of a producer, which is given."""

    async def each() -> str:
        async with fumarole.connect(url) as client:
            own = client.producer(metadata or {}, "sensors.one", producer)
            for value in values:
                await own.publish(value)
            await client.flush()
            return own.id

    return asyncio.run(each())


@pytest.mark.timeout(600)
def test_from_readings_to_alarms(spark: SparkSession, tmp_path: Path) -> None:
    spark.sparkContext.setLogLevel("OFF")
    broker = RunningBroker(tmp_path)
    heard = Heard(broker.url, "alarms.>", "open.>", "_PIPELINE.>")
    before = {key: spark.conf.get(key, None) for key in SETTINGS}
    said_before = publish(broker.url, 20.0, metadata={"Kind": "heat", "Region": "italy"})
    watch = watch_of(tmp_path / "watch", HOT, url=broker.url)
    try:
        with watching(spark, watch) as job:
            publish(broker.url, 85.0, 90.0, producer=said_before)  # its metadata only the broker knows
            wait_until(job, lambda: job.progress.raised == 1)
            wait_until(job, lambda: len(heard.on("open.hot")) == 1)
            assert job.progress.open == {"hot": 1}
        with watching(spark, watch) as job:
            wait_until(job, lambda: bool(heard.on("_PIPELINE.gap")))
            publish(broker.url, 95.0, 30.0, producer=said_before)
            wait_until(job, lambda: job.progress.cleared == 1)
            wait_until(job, lambda: len(heard.on("open.hot")) == 2)
            assert job.progress.open == {"hot": 0}
        assert {key: spark.conf.get(key, None) for key in SETTINGS} == before
    finally:
        heard.close()
        broker.release()
    raised, cleared = heard.on("alarms.hot.italy")
    assert (raised["state"], raised["value"], raised["producer"]) == ("raised", 85.0, said_before)
    assert (cleared["state"], cleared["value"], cleared["since"]) == ("cleared", 30.0, raised["since"])
    assert heard.on(f"open.hot.{said_before}") == [raised, {}]
    headers = [dict(each.headers) for each in heard.messages if each.topic.startswith(("alarms", "open"))]
    assert len({each["Fumarole-Alarm"] for each in headers}) == 2
    assert all("Producer" not in each for each in headers)
    assert [each.get("Retain") for each in headers].count("1") == 2


@pytest.mark.timeout(600)
def test_a_broker_that_is_restarted(spark: SparkSession, tmp_path: Path) -> None:
    """The job goes on: the alarm that was open is cleared, with what the broker's store and the checkpoint have."""
    spark.sparkContext.setLogLevel("OFF")
    broker = RunningBroker(tmp_path)
    name = publish(broker.url, 20.0, metadata={"Kind": "heat", "Region": "italy"})
    try:
        with watching(spark, watch_of(tmp_path / "watch", HOT, url=broker.url)) as job:
            publish(broker.url, 85.0, producer=name)
            wait_until(job, lambda: job.progress.raised == 1)
            broker.kill()
            time.sleep(2)
            job.look()
            broker = RunningBroker(tmp_path, port=broker.port)
            heard = Heard(broker.url, "alarms.>")

            def is_cleared() -> bool:
                publish(broker.url, 30.0, producer=name)  # until the job listens again
                return job.progress.cleared == 1

            wait_until(job, is_cleared)
            wait_until(job, lambda: bool(heard.on("alarms.hot.italy")))
            heard.close()
    finally:
        broker.release()
    said = heard.on("alarms.hot.italy")
    assert [(each["state"], each["producer"], each["value"]) for each in said] == [("cleared", name, 30.0)]


RULES = """
[[rules]]
name = "hot"
where = "Kind = 'heat' and $value > 80"
publish = "alarms.hot.{Region}"

[[rules]]
name = "seconds"
rollup = "1 s"
by = ["Region"]
publish = "rollups.{Region}"
"""


def check_command(folder: Path, *options: str) -> None:
    """`fumarole pipeline watch` in a process of its own: of eight producers each is hot once, then cold."""
    broker = RunningBroker(folder)
    heard = Heard(broker.url, "alarms.>", "rollups.>")
    (folder / "rules.toml").write_text(RULES)
    command = [sys.executable, "-m", "fumarole.cli.main", "pipeline", "watch", "--rules", str(folder / "rules.toml")]
    command += ["--servers", broker.url, "--checkpoint", str(folder / "watch"), *options]
    log = folder / "watch.log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)

    def wait_while_it_runs(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)

    try:
        wait_while_it_runs(lambda: "rows/s" in log.read_text())
        own = [publish(broker.url, 90.0, metadata={"Kind": "heat", "Region": "italy"}) for _ in range(8)]
        wait_while_it_runs(lambda: len(heard.on("alarms.hot.italy")) == 8)
        for name in own:
            publish(broker.url, 20.0, producer=name)
        wait_while_it_runs(lambda: len(heard.on("alarms.hot.italy")) == 16)
        wait_while_it_runs(lambda: sum(window["count"] for window in heard.on("rollups.italy")) == 16)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
        heard.close()
        broker.release()
    alarms = heard.on("alarms.hot.italy")
    assert {(each["producer"], each["state"]) for each in alarms} == {
        (name, state) for name in own for state in ("raised", "cleared")
    }


@pytest.mark.timeout(600)
def test_on_a_cluster_as_on_one_machine(tmp_path: Path) -> None:
    """Spark's own master and two workers (P2)."""
    with cluster(tmp_path) as here:
        conf = ("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1", *FOR_COMMANDS)
        check_command(tmp_path, "--master", here.url, *conf)
    logs = [log for log in tmp_path.glob("worker-*/app-*/*/stderr") if log.stat().st_size]
    assert len({log.parts[-4] for log in logs}) == 2, "both workers took part"


@pytest.mark.timeout(600)
def test_on_a_spark_connect_server(tmp_path: Path) -> None:
    """The job is one of the server's then (P9)."""
    port = free_port()
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "1g"}
    conf = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": port}
    options = [text for key, value in conf.items() for text in ("--conf", f"{key}={value}")]
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    command = [spark_class, "org.apache.spark.deploy.SparkSubmit", "--master", "local[2]", *FOR_COMMANDS, *options]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log = tmp_path / "connect.log"
    with log.open("wb") as said:
        server = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, **own})
    try:
        wait_for(log, "Spark Connect server started at")
        check_command(tmp_path, "--remote", f"sc://127.0.0.1:{port}", "--conf", "spark.sql.shuffle.partitions=2")
    finally:
        server.terminate()
        server.wait(60)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_job_that_is_killed() -> None:
    """Once; `make soak` does it twenty times beside this."""
    assert alarm_faults.main(1) == 0
