"""Bridges in a process of their own: from settings to running, and to a good end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from fumarole import __version__
from fumarole.bridge.bridge import Bridge, BridgeOptions
from fumarole.bridge.errors import CannotBridgeError
from fumarole.bridge.exchange_link import ExchangeLink
from fumarole.bridge.zeromq import RouterOptions
from fumarole.config.settings import BridgeSettings

log = logging.getLogger(__name__)


def options_of(settings: BridgeSettings, insecure: bool = False) -> BridgeOptions:
    """The options of a bridge, from its settings."""
    return BridgeOptions(
        name=settings.name,
        amqp=settings.amqp.reveal(),
        router=RouterOptions(
            settings.router, settings.payload, settings.waiting, settings.curve_key, settings.curve_clients, insecure
        ),
        topic_exchange=settings.topic_exchange,
        direct_exchange=settings.direct_exchange,
        direct_queue=settings.direct_queue or "",
        topics=settings.topics,
        ttl=settings.ttl,
        topics_per_client=settings.topics_per_client,
        routes=settings.routes,
    )


async def run_bridges(
    settings: Sequence[BridgeSettings], ready_file: Path | None = None, insecure: bool = False
) -> None:
    """Runs them side by side until SIGINT or SIGTERM. Raises CannotBridgeError, with none left open."""
    # The library logs each event several times; the bridge logs what matters itself.
    for library in ("aiormq", "aio_pika"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with contextlib.AsyncExitStack() as stack:
        works = []
        bridges = []
        for each in settings:
            bridge = Bridge(options_of(each, insecure))
            bridge.start()
            bridges.append(bridge)
            stack.push_async_callback(bridge.stop)
            works.append(asyncio.create_task(bridge.work()))
            if each.exchange is not None:
                works.append(asyncio.create_task(ExchangeLink(bridge, each.exchange, each.servers.reveal()).run()))
        log.info("fumarole %s: %d bridge%s", __version__, len(bridges), "" if len(bridges) == 1 else "s")
        if ready_file is not None:
            _announce([bridge.router.endpoint for bridge in bridges], ready_file)
        ended = asyncio.create_task(stopping.wait())
        done, _ = await asyncio.wait([ended, *works], return_when=asyncio.FIRST_COMPLETED)
        for task in (ended, *works):
            task.cancel()
        await asyncio.gather(ended, *works, return_exceptions=True)
        for task in done - {ended}:
            task.result()
        log.info("stopping")


def _announce(endpoints: list[str], ready_file: Path) -> None:
    # A process that waits for the file must never see half of it.
    part = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
    try:
        part.write_text("".join(f"{endpoint}\n" for endpoint in endpoints))
        part.replace(ready_file)
    except OSError as error:
        raise CannotBridgeError(f"cannot write {ready_file}: {error.strerror}") from None
