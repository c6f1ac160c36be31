"""The signals of a running broker.

SIGINT, SIGTERM    stop: no new connections, outboxes leave, then the end
SIGHUP             load the configuration again (A7); where the terminal that it runs in has ended: stop
SIGUSR2            lame duck: clients are told to go, and sent away little by little, then the end (A7)
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from fumarole.config.mistakes import ConfigurationError
from fumarole.config.settings import Settings
from fumarole.core.errors import FumaroleError
from fumarole.exchange.node import Node
from fumarole.server.reload import Load

log = logging.getLogger(__name__)

HANDLED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


class Reloading(Protocol):
    """The broker."""

    node: Node

    def reload(self, settings: Settings) -> Awaitable[list[str]]: ...


def has_terminal() -> bool:
    """True when this process has a terminal that is open."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


class Signals:
    """Turns signals into work of the loop."""

    def __init__(
        self,
        broker: Reloading,
        load: Load | None,
        supervisor: int = 0,
        terminal: Callable[[], bool] = has_terminal,
    ) -> None:
        self._supervisor = supervisor
        """The process id of the one that watches several workers."""
        self._broker = broker
        self._load = load
        self._terminal = terminal
        self._had_terminal = terminal()
        self._end: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._reloading: asyncio.Task[object] | None = None

    def listen(self) -> None:
        """Installs the signal handlers."""
        add = asyncio.get_running_loop().add_signal_handler
        for number in (signal.SIGINT, signal.SIGTERM):
            add(number, self._end_by, False)
        add(signal.SIGUSR2, self._end_by, True)
        add(signal.SIGHUP, self.hang_up)
        self._broker.node.reload = self.reload_for

    async def asked_to_end(self) -> bool:
        """Waits for that. True: as a lame duck."""
        return await self._end

    def hang_up(self) -> None:
        """SIGHUP: a request to load the configuration again, or the end of the terminal."""
        if self._had_terminal and not self._terminal():
            self._end_by(False)
        elif self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self.reload())

    async def reload(self) -> dict[str, object]:
        """Loads the configuration again. Returns the result for people and scripts: `reloaded`, and mistakes if any."""
        if self._load is None:
            log.warning("nothing is reloaded: the broker was started without --config")
            return {"reloaded": False, "mistakes": ["the broker was started without --config"]}
        try:
            waiting = await self._broker.reload(self._load())
        except ConfigurationError as error:
            mistakes = [str(mistake) for mistake in error.mistakes]
        except (FumaroleError, ImportError) as error:
            mistakes = [str(error)]
        else:
            more = f"; these wait for a restart: {', '.join(waiting)}" if waiting else ""
            log.info("the configuration is loaded again%s", more)
            return {"reloaded": True, "restart": waiting}
        for mistake in mistakes:
            log.error("the configuration is not loaded again, nothing has changed: %s", mistake)
        return {"reloaded": False, "mistakes": mistakes}

    def reload_for(self, say: Callable[[dict[str, object]], None]) -> None:
        """The same by request of a client. Each of several workers does it."""
        self._reloading = asyncio.create_task(self._reload_and_say(say))

    async def _reload_and_say(self, say: Callable[[dict[str, object]], None]) -> None:
        came_of_it = await self.reload()
        if self._supervisor and came_of_it["reloaded"]:
            os.kill(self._supervisor, signal.SIGHUP)
        say(came_of_it)

    def _end_by(self, lame_duck: bool) -> None:
        if not self._end.done():
            self._end.set_result(lame_duck)
