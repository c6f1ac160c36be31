"""`fumarole bridge` with eyes inside: each SIGUSR1 prints a line of JSON with what tests cannot see from outside.

Same arguments as the command. `stood_still`: seconds that the loop last worked without looking up, at most.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from typing import Any

from fumarole.app import bridges
from fumarole.app.cli import main
from fumarole.bridge.bridge import Bridge, BridgeOptions

PERIOD = 0.02


class WatchedBridge(Bridge):
    """Says what is asked of it."""

    def __init__(self, options: BridgeOptions) -> None:
        super().__init__(options)
        self._stood_still = 0.0

    def start(self) -> None:
        super().start()
        self._watching = asyncio.create_task(self._watch())
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._say)
        self._say()  # whoever waits for this line may send the signal

    async def stop(self) -> None:
        self._watching.cancel()
        await super().stop()

    async def _watch(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(PERIOD)
            self._stood_still = max(self._stood_still, time.thread_time() - before - PERIOD)

    def _say(self) -> None:
        said: dict[str, Any] = {
            "stood_still": round(self._stood_still, 4),
            "tasks": len(asyncio.all_tasks()),
            "status": self.report(),
        }
        print(json.dumps(said), flush=True)
        self._stood_still = 0.0


if __name__ == "__main__":
    import sys

    setattr(bridges, "Bridge", WatchedBridge)  # noqa: B010 - its place is taken, as the command line finds it
    sys.argv.insert(1, "bridge")
    main()
