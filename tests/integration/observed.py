"""The same broker as `fumarole serve`, with eyes inside: on SIGUSR1 it prints one line of JSON, and begins anew.

    stood_still   seconds that the loop once worked without looking up
    tasks         asyncio tasks there are now
    connections   connections that the node counts
    consumers     by namespace
    queries       that stand, in all namespaces
    waiting       bytes in all outboxes
    cut_off       connections that were cut off because they did not take what they had asked for

Run by running.py.
"""

import argparse
import asyncio
import json
import os
import signal

import uvloop

from fumarole.config.load import load
from fumarole.server import logs
from fumarole.server.broker import Broker, serve
from tests.integration.standstill import Standstill


class Eyes:
    def __init__(self) -> None:
        self._standstill: Standstill | None = None
        self._broker: Broker | None = None

    def open(self, broker: Broker) -> None:
        self._broker = broker
        self._standstill = Standstill()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._report)
        self._report()  # a test that waits for this line may send the signal

    def _report(self) -> None:
        assert self._broker is not None
        assert self._standstill is not None
        node = self._broker.node
        report = {
            "stood_still": round(self._standstill.take(), 4),
            "tasks": len(asyncio.all_tasks()),
            "connections": node.connections,
            "consumers": {exchange.name: len(exchange) for exchange in node.namespaces},
            "queries": sum(len(exchange.producers._subscribed) for exchange in node.namespaces),
            "cut_off": node.slow_consumers,
            "waiting": sum(
                pump.session.outbox.size for door in self._broker.doors for pump in getattr(door, "_pumps", ())
            ),
        }
        print(json.dumps(report), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    for flag in ("--config", "--nats", "--data"):
        parser.add_argument(flag, required=True)
    given = parser.parse_args()
    settings = load(given.config, os.environ, {"--nats": given.nats, "--data": given.data})
    logs.start(settings.log)
    uvloop.run(serve(settings, started=Eyes().open))


if __name__ == "__main__":
    main()
