"""Brokers to try the client against: real ones, in the test's own loop, and a fake that does what no real one would."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Self
from weakref import finalize

from fumarole.client import Notice
from fumarole.config.load import load
from fumarole.config.settings import Settings, Tls, UserSettings
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.protocols import nats
from fumarole.server.broker import Broker
from tests.ports import free_port


class RealBroker:
    """A broker that can be stopped and started again on the same port."""

    def __init__(
        self,
        users: tuple[UserSettings, ...] | None = None,
        tls: Tls | None = None,
        rules: dict[str, NamespaceRules] | None = None,
        **flags: str,
    ) -> None:
        self._users = users
        self._tls = tls
        self._rules = rules or {}
        self._flags = {"limits-drain": "1s", **flags}
        self._broker: Broker | None = None
        self._folder = Path(mkdtemp(prefix="fumarole-"))
        finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def login(self, credentials: str) -> str:
        """The address with credentials in it."""
        return f"nats://{credentials}@127.0.0.1:{self.port}"

    @property
    def consumers(self) -> int:
        """Subscriptions in the default namespace."""
        assert self._broker is not None
        return len(self._broker.node.namespaces.join("default"))

    async def start(self, users: tuple[UserSettings, ...] | None = None) -> None:
        flags = {f"--{name.replace('_', '-')}": value for name, value in self._flags.items()}
        loaded = load(None, {}, {**flags, "--nats": f"127.0.0.1:{self.port}"})
        settings = Settings(
            doors=loaded.doors,
            limits=loaded.limits,
            namespaces=self._rules,
            tls=self._tls,
            users=users or self._users,
            data=self._folder,
        )
        self._broker = Broker(settings)
        await self._broker.start()
        self.port = self._broker.doors[0].address[1]

    async def stop(self) -> None:
        if self._broker is not None:
            await self._broker.stop()
            self._broker = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


class BrokerProcess:
    """`fumarole serve`, in a process of its own."""

    def __init__(self, folder: Path, *flags: str, port: int = 0) -> None:
        ready = folder / "ready"
        command = [sys.executable, "-m", "fumarole.cli.main", "serve", "--nats", f"127.0.0.1:{port or free_port()}"]
        self.log = folder / "log"
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, "--ready-file", str(ready), "--data", str(folder / "data"), *flags], stderr=log
            )
        deadline = time.monotonic() + 20
        while not ready.exists():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.01)
        self.url = ready.read_text().strip()
        ready.unlink()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Meanwhile the system takes connections, and what they send, and it sees nothing of them."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """As if the machine had gone."""
        self._process.kill()
        self._process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code."""
        self._process.send_signal(number)
        return self._process.wait(timeout=15)


class FakeServer:
    """Greets, remembers every byte, and answers PING, unless told to be silent or deaf."""

    def __init__(
        self,
        greeting: bytes = nats.info({"max_payload": 1 << 20, "headers": True}),
        silent: bool = False,
        hangs_up: bool = False,
    ) -> None:
        self.greeting = greeting
        self.hangs_up = hangs_up
        self.silent = silent
        self.refusal = b""
        """What it says instead of anything else, before it hangs up."""
        self.deaf = False
        """Reads nothing after the greeting."""
        self.heard: list[bytearray] = []
        """What came, by connection."""
        self.arrived = asyncio.Event()
        """Set whenever a client or a message came."""
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self.cut()
            self._server = None

    def cut(self) -> None:
        """Ends every connection at once."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def send(self, data: bytes) -> None:
        """To the newest connection."""
        self._writers[-1].write(data)

    async def wait_for(self, holds: Callable[[], bool]) -> None:
        """Returns when what was heard makes this true."""
        while not holds():
            self.arrived.clear()
            await self.arrived.wait()

    def everything(self) -> bytes:
        """What came on all connections together."""
        return b"".join(map(bytes, self.heard))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = bytearray()
        self.heard.append(heard)
        self._writers.append(writer)
        self.arrived.set()
        writer.write(self.greeting)
        if self.hangs_up:
            writer.close()
            return
        try:
            while data := await reader.read(65536):
                heard += data
                self.arrived.set()
                if self.refusal:
                    writer.write(self.refusal)
                    break
                if not self.silent:
                    writer.write(nats.PONG * data.count(nats.PING))
                if self.deaf:
                    await asyncio.Event().wait()
        except ConnectionError:
            pass
        finally:
            writer.close()


class Notices:
    """What a client was told about its connection."""

    def __init__(self) -> None:
        self.all: list[Notice] = []
        self._arrived = asyncio.Event()

    def __call__(self, notice: Notice) -> None:
        self.all.append(notice)
        self._arrived.set()

    async def wait_for(self, kind: type[Notice], count: int = 1) -> None:
        """Returns when so many of this kind have come."""
        while sum(isinstance(notice, kind) for notice in self.all) < count:
            self._arrived.clear()
            await self._arrived.wait()
