"""All the cores of one machine: several processes that share the doors' ports and are a cluster among themselves.

The kernel gives each new connection to one of the processes (SO_REUSEPORT), which may let another have it
(doors/placement.py); what belongs to a consumer of another goes over a Unix socket. To clients it is one node with one
name. What is durable is kept by the first worker, which knows all that the others know.

This process only watches: it holds the ports, so that all workers get the same, starts a worker again that has died,
and passes on the request to stop. Should it be killed itself, the workers stop too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fumarole.config.settings import DoorAddresses, Settings, only
from fumarole.config.values import Address, worker_count
from fumarole.core.errors import FumaroleError
from fumarole.doors.placement import Placement
from fumarole.doors.registry import DOORS
from fumarole.server.broker import Broker, CannotServeError, made_up_name, serve
from fumarole.server.reload import Load
from fumarole.server.signals import HANDLED, has_terminal

log = logging.getLogger(__name__)

LOOK = 0.05
"""Seconds between two looks at the workers."""
RESTART = 0.5
"""Seconds before a worker that has died is started again."""

Run = Callable[[Coroutine[Any, Any, None]], None]
"""An event loop, from its beginning to its end."""


class Worker(NamedTuple):
    """One of the processes."""

    number: int
    of: int
    folder: Path
    """The folder of their sockets."""
    placement: Placement
    secret: bytes = b""
    """That all of them have: what one of them signs, the others know again."""

    def address(self, number: int) -> str:
        return f"unix:{self.folder / str(number)}"


def serve_with_workers(
    settings: Settings, run: Run, announce: Callable[[Broker], None], load: Load | None = None
) -> None:
    """Runs them until the stop signal. The last worker to be ready calls `announce`, when all accept clients."""
    folder = Path(tempfile.mkdtemp(prefix="fumarole-"))
    try:
        with _held(settings.doors) as doors:
            settings = msgspec.structs.replace(settings, doors=doors, node=settings.node or made_up_name())
            with contextlib.closing(Placement(worker_count(settings.workers))) as placement:
                _Supervisor(settings, folder, placement, run, announce, load).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _held(doors: DoorAddresses) -> Iterator[DoorAddresses]:
    """The same listeners on free ports. Raises CannotServeError."""
    held: list[socket.socket] = []
    found: dict[str, tuple[Address, ...]] = {}
    try:
        for name in DOORS:
            addresses = []
            for address in doors.of(name):
                family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
                holder = socket.socket(family, socket.SOCK_STREAM)
                held.append(holder)
                # Workers have SO_REUSEPORT too, and so share the port. With that, this would share it with workers of
                # another broker; without, it is refused where another process listens.
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    holder.bind((address.host, address.port))
                except OSError as error:
                    raise CannotServeError(f"cannot listen on {address}: {error.strerror or error}") from None
                addresses.append(Address(address.host, holder.getsockname()[1]))
            found[name] = tuple(addresses)
        yield only(**found)
    finally:
        for holder in held:
            holder.close()


class _Supervisor:
    def __init__(
        self,
        settings: Settings,
        folder: Path,
        placement: Placement,
        run: Run,
        announce: Callable[[Broker], None],
        load: Load | None,
    ) -> None:
        self._load = load
        self._settings = settings
        self._folder = folder
        self._run = run
        self._announce = announce
        self._count = worker_count(settings.workers)
        self._placement = placement
        self._secret = secrets.token_bytes(32)
        self._workers: dict[int, int] = {}
        """Number by process id."""
        self._signals = HANDLED
        self._stopping = False
        self._had_terminal = has_terminal()
        self._failed = False
        self._ended, self._open = os.pipe()
        """Open at this end as long as this process is there. So workers see that it is gone, however it went."""

    def run(self) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._stop)
        signal.signal(signal.SIGUSR2, self._lame_duck)
        signal.signal(signal.SIGHUP, self._hang_up)
        for worker in range(self._count):
            self._start(worker)
        while self._workers:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                time.sleep(LOOK)
                continue
            number = self._workers.pop(process, None)
            if number is None:  # a child that was there before the broker, or in a container any process's orphan
                continue
            code = os.waitstatus_to_exitcode(status)
            if not self._stopping and not self._ready(number).exists():
                self._failed = True  # it logs the reason itself, and another start would fail the same way
                self._stop()
            elif not self._stopping:
                log.error("worker %d ended with %d, and is started again", number, code)
                time.sleep(RESTART)
                if not self._stopping:  # the stop signal may have come meanwhile
                    self._start(number)
        if self._failed:
            sys.exit(1)

    def _stop(self, *_: object) -> None:
        self._stopping = True
        self._pass_on(signal.SIGTERM)

    def _lame_duck(self, *_: object) -> None:
        self._stopping = True
        self._pass_on(signal.SIGUSR2)

    def _hang_up(self, *_: object) -> None:
        """A request to load the configuration again, for all workers, or the end of the terminal."""
        if self._had_terminal and not has_terminal():
            self._stop()
        elif self._load is None:
            log.warning("nothing is reloaded: the broker was started without --config")
        else:
            try:
                self._settings = self._loaded()
            except (FumaroleError, ImportError) as error:
                log.error("the configuration is not loaded again, nothing has changed: %s", error)
                return
            self._pass_on(signal.SIGHUP)

    def _loaded(self) -> Settings:
        """The configuration as it is now, with what was settled at the start."""
        assert self._load is not None
        return msgspec.structs.replace(self._load(), doors=self._settings.doors, node=self._settings.node)

    def _pass_on(self, number: signal.Signals) -> None:
        for process in list(self._workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _start(self, number: int) -> None:
        # A request to stop waits until the new process is known here, and until there it means what it should.
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        process = os.fork()
        if process:
            self._workers[process] = number
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals)
            return
        code = 1
        try:
            for each in self._signals:
                signal.signal(each, signal.SIG_IGN if each is signal.SIGHUP else signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals)
            os.close(self._open)
            worker = Worker(number, self._count, self._folder, self._placement, self._secret)
            load = None if self._load is None else self._loaded
            self._run(serve(self._settings, lambda broker: self._started(number, broker), worker, load))
            code = 0
        except CannotServeError as error:
            log.error("worker %d: %s", number, error)
        except Exception:  # what the interpreter would say of it comes after the end of this process
            log.exception("worker %d failed", number)
        finally:
            logging.shutdown()
            os._exit(code)

    def _started(self, number: int, broker: Broker) -> None:
        asyncio.get_running_loop().add_reader(self._ended, self._go_too)
        ready = self._ready(number)
        if ready.exists():  # in a former life: all is said
            return
        ready.touch()
        if all(self._ready(each).exists() for each in range(self._count)):
            try:
                self._announce(broker)
            except CannotServeError:
                ready.unlink()
                raise

    def _ready(self, number: int) -> Path:
        """A file that is there once this worker has let clients in."""
        return self._folder / f"ready-{number}"

    def _go_too(self) -> None:
        """Without its supervisor the worker is not restarted or stopped, and shares its ports with the next broker."""
        asyncio.get_running_loop().remove_reader(self._ended)
        log.error("the process that watches the workers is gone")
        os.kill(os.getpid(), signal.SIGTERM)
