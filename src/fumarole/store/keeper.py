"""Keeps what is on disk up to date with what is in memory, behind the event loop's back.

Producers whose metadata changed are noted by their namespace as `unsaved`. Twice a second all of these are written, a
slice at a time: the loop only picks them out, and one thread does the rest. An entry is taken off the list when it has
been written and has not changed meanwhile. So a write that fails needs nothing undone; it is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from fumarole.core.errors import NamespaceError
from fumarole.core.query.tree import Value
from fumarole.exchange.exchange import Exchange
from fumarole.exchange.namespaces import Namespaces
from fumarole.exchange.producers import Producers
from fumarole.store.producers import Damaged, Gone, Kept, ProducerStore, StoreError

log = logging.getLogger(__name__)

SECONDS = 0.5
"""From one look at what is unsaved to the next."""
SLICE = 1_000
"""Producers that the loop looks at before it does something else."""
TRANSACTION = 20_000
"""Producers that are written together."""

Warn = Callable[..., None]
Arguments = TypeVarTuple("Arguments")
Answer = TypeVar("Answer")
Item = TypeVar("Item")
Change = tuple[Exchange, str, dict[str, Value] | None]
"""The producer, and its written metadata; None: the producer was forgotten."""


class Keeper:
    """`load`, then `start`, in the end `close`. Only `load` fails; afterwards the broker goes on in memory."""

    def __init__(self, folder: Path, namespaces: Namespaces, warn: Warn, seconds: float = SECONDS) -> None:
        self._namespaces = namespaces
        self._warn = warn
        self._seconds = seconds
        self._store = ProducerStore(folder)
        self._thread = ThreadPoolExecutor(1, "store")
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        self._closed = False

    async def load(self) -> int:
        """Loads every stored producer. Returns their number. Raises StoreError."""
        await self._in_thread(_check_writable, self._store.path)
        if not self._store.path.exists():
            return 0
        collecting = gc.isenabled()
        # All that is made here stays: to look for garbage among it takes longer than all the rest.
        gc.disable()
        try:
            return await self._load()
        finally:
            if collecting:
                gc.enable()

    async def _load(self) -> int:
        loop = asyncio.get_running_loop()
        begun, restored = loop.time(), 0
        found: dict[str, Producers | None] = {}
        damage: StoreError | None = None
        try:
            slices = self._store.read(SLICE)
            while (rows := await self._in_thread(next, slices, None)) is not None:
                restored += self._restore(rows, found, loop.time())
        except Damaged as error:
            damage = error
        if self._store.unreadable:
            damage = Damaged(f"{self._store.path} is damaged: rows that make no sense: {self._store.unreadable}")
        if damage:
            await self._begin_again(damage)
        for name in (name for name, producers in found.items() if producers is None):
            log.warning("namespace %s is not one of the allowed ones: its producers stay on disk only", name)
        log.info("%d producers known from before, read in %.1f s", restored, loop.time() - begun)
        return restored

    def start(self) -> None:
        """From now on, what changes is written."""
        self._task = asyncio.create_task(self._keep())

    async def save(self) -> bool:
        """Writes all that is unsaved now. False: it could not be, and a warning was logged."""
        try:
            try:
                await self._save()
            except (Damaged, Gone) as error:
                await self._begin_again(error)
                await self._save()
        except StoreError as error:
            self._failing = True
            self._warn("metadata is in memory only, until it can be written again: %s", error)
            return False
        except Exception as error:  # noqa: BLE001 - a mistake of ours, but others' metadata may be kept next time
            self._failing = True
            self._warn("metadata is in memory only, by a mistake in fumarole: %r", error)
            return False
        if self._failing:
            self._failing = False
            log.info("metadata is written to %s again", self._store.path)
        return True

    async def close(self) -> None:
        """Writes what is unsaved, and lets go of the file."""
        if self._closed:
            return
        self._closed = True
        self._stopping.set()
        if self._task is not None:
            await self._task
            self._task = None
            if not await self.save():
                lost = sum(len(exchange.producers.unsaved) for exchange in self._namespaces)
                log.error("the latest metadata of %d producers is lost: it could not be written", lost)
        await self._in_thread(self._store.close)
        self._thread.shutdown()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            due = loop.time() + self._seconds
            await self.save()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._stopping.wait()

    async def _save(self) -> None:
        for unsaved in self._transactions():
            changes = ((exchange, identity) for exchange, identities in unsaved for identity in identities)
            written: list[list[Change]] = []
            while some := list(islice(changes, SLICE)):
                now = [(exchange, identity, _metadata(exchange.producers, identity)) for exchange, identity in some]
                kept = [Kept(exchange.name, identity, metadata) for exchange, identity, metadata in now]
                await self._in_thread(self._store.write, kept)
                written.append(now)
            await self._in_thread(self._store.commit)
            while written:
                self._take_off(written.pop())
                await asyncio.sleep(0)
            for exchange, _ in unsaved:
                self._namespaces.release(exchange)

    def _transactions(self) -> Iterator[list[tuple[Exchange, list[str]]]]:
        """All that is unsaved at the beginning, some at a time. These have to be taken off before there are more."""
        waiting = deque((exchange, len(exchange.producers.unsaved)) for exchange in self._namespaces)
        while waiting:
            some: list[tuple[Exchange, list[str]]] = []
            room = TRANSACTION
            while waiting and room:
                exchange, count = waiting.popleft()
                now = min(count, room)
                room -= now
                if now:
                    some.append((exchange, list(islice(exchange.producers.unsaved, now))))
                if now < count:
                    waiting.appendleft((exchange, count - now))
            if some:
                yield some

    def _take_off(self, written: list[Change]) -> None:
        for exchange, identity, metadata in written:
            unsaved = exchange.producers.unsaved
            del unsaved[identity]
            if _metadata(exchange.producers, identity) is not metadata:
                unsaved[identity] = None  # last: those that change all the time must not keep others waiting

    def _restore(self, rows: list[Kept], found: dict[str, Producers | None], now: float) -> int:
        """Loads the stored producers, except those of namespaces that are not allowed. Returns the number loaded."""
        restored = 0
        for namespace, identity, metadata in rows:
            if namespace not in found:
                try:
                    found[namespace] = self._namespaces.open(namespace).producers
                except NamespaceError:
                    found[namespace] = None
            producers = found[namespace]
            if producers is not None and metadata is not None:
                producers.restore(identity, metadata, now)
                restored += 1
        return restored

    async def _begin_again(self, why: StoreError) -> None:
        """The file is damaged or gone: what is in memory is to go into a new one. Raises StoreError."""
        if isinstance(why, Damaged):
            aside = await self._in_thread(self._store.set_aside)
            self._warn(
                "%s. It is now %s; a new file is begun with the %d producers that are known", why, aside, self._known()
            )
        else:
            self._warn("%s. A new file is begun with the %d producers that are known", why, self._known())
        for exchange in list(self._namespaces):
            for some in _slices(list(exchange.producers)):
                # A producer that is gone by now is forgotten once more, which does no harm.
                exchange.producers.unsaved.update((producer.identity, None) for producer in some)
                await asyncio.sleep(0)

    def _known(self) -> int:
        return sum(len(exchange.producers) for exchange in self._namespaces)

    async def _in_thread(self, work: Callable[[*Arguments], Answer], *arguments: *Arguments) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)


def _slices(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[at : at + SLICE] for at in range(0, len(items), SLICE))


def _metadata(producers: Producers, identity: str) -> dict[str, Value] | None:
    producer = producers.get(identity)
    return None if producer is None else producer.metadata


def _check_writable(path: Path) -> None:
    """The folder is made when there is something to keep; that it cannot be is better known now. Raises StoreError."""
    there = path.absolute()
    try:
        while not there.exists():
            there = there.parent
        fault = "is not a folder" if there != path.absolute() and not there.is_dir() else ""
        if not fault and not os.access(there, os.W_OK):
            fault = "is not writable"
    except OSError as error:
        fault = f"is out of reach: {error.strerror}"
    if fault:
        raise StoreError(f"metadata cannot be kept in {path.parent}: {there} {fault}; name another folder with --data")
