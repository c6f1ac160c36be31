"""Spark's live source and sink with a real broker (P2)."""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

import fumarole
from fumarole import pipeline
from fumarole.pipeline import capturing
from fumarole.pipeline.capturing import Wanted
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.frames import chunks, frames
from fumarole.pipeline.live.buffer import Buffer, BufferError
from fumarole.pipeline.live.buffer import read as buffer_read
from fumarole.pipeline.live.listener import Listener
from fumarole.pipeline.live.publishing import publish as publish_batches
from fumarole.pipeline.live.source import FumaroleSource, LiveReader, ReadOptions, Rows
from tests.integration.running import RunningBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.timeout(300)
ONE = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
PATIENCE = 60.0


def wait_until(holds: Callable[[], bool], query: StreamingQuery | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert query is None or query.exception() is None, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def publish(url: str, messages: Iterable[tuple[str, str]]) -> None:
    async def all_of_them() -> None:
        async with fumarole.connect(url) as client:
            await client.publish_many(messages)
            await client.flush()

    asyncio.run(all_of_them())


def live(spark: SparkSession, url: str, folder: Path, **options: object) -> DataFrame:
    reader = spark.readStream.format("fumarole").option("servers", url).option("buffer", str(folder / "buffer"))
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


def into_files(rows: DataFrame, folder: Path, **trigger: Any) -> StreamingQuery:
    writing = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    return writing.option("path", str(folder / "out")).trigger(**trigger).start()


def count(spark: SparkSession, folder: Path) -> int:
    from pyspark.errors import AnalysisException

    try:
        return spark.read.parquet(str(folder / "out")).count()
    except AnalysisException:
        return 0  # not there yet


def listening(url: str, pattern: str) -> bool:
    """Has the broker confirmed the subscription of a query?"""

    async def known() -> list[str]:
        async with fumarole.connect(url) as client:
            return [each["pattern"] for each in (await client.consumers())["worst"]]

    return pattern in asyncio.run(known())


def test_live_rows_and_a_restart_from_the_checkpoint(
    live_spark: SparkSession, broker: RunningBroker, tmp_path: Path
) -> None:
    rows = live(live_spark, broker.url, tmp_path, topic="live.>", maxRowsPerTrigger=3_000, partitions=2)
    query = into_files(rows, tmp_path, processingTime="0 seconds")
    wait_until(lambda: listening(broker.url, "live.>"), query)
    publish(broker.url, ((f"live.{number % 7}", str(number)) for number in range(5_000)))

    async def reading() -> None:
        async with fumarole.connect(broker.url) as client:
            await client.publish("live.r", b"x", headers={"Unit": "K", "Producer": ONE, "Metadata": '{"Room": "410"}'})
            await client.flush()

    asyncio.run(reading())
    wait_until(lambda: count(live_spark, tmp_path) == 5_001, query)
    assert max(progress["numInputRows"] for progress in query.recentProgress) <= 3_000
    query.stop()
    wait_until(lambda: not listening(broker.url, "live.>"))

    again = into_files(rows, tmp_path, processingTime="0 seconds")
    wait_until(lambda: listening(broker.url, "live.>"), again)
    publish(broker.url, ((f"live.{number % 7}", str(number)) for number in range(5_000, 6_000)))
    wait_until(lambda: count(live_spark, tmp_path) == 6_001, again)
    again.stop()

    found = live_spark.read.parquet(str(tmp_path / "out"))
    numbers = found.where("value is not null").selectExpr("cast(value as long) number", "topic").collect()
    assert Counter((row.topic, row.number) for row in numbers) == Counter(
        (f"live.{number % 7}", number) for number in range(6_000)
    )
    (odd,) = found.where("value is null and time = recorded").drop("time", "recorded").collect()
    assert odd.asDict(recursive=True) == {
        "topic": "live.r", "producer": ONE, "value": None, "payload": bytearray(b"x"), "headers": {"Unit": ["K"]},
        "changes": [{"key": "Room", "kind": "text", "text": "410", "number": None, "truth": None}],
        "event_time": None, "wrong_clock": False,
    }  # fmt: skip
    # What was committed is gone from the buffer: all but the batches that Spark may yet ask for again.
    assert sum(path.stat().st_size for path in (tmp_path / "buffer").glob("*.arrow")) < 200_000


def test_whatever_ends_the_listener_is_told(broker: RunningBroker, tmp_path: Path) -> None:
    """A thread that ended in silence would look like a broker on which nothing is said."""

    class Broken(Buffer):
        def append(self, rows: pa.Table) -> None:
            raise ArithmeticError(rows.num_rows)

    listener = Listener(broker.url, Wanted("broken"), Broken(tmp_path), 1 << 20)
    listener.start()
    publish(broker.url, [("broken", "1")])

    def told() -> bool:
        try:
            listener.check()
        except PipelineError as error:
            return str(error) == "ArithmeticError: 1"
        return False

    wait_until(told)
    listener.stop()


def test_a_full_buffer_has_room_again_when_its_rows_are_dealt_with(broker: RunningBroker, tmp_path: Path) -> None:
    """Spark commits a batch when it plans the next; that there is a next one cannot wait for the commit."""
    from pyspark.sql.types import StructType

    reader = LiveReader(
        ReadOptions.of({"servers": broker.url, "topic": "full", "buffer": str(tmp_path), "bufferBytes": "1"}),
        StructType(),
    )
    begin = reader.initialOffset()["offset"]
    for number in range(3):
        publish(broker.url, [("full", str(number))])
        wait_until(lambda: reader.reportLatestOffset()["offset"] > begin)
    time.sleep(1)
    assert reader.reportLatestOffset() == {"offset": begin + 1}  # the others wait in the client, and then in the broker
    assert reader.latestOffset({"offset": begin}) == {"offset": begin + 1}
    wait_until(lambda: reader.latestOffset({"offset": begin + 1}) == {"offset": begin + 3})
    (rows,) = reader.partitions({"offset": begin}, {"offset": begin + 1})  # nothing goes before it is committed
    assert isinstance(rows, Rows)
    assert [batch["value"].to_pylist() for batch in buffer_read(rows.parts)] == [[0.0]]
    reader.stop()


def test_readings_that_are_lost_are_in_the_log(
    broker: RunningBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L3: the broker has delivered them, and counts none. Published = in the buffer + said to be lost."""
    monkeypatch.setattr(capturing, "READINGS_AT_ONCE", 500)
    monkeypatch.setitem(cast("dict[str, Any]", fumarole.Client.where.__kwdefaults__), "buffer", 500)
    readings = 5_000  # one batch is in the buffer, one waits for room, and 500 wait in the client
    rows = pa.table({"topic": ["lost"] * readings, "payload": ["1"] * readings, "producer": [ONE] * readings})

    async def publish_all() -> int:
        async with fumarole.connect(broker.url) as client:
            await client.producer({"Kind": "lost"}, identity=ONE).publish(0.0)
            await client.publish_frames(chunks(frames(rows, client.max_payload)))
            await client.flush()
            return sum(each["dropped"] for each in (await client.consumers())["worst"])

    buffer = Buffer(tmp_path)
    buffer.open()
    begin = buffer.first
    listener = Listener(broker.url, Wanted(where="Kind = 'lost'"), buffer, 1)
    listener.start()
    dropped = asyncio.run(publish_all())
    listener.stop()
    listener.check()
    buffer.close()
    lost = [re.fullmatch(r"readings lost: (\d+); they came faster .*", each) for each in caplog.messages]
    assert 1 <= len(lost) <= 2  # at once, and at the end
    assert buffer.end - begin + sum(int(each[1]) for each in lost if each) + dropped == readings + 1


def test_live_metadata(live_spark: SparkSession, broker: RunningBroker, tmp_path: Path) -> None:
    """Of a producer that introduced itself before the query began, and of one that comes later, with its changes."""
    before = publish_reading(broker.url, 1.0, {"Region": "italy", "Level": 2})
    rows = pipeline.live_metadata(live_spark, servers=broker.url, topic="described.*", buffer=str(tmp_path / "buffer"))
    italian = rows.where(pipeline.where("Region = 'italy'", rows)).selectExpr("value", "metadata.Level.number level")
    query = into_files(italian, tmp_path, processingTime="0 seconds")
    wait_until(lambda: listening(broker.url, "described.*"), query)
    publish_reading(broker.url, 2.0, {}, before)
    after = publish_reading(broker.url, 3.0, {"Region": "italy", "Level": 4})
    publish_reading(broker.url, 4.0, {"Region": "japan"}, after)
    publish_reading(broker.url, 5.0, {"Level": None}, before)
    wait_until(lambda: count(live_spark, tmp_path) == 3, query)
    query.stop()
    found = live_spark.read.parquet(str(tmp_path / "out")).orderBy("value").collect()
    assert [tuple(row) for row in found] == [(2.0, 2.0), (3.0, 4.0), (5.0, None)]


def publish_reading(url: str, value: float, metadata: dict[str, Any], identity: str | None = None) -> str:
    """Gives the producer."""

    async def once() -> str:
        async with fumarole.connect(url) as client:
            producer = client.producer(metadata, "described.a", identity)
            await producer.publish(value)
            await client.flush()
            return producer.id

    return asyncio.run(once())


def test_available_now_ends_by_itself(live_spark: SparkSession, broker: RunningBroker, tmp_path: Path) -> None:
    rows = live(live_spark, broker.url, tmp_path, topic="now.*", listen=2, partitions=1, maxRowsPerTrigger=1_000)
    query = into_files(rows, tmp_path, availableNow=True)
    wait_until(lambda: listening(broker.url, "now.*"), query)
    publish(broker.url, (("now.a", str(number)) for number in range(2_500)))
    assert query.awaitTermination(60)
    assert query.exception() is None
    assert count(live_spark, tmp_path) == 2_500
    assert len([each for each in query.recentProgress if each["numInputRows"]]) == 3


@contextmanager
def heard(url: str, pattern: str) -> Iterator[list[fumarole.Message]]:
    """Everything that is published meanwhile."""
    messages: list[fumarole.Message] = []
    ready, done = threading.Event(), threading.Event()

    async def listen() -> None:
        async with fumarole.connect(url) as client, client.subscribe(pattern, buffer=1_000_000) as subscription:
            ready.set()
            while not done.is_set():
                await client.flush()
                if subscription.buffered:
                    messages.extend(await anext(subscription.batches()))
                await asyncio.sleep(0.02)

    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    assert ready.wait(10)
    try:
        yield messages
    finally:
        done.set()
        thread.join()


def test_rows_are_published(live_spark: SparkSession, broker: RunningBroker) -> None:
    rows = live_spark.range(5_000).selectExpr(
        "concat('out.', id % 5) topic", "cast(id as string) payload",
        f"case when id = 7 then '{ONE}' end producer", "case when id = 7 then map('Unit', array('K', 'C')) end headers",
    )  # fmt: skip
    with heard(broker.url, "out.*") as messages:
        rows.repartition(3).write.format("fumarole").option("servers", broker.url).mode("append").save()
        wait_until(lambda: len(messages) >= 5_000)
    assert Counter((message.topic, message.text) for message in messages) == Counter(
        (f"out.{number % 5}", str(number)) for number in range(5_000)
    )
    marks = [message.headers["Fumarole-Row"] for message in messages]
    assert len(set(marks)) == 5_000
    with heard(broker.url, "plain") as plain:
        numbers = live_spark.range(3).selectExpr("cast(id as double) value").coalesce(1)
        writing = numbers.write.format("fumarole").option("servers", broker.url).option("topic", "plain")
        writing.option("marks", "false").mode("append").save()
        wait_until(lambda: len(plain) >= 3)
    assert [(message.text, message.header_pairs) for message in plain] == [("0", []), ("1", []), ("2", [])]
    (seven,) = [message for message in messages if message.text == "7"]
    assert [pair for pair in seven.header_pairs if pair[0] != "Fumarole-Row"] == [
        ("Producer", ONE),
        ("Unit", "K"),
        ("Unit", "C"),
    ]


def test_what_is_tried_again_has_the_same_marks(broker: RunningBroker) -> None:
    """P2: by which a consumer knows what it had already."""
    batches = [pa.record_batch({"topic": ["twice", "twice"], "payload": [b"1", b"2"]})] * 2
    with heard(broker.url, "twice") as messages:
        for job in ("one", "one", "other"):
            assert publish_batches(iter(batches), broker.url, {}, job) == 4
        wait_until(lambda: len(messages) >= 12)
    marks = [message.headers["Fumarole-Row"] for message in messages]
    assert marks[:4] == marks[4:8]
    assert len(set(marks[:4])) == 4
    assert not set(marks[:4]) & set(marks[8:])


def test_a_broker_that_is_restarted_meanwhile_fails_the_task(tmp_path: Path) -> None:
    """P2: at least once. What the lost connection had taken is gone; only Spark, trying again, has it still."""
    broker = RunningBroker(tmp_path)
    restarted: list[RunningBroker] = []

    def batches() -> Iterator[pa.RecordBatch]:
        batch = pa.record_batch({"topic": ["lost"] * 1_000, "payload": [b"x"] * 1_000})
        yield batch
        broker.kill()
        restarted.append(RunningBroker(tmp_path, port=broker.port))
        yield from [batch] * 3

    try:
        with pytest.raises(PipelineError, match=r"may not have heard all rows of this task.* was lost \("):
            publish_batches(batches(), broker.url, {}, "job")
    finally:
        for each in restarted:
            each.release()


def test_a_broker_does_not_give_up_a_task_whose_rows_take_long(tmp_path: Path) -> None:
    broker = RunningBroker(tmp_path, '[limits]\nidle = "0.2 s"\n')

    def batches() -> Iterator[pa.RecordBatch]:
        batch = pa.record_batch({"topic": ["slow"], "payload": [b"x"]})
        yield batch
        time.sleep(3)
        yield batch

    try:
        assert publish_batches(batches(), broker.url, {}, "job") == 2
    finally:
        broker.release()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param({"topik": "a"}, "fumarole has no option 'topik'; it has buffer, ", id="unknown"),
        pytest.param({"maxRowsPerTrigger": "0"}, "maxrowspertrigger is a whole number above 0, not '0'", id="0"),
        pytest.param({"maxRowsPerTrigger": "0.5"}, "a whole number above 0, not '0.5'", id="a share of a row"),
        pytest.param({"partitions": "x"}, "partitions is a whole number above 0, not 'x'", id="no number"),
        pytest.param({"partitions": "0.5"}, "a whole number above 0, not '0.5'", id="a share of a task"),
        pytest.param({"partitions": "inf"}, "a whole number above 0, not 'inf'", id="tasks without end"),
        pytest.param({"bufferBytes": "1e9"}, "bufferbytes is a whole number above 0, not '1e9'", id="no digits"),
        pytest.param({"listen": "0"}, "listen is a number of seconds above 0, not '0'", id="no time"),
        pytest.param({"listen": "inf"}, "a number of seconds above 0, not 'inf'", id="for ever"),
        pytest.param({"listen": "nan"}, "a number of seconds above 0, not 'nan'", id="not a number"),
        pytest.param({"listen": "x"}, "a number of seconds above 0, not 'x'", id="no seconds"),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], text: str) -> None:
    with pytest.raises(PipelineError, match=text):
        ReadOptions.of(options)


def test_options_of_a_sink_that_cannot_be() -> None:
    """What Spark hands on is taken, and is not said to be an option of ours."""
    from pyspark.sql.types import StructType

    given = {"queryName": "alarms", "checkpointLocation": "here", "path": "there"}
    FumaroleSource(given).streamWriter(StructType(), overwrite=False)
    FumaroleSource(given).writer(StructType(), overwrite=False)
    with pytest.raises(PipelineError, match=r"no option 'topik'; it has marks, refusals, servers, topic$"):
        FumaroleSource({**given, "topik": "a"}).streamWriter(StructType(), overwrite=False)


def test_a_batch_of_live_messages_is_none(live_spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(
        PySparkException, match=r"use spark\.readStream\. What was recorded is read by pipeline\.archive"
    ):
        live_spark.read.format("fumarole").load().collect()


def test_a_query_that_publishes_may_have_a_name(
    live_spark: SparkSession, broker: RunningBroker, tmp_path: Path
) -> None:
    rows = live(live_spark, broker.url, tmp_path, topic="nameless").selectExpr("'named' topic", "payload")
    writing = rows.writeStream.queryName("alarms").format("fumarole").option("servers", broker.url)
    query = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with heard(broker.url, "named") as messages:
        wait_until(lambda: listening(broker.url, "nameless"), query)
        publish(broker.url, [("nameless", "1")])
        wait_until(lambda: bool(messages), query)
        query.stop()
    assert query.name == "alarms"


def test_a_query_whose_buffer_was_deleted_does_not_go_on(broker: RunningBroker, tmp_path: Path) -> None:
    """P2: each start writes rows to the new buffer before Spark asks; they are never taken for those of the old one."""
    from pyspark.sql.types import StructType

    options = ReadOptions.of({"servers": broker.url, "topic": "deleted", "buffer": str(tmp_path / "buffer")})

    def started() -> tuple[LiveReader, int]:
        """A reader, and where its buffer begins; a hundred rows have come."""
        reader = LiveReader(options, StructType())
        begin, end = reader.initialOffset()["offset"], reader.reportLatestOffset()["offset"]
        publish(broker.url, [("deleted", str(number)) for number in range(100)])
        wait_until(lambda: reader.reportLatestOffset()["offset"] == end + 100)
        return reader, begin

    reader, begin = started()
    checkpoint = reader.latestOffset({"offset": begin})
    assert checkpoint == {"offset": begin + 100}
    reader.commit(checkpoint)
    reader.stop()

    shutil.rmtree(tmp_path / "buffer")
    for _ in range(3):
        reader, _ = started()
        with pytest.raises(BufferError, match="begin with a new checkpoint"):
            reader.latestOffset(checkpoint)
        reader.stop()
    reader, begin = started()
    assert reader.latestOffset({"offset": begin}) == {"offset": begin + 400}  # a new checkpoint has them all
    reader.stop()


def test_mistakes_are_in_the_error_of_the_query(
    live_spark: SparkSession, broker: RunningBroker, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException, StreamingQueryException

    rows = live(live_spark, broker.url, tmp_path, topic="a.>.b")
    with pytest.raises(StreamingQueryException, match="must be the last word"):
        into_files(rows, tmp_path, processingTime="0 seconds").awaitTermination(60)
    with pytest.raises(PySparkException, match="have a column `topic`"):
        live_spark.range(1).write.format("fumarole").option("servers", broker.url).mode("append").save()


def test_the_example_of_the_page(live_spark: SparkSession, broker: RunningBroker, tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "live.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    servers = f'.option("servers", "{broker.url}")'
    code = code.replace('.option("topic"', f'{servers}.option("buffer", "{tmp_path}/buffer").option("topic"')
    code = code.replace(
        '.option("checkpointLocation", "checkpoint")', f'{servers}.option("checkpointLocation", "{tmp_path}")'
    )
    names: dict[str, Any] = {}
    exec(code, names)
    query: StreamingQuery = names["query"]
    with heard(broker.url, "alarms.>") as messages:
        wait_until(lambda: listening(broker.url, "volcanoes.>"), query)
        publish(broker.url, [("volcanoes.usa.atka", "21.5"), ("volcanoes.usa.kilauea", "1084.5")])
        wait_until(lambda: bool(messages), query)
        query.stop()
    assert [(message.topic, message.text) for message in messages] == [("alarms.volcanoes.usa.kilauea", "1084.5")]
    # The query and its batch are in the mark: the same when the batch is tried again, another in every other batch.
    assert re.fullmatch(rf"{query.id}-\d+-\d+-\d+", messages[0].headers["Fumarole-Row"])
