"""`fumarole bridge` with eyes inside: each SIGUSR1 prints a line of JSON with what tests cannot see from outside.

Same arguments as the command. `stood_still`: seconds that the loop last worked without looking up, at most.
"""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

from fumarole.bridge.bridge import Bridge, BridgeOptions
from fumarole.cli.main import main
from fumarole.server import bridges
from tests.integration.standstill import Standstill


class WatchedBridge(Bridge):
    """Says what is asked of it."""

    def __init__(self, options: BridgeOptions) -> None:
        super().__init__(options)
        self._standstill: Standstill | None = None

    def start(self) -> None:
        super().start()
        self._standstill = Standstill()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._say)
        self._say()  # a test that waits for this line may send the signal

    async def stop(self) -> None:
        assert self._standstill is not None
        self._standstill.stop()
        await super().stop()

    def _say(self) -> None:
        assert self._standstill is not None
        said: dict[str, Any] = {
            "stood_still": round(self._standstill.take(), 4),
            "tasks": len(asyncio.all_tasks()),
            "status": self.report(),
        }
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    import sys

    setattr(bridges, "Bridge", WatchedBridge)  # noqa: B010 - its place is taken, as the command line finds it
    sys.argv.insert(1, "bridge")
    main()
