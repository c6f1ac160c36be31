"""The replay buffer: the same rows for the same offsets, until they are committed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fumarole.pipeline.live import buffer as buffers
from fumarole.pipeline.live.buffer import Buffer, BufferError, read


def numbers(first: int, count: int) -> pa.Table:
    return pa.table({"number": list(range(first, first + count))})


def values(buffer: Buffer, start: int, end: int) -> list[int]:
    return [value for batch in read(buffer.parts(start, end)) for value in batch["number"].to_pylist()]


class Buffering(RuleBasedStateMachine):
    """Append, read, commit and restart in any order, beside a plain list."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self._folder = tempfile.TemporaryDirectory()
        self.buffer = Buffer(Path(self._folder.name))
        self.buffer.open()
        self.written = 0
        self.trimmed = 0

    def teardown(self) -> None:
        self.buffer.close()
        self._folder.cleanup()

    @rule(count=st.integers(1, 50))
    def append(self, count: int) -> None:
        self.buffer.append(numbers(self.written, count))
        self.written += count

    @rule(data=st.data())
    def read_some(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.trimmed, self.written))
        end = data.draw(st.integers(start, self.written))
        assert values(self.buffer, start, end) == list(range(start, end))

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.trimmed = data.draw(st.integers(self.trimmed, self.written))
        self.buffer.trim(self.trimmed)

    @rule()
    def restart(self) -> None:
        (Path(self._folder.name) / "0000000000009999-5.part").write_bytes(b"half")
        self.buffer.close()
        self.buffer = Buffer(Path(self._folder.name))
        self.buffer.open()

    @invariant()
    def knows_where_it_is(self) -> None:
        assert self.buffer.end == self.written
        assert self.buffer.first == self.trimmed
        assert (self.buffer.size > 0) == (self.written > self.trimmed)


Buffering.TestCase.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
TestBuffering = Buffering.TestCase


@given(st.integers(0, 9), st.integers(10, 30))
def test_rows_that_are_gone_are_said_to_be(start: int, end: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        buffer = Buffer(Path(folder))
        buffer.open()
        buffer.append(numbers(0, 10))
        buffer.trim(10)
        buffer.append(numbers(10, 5))
        if end > 10 or start < 10:
            with pytest.raises(BufferError, match="begin with a new checkpoint"):
                buffer.parts(start, end)
        buffer.close()


def test_two_queries_do_not_share_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "LOCK_SECONDS", 0.01)
    first, second = Buffer(tmp_path), Buffer(tmp_path)
    first.open()
    with pytest.raises(BufferError, match="another query uses the replay buffer"):
        second.open()
    second.close()
    first.close()
    second.open()
    second.close()


def test_a_checkpoint_that_is_ahead_of_its_buffer(tmp_path: Path) -> None:
    """The buffer was deleted and has begun anew: rows that come now must not be taken for those of long ago."""
    buffer = Buffer(tmp_path)
    buffer.open()
    buffer.append(numbers(0, 10))
    buffer.check(10)
    with pytest.raises(BufferError, match="has rows 0 to 10, and the checkpoint asks for 11 to 11"):
        buffer.check(11)
    buffer.close()
