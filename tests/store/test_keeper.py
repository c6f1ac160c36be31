import asyncio
import logging
import resource
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from fumarole.core.limits import Limits
from fumarole.core.query.tree import Value
from fumarole.exchange.namespaces import NamespaceRules, Namespaces
from fumarole.exchange.presence import said_by_producer
from fumarole.exchange.readings import Reading, ReadingError
from fumarole.store import keeper as module
from fumarole.store.keeper import Keeper
from fumarole.store.producers import FILE, StoreError

A, B, C = (f"0000000{n}-0000-4000-8000-000000000000" for n in range(3))
Known = dict[str, dict[str, dict[str, Value]]]


class World:
    """A keeper, what it keeps, and its warnings."""

    def __init__(self, folder: Path, namespaces: Namespaces | None = None) -> None:
        self.namespaces = namespaces or Namespaces()
        self.warnings: list[str] = []
        self.keeper = Keeper(folder, self.namespaces, self._warn, seconds=0.01)

    def _warn(self, text: str, *arguments: object) -> None:
        self.warnings.append(text % arguments)

    def hear(self, namespace: str, identity: str, **metadata: Value | None) -> None:
        """From a connection that comes, reads and leaves."""
        exchange = self.namespaces.join(namespace)
        exchange.producers.hear(Reading(identity, metadata, 1.0), 0.0)
        self.namespaces.leave(exchange)

    def forget(self, namespace: str, identity: str) -> None:
        exchange = self.namespaces.join(namespace)
        assert exchange.producers.forget(identity)
        self.namespaces.leave(exchange)

    def known(self) -> Known:
        return {
            exchange.name: {producer.identity: said_by_producer(producer.metadata) for producer in exchange.producers}
            for exchange in self.namespaces
            if exchange.producers
        }

    def unsaved(self) -> set[str]:
        return {identity for exchange in self.namespaces for identity in exchange.producers.unsaved}


@asynccontextmanager
async def loaded(folder: Path, namespaces: Namespaces | None = None) -> AsyncIterator[World]:
    """The keeper's task does not run: the test says when to save."""
    world = World(folder, namespaces)
    try:
        await world.keeper.load()
        yield world
    finally:
        await world.keeper.close()


async def kept(folder: Path, namespaces: Namespaces | None = None) -> Known:
    async with loaded(folder, namespaces) as world:
        assert not world.unsaved()
        assert not world.warnings
        return world.known()


def set_aside(folder: Path) -> list[Path]:
    return list(folder.glob("producers-damaged-*.sqlite"))


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    async with loaded(tmp_path) as world:
        world.hear("default", A, Room="410", Floor=4)
        world.hear("lab", A, Room="1")
        world.hear("lab", B)
        world.hear("default", A, Room="411", Floor=None)
        assert await world.keeper.save()
        assert not world.unsaved()
        world.hear("lab", C, not_saved=True)
    assert await kept(tmp_path) == {"default": {A: {"Room": "411"}}, "lab": {A: {"Room": "1"}, B: {}}}


async def test_a_namespace_that_ends_while_its_last_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last client leaves and another comes between two steps of the keeper: that one's namespace stays."""
    monkeypatch.setattr(module, "SLICE", 1)
    async with loaded(tmp_path) as world:
        namespaces = world.namespaces
        ended = namespaces.join("lab")
        for identity in (A, B):
            ended.producers.hear(Reading(identity, {}, 1.0), 0.0)
        await world.keeper.save()
        for identity in (A, B):
            ended.producers.forget(identity)
        world.hear("default", C)
        saving = asyncio.create_task(world.keeper.save())
        while ended.producers.unsaved:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0)
        assert not saving.done()
        namespaces.leave(ended)
        begun = namespaces.join("lab")
        assert begun is not ended
        assert await saving
        assert namespaces.get("lab") is begun
        assert not world.warnings


async def test_the_forgotten_stay_forgotten(tmp_path: Path) -> None:
    async with loaded(tmp_path) as world:
        for identity in (A, B, C):
            world.hear("default", identity, n=1)
        world.hear("lab", A)
        await world.keeper.save()
        world.forget("default", A)
        world.forget("default", B)
        world.hear("default", B, n=2)
        world.forget("lab", A)
        # No producer is there, but the disk does not know it yet.
        assert "lab" in {exchange.name for exchange in world.namespaces}
        await world.keeper.save()
        assert "lab" not in {exchange.name for exchange in world.namespaces}
    assert await kept(tmp_path) == {"default": {B: {"n": 2}, C: {"n": 1}}}


async def test_a_namespace_with_producers_stays(tmp_path: Path) -> None:
    async with loaded(tmp_path) as world:
        world.hear("passing", A, n=1)
        assert world.known() == {"passing": {A: {"n": 1}}}
        await world.keeper.save()
        world.hear("passing", A, m=2)
        assert world.known() == {"passing": {A: {"n": 1, "m": 2}}}


async def test_namespaces_that_are_allowed_no_more_stay_on_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with loaded(tmp_path) as world:
        world.hear("lab", A)
        world.hear("default", B)
        await world.keeper.save()
    assert await kept(tmp_path, Namespaces(allowed=frozenset())) == {"default": {B: {}}}
    assert [each for each in caplog.messages if "namespace lab is not one of the allowed ones" in each]
    assert await kept(tmp_path) == {"lab": {A: {}}, "default": {B: {}}}


async def test_lower_limits_lose_nothing(tmp_path: Path) -> None:
    async with loaded(tmp_path) as world:
        world.hear("default", A, a=1, b=2)
        await world.keeper.save()
    async with loaded(tmp_path, Namespaces(Limits(metadata_keys=1))) as world:
        assert world.known() == {"default": {A: {"a": 1, "b": 2}}}
        with pytest.raises(ReadingError, match="more than 1 metadata keys"):
            world.hear("default", A, c=3)


async def test_silence_is_counted_from_the_start(tmp_path: Path) -> None:
    rules = {"default": NamespaceRules(producer_ttl=60.0)}
    async with loaded(tmp_path, Namespaces(rules=rules)) as world:
        world.hear("default", A)
        await world.keeper.save()
    now = asyncio.get_running_loop().time()
    async with loaded(tmp_path, Namespaces(rules=rules)) as world:
        producers = world.namespaces.join("default").producers
        assert producers.expire(now + 59) == 0
        assert producers.expire(now + 120) == 1


async def test_more_than_one_slice_and_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 2)
    monkeypatch.setattr(module, "TRANSACTION", 5)
    names = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(16)]
    async with loaded(tmp_path) as world:
        for number, identity in enumerate(names):
            world.hear(("default", "lab", "roof")[number % 3], identity, n=number)
        before = world.known()
        saving = asyncio.create_task(world.keeper.save())
        rounds = 0
        while not saving.done():
            # Some change all the time, and still the others are written.
            world.hear("default", names[rounds % 2 * 3], busy=rounds)
            rounds += 1
            await asyncio.sleep(0)
        assert world.unsaved() <= {names[0], names[3]}
        await world.keeper.save()
        assert not world.unsaved()
        after = world.known()
    assert before != after
    assert await kept(tmp_path) == after


async def test_what_changes_while_it_is_written_is_written_again(tmp_path: Path) -> None:
    async with loaded(tmp_path) as world:
        for identity in (A, B, C):
            world.hear("default", identity, n=1)
        saving = asyncio.create_task(world.keeper.save())
        await asyncio.sleep(0)
        world.hear("default", A, n=2)
        world.forget("default", B)
        world.forget("default", C)
        world.hear("default", C, n=1)
        assert await saving
        assert world.unsaved() == {A, B, C}
        await world.keeper.save()
    assert await kept(tmp_path) == {"default": {A: {"n": 2}, C: {"n": 1}}}


async def test_it_saves_by_itself_and_at_the_end(tmp_path: Path) -> None:
    async with loaded(tmp_path) as world:
        world.keeper.start()
        world.hear("default", A, n=1)
        async with asyncio.timeout(5):
            while world.unsaved():  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.001)
        world.hear("default", A, n=2)
    assert await kept(tmp_path) == {"default": {A: {"n": 2}}}


async def test_nothing_to_keep_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with loaded(folder) as world:
        world.keeper.start()
        await world.keeper.save()
    assert not folder.exists()


# When it does not work.


async def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with loaded(tmp_path) as world:
        world.hear("default", A, n=1)
        await world.keeper.save()
        world.hear("default", A, n=2)
        world.hear("lab", B)
        with full_disk():
            assert not await world.keeper.save()
            world.hear("default", C)
            assert not await world.keeper.save()
        assert len(world.warnings) == 2
        assert "metadata is in memory only, until it can be written again: " in world.warnings[0]
        assert world.known() == {"default": {A: {"n": 2}, C: {}}, "lab": {B: {}}}
        assert await world.keeper.save()
        assert any("is written to" in message for message in caplog.messages)
    assert await kept(tmp_path) == {"default": {A: {"n": 2}, C: {}}, "lab": {B: {}}}


async def test_a_full_disk_at_the_start(tmp_path: Path) -> None:
    """What is there can be read."""
    async with loaded(tmp_path) as world:
        world.hear("default", A, n=1)
        await world.keeper.save()
    with full_disk():
        assert await kept(tmp_path) == {"default": {A: {"n": 1}}}


async def test_a_full_disk_at_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with loaded(tmp_path) as world:
        world.hear("default", A)
        world.keeper.start()
        with full_disk():
            await world.keeper.close()
    assert "the latest metadata of 1 producers is lost: it could not be written" in caplog.messages


async def test_a_mistake_of_ours_ends_nothing(tmp_path: Path) -> None:
    async with loaded(tmp_path) as world:
        world.hear("default", A, wrong=object())  # type: ignore[arg-type]
        world.hear("default", B)
        assert not await world.keeper.save()
        assert "by a mistake in fumarole: TypeError" in world.warnings[0]
        world.hear("default", A, wrong=None)
        assert await world.keeper.save()
    assert await kept(tmp_path) == {"default": {A: {}, B: {}}}


async def test_a_damaged_file_at_the_start(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    async with loaded(tmp_path) as world:
        (warning,) = world.warnings
        assert "is damaged" in warning
        (aside,) = set_aside(tmp_path)
        assert str(aside) in warning
        world.hear("default", A)
        await world.keeper.save()
    assert await kept(tmp_path) == {"default": {A: {}}}
    assert aside.read_bytes() == b"no database" * 1000


async def test_what_a_damaged_file_still_has_is_taken_over(tmp_path: Path) -> None:
    names = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(2_000)]
    async with loaded(tmp_path) as world:
        for identity in names:
            world.hear("default", identity, text="x" * 100)
        await world.keeper.save()
    with (tmp_path / FILE).open("r+b") as file:
        file.seek(-100 * 1024, 2)
        file.write(b"\xff" * 100 * 1024)
    async with loaded(tmp_path) as world:
        (warning,) = world.warnings
        assert f"the {len(world.unsaved())} producers that are known" in warning
        assert 100 < len(world.unsaved()) < 2_000
        before = world.known()
        await world.keeper.save()
    assert await kept(tmp_path) == before


async def test_a_file_damaged_while_the_broker_runs(tmp_path: Path) -> None:
    async with loaded(tmp_path) as world:
        for identity in (A, B):
            world.hear("default", identity, n=1)
        await world.keeper.save()
    database = sqlite3.connect(tmp_path / FILE)
    # The way to find a producer points nowhere; the producers themselves are whole.
    (page,) = database.execute("SELECT rootpage FROM sqlite_schema WHERE type = 'index'").fetchone()
    (size,) = database.execute("PRAGMA page_size").fetchone()
    database.close()
    with (tmp_path / FILE).open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    async with loaded(tmp_path) as world:
        assert world.known() == {"default": {A: {"n": 1}, B: {"n": 1}}}
        world.hear("default", B, n=2)
        assert await world.keeper.save()
        (warning,) = world.warnings
        assert "is damaged" in warning
        assert "begun with the 2 producers" in warning
    assert len(set_aside(tmp_path)) == 1
    assert await kept(tmp_path) == {"default": {A: {"n": 1}, B: {"n": 2}}}


async def test_a_file_that_is_taken_away_is_made_again(tmp_path: Path) -> None:
    async with loaded(tmp_path) as world:
        world.hear("default", A)
        await world.keeper.save()
        shutil.rmtree(tmp_path)
        world.hear("default", B)
        assert await world.keeper.save()
        assert "removed or replaced" in world.warnings[0]
    assert await kept(tmp_path) == {"default": {A: {}, B: {}}}


async def test_two_on_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fumarole.store.producers.LOCKED_SECONDS", 0.01)
    early = World(tmp_path / "data")
    await early.keeper.load()
    async with loaded(tmp_path / "data") as owner:
        owner.hear("default", A)
        assert await owner.keeper.save()
        with pytest.raises(StoreError, match="another broker"):
            async with loaded(tmp_path / "data"):
                pass
        early.hear("default", B)
        assert not await early.keeper.save()
        assert "another broker" in early.warnings[0]
    assert await early.keeper.save()
    await early.keeper.close()
    assert await kept(tmp_path / "data") == {"default": {A: {}, B: {}}}


@pytest.mark.parametrize("inside", ["", "deeper/still"])
async def test_a_file_in_place_of_the_folder(tmp_path: Path, inside: str) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(StoreError, match="is not a folder; name another folder with --data"):
        async with loaded(tmp_path / "data" / inside):
            pass


async def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(StoreError, match="cannot be opened"):
        async with loaded(tmp_path):
            pass
