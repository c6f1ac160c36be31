"""The replay buffer: the same rows for the same offsets, until they are committed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fumarole.pipeline.archive.places import sync_folder
from fumarole.pipeline.live import buffer as buffers
from fumarole.pipeline.live.buffer import Buffer, BufferError, read
from fumarole.pipeline.locks import take


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
        self.begin = self.buffer.first
        self.written = 0
        self.trimmed = self.done = 0

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
        assert values(self.buffer, self.begin + start, self.begin + end) == list(range(start, end))

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.trimmed = data.draw(st.integers(self.trimmed, self.written))
        self.buffer.trim(self.begin + self.trimmed)

    @rule(data=st.data())
    def deal_with(self, data: st.DataObject) -> None:
        self.done = data.draw(st.integers(self.done, self.written))
        self.buffer.done(self.begin + self.done)

    @rule()
    def restart(self) -> None:
        (Path(self._folder.name) / "0000000000009999-5.part").write_bytes(b"half")
        self.buffer.close()
        self.buffer = Buffer(Path(self._folder.name))
        self.buffer.open()
        self.done = 0

    @invariant()
    def knows_where_it_is(self) -> None:
        assert self.buffer.end == self.begin + self.written
        assert self.buffer.first == self.begin + self.trimmed
        assert (self.buffer.waiting > 0) == (self.written > max(self.trimmed, self.done))


Buffering.TestCase.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
TestBuffering = Buffering.TestCase


@given(st.integers(0, 9), st.integers(10, 30))
def test_rows_that_are_gone_are_said_to_be(start: int, end: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        buffer = Buffer(Path(folder))
        buffer.open()
        begin = buffer.first
        buffer.append(numbers(0, 10))
        buffer.trim(begin + 10)
        buffer.append(numbers(10, 5))
        if end > 10 or start < 10:
            with pytest.raises(BufferError, match="begin with a new checkpoint"):
                buffer.parts(begin + start, begin + end)
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


def test_a_closed_buffer_takes_no_rows(tmp_path: Path) -> None:
    """A listener may outlive its query for a moment: the numbers are those of the next one then."""
    buffer, other = Buffer(tmp_path), Buffer(tmp_path)
    buffer.open()
    begin = buffer.first
    buffer.append(numbers(0, 10))
    buffer.close()
    other.open()
    with pytest.raises(BufferError, match="is closed, and takes no more rows"):
        buffer.append(numbers(100, 5))
    other.append(numbers(10, 5))
    assert values(other, begin, begin + 15) == list(range(15))
    other.close()


def test_a_buffer_is_not_closed_while_rows_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing, go_on = threading.Event(), threading.Event()

    def slow(folder: Path) -> None:
        writing.set()
        assert go_on.wait(10)
        sync_folder(folder)

    buffer = Buffer(tmp_path)
    buffer.open()
    monkeypatch.setattr(buffers, "sync_folder", slow)
    appending = threading.Thread(target=buffer.append, args=(numbers(0, 10),))
    closing = threading.Thread(target=buffer.close)
    appending.start()
    assert writing.wait(10)
    closing.start()
    assert take(tmp_path / "lock") is None
    go_on.set()
    for thread in (appending, closing):
        thread.join(10)
    lock = take(tmp_path / "lock")
    assert lock is not None
    lock.close()


def test_a_link_of_somebody_else_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that all may write to, it may lead to any folder of ours."""
    (tmp_path / "ours").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "ours")
    buffer = Buffer(link)
    buffer.open()  # a link of our own is no harm
    buffer.close()
    if os.getuid() == 0:
        os.lchown(link, 12_345, 12_345)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12_345)
    with pytest.raises(BufferError, match="is another user's; choose a folder by the option `buffer`"):
        buffer.open()


def test_a_checkpoint_that_is_ahead_of_its_buffer(tmp_path: Path) -> None:
    """An older buffer was put back: rows that come now must not be taken for those that it had."""
    buffer = Buffer(tmp_path)
    buffer.open()
    begin = buffer.first
    buffer.append(numbers(0, 10))
    buffer.check(begin + 10)
    with pytest.raises(
        BufferError, match=f"has rows {begin:,} to {begin + 10:,}, and the checkpoint asks for {begin + 11:,} to"
    ):
        buffer.check(begin + 11)
    buffer.close()


def test_a_buffer_that_was_deleted_is_not_taken_for_the_one_before(tmp_path: Path) -> None:
    """However often the query is started again, and however many rows have come meanwhile."""
    old = Buffer(tmp_path / "old")
    old.open()
    begin = old.first
    old.append(numbers(0, 10))
    checkpoint = old.end
    old.close()
    new = Buffer(tmp_path / "new")
    for start in range(3):
        new.open()
        new.append(numbers(start, 10))
        with pytest.raises(BufferError, match="or was deleted"):
            new.check(checkpoint)
        with pytest.raises(BufferError, match="or was deleted"):
            new.parts(begin, checkpoint)
        with pytest.raises(BufferError, match="or was deleted"):
            new.parts(new.first, checkpoint)  # a first batch that is asked for again begins where the buffer does
        new.close()


def test_a_buffer_that_is_there_keeps_its_numbers(tmp_path: Path) -> None:
    """One without rows too, and one whose first row is number 0."""
    empty = Buffer(tmp_path / "empty")
    empty.open()
    begin = empty.first
    empty.close()
    empty.open()
    assert (empty.first, empty.end) == (begin, begin)
    empty.close()

    folder = tmp_path / "from zero"
    folder.mkdir()
    with pa.ipc.new_file(folder / f"{0:016d}-10.arrow", numbers(0, 10).schema) as writer:
        writer.write_table(numbers(0, 10))
    zero = Buffer(folder)
    zero.open()
    zero.append(numbers(10, 5))
    zero.check(0)
    assert values(zero, 0, 15) == list(range(15))
    zero.close()
