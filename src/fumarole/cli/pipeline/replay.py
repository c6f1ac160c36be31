"""What `pipeline replay` does."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from fumarole.cli.access import Access
from fumarole.cli.terminal import YELLOW, count_text, paint, printable, say
from fumarole.client import RefusedError
from fumarole.pipeline.replay import Range, replay

FLUSH_SECONDS = 60.0


async def replay_archive(access: Access, archive: str, namespace: str, wanted: Range, speed: float) -> None:
    """Publishes, and says how far it has come where somebody looks."""
    shown = sys.stderr.isatty()

    def progress(time: int, count: int) -> None:
        if shown:
            reached = datetime.fromtimestamp(time / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
            sys.stderr.write(f"\r{reached} UTC, {count_text(count, 'message')} ")
            sys.stderr.flush()

    async with access.connect("replay") as client:
        done = await replay(client, archive, namespace, wanted, speed, progress)
        try:
            await client.flush(FLUSH_SECONDS)
        except RefusedError as error:
            say(paint(f"the broker refused some of them: {printable(str(error))}", YELLOW, sys.stderr))
    if shown:
        sys.stderr.write("\r")
    if done.left_out:
        odd = count_text(done.left_out, "header")
        say(paint(f"{odd} left out: a name with a space, or a line break, cannot be sent", YELLOW, sys.stderr))
    if client.losses:
        lost = f"the connection was lost {count_text(client.losses, 'time')}"
        say(paint(f"{lost}: what was sent just before may not have been heard", YELLOW, sys.stderr))
    say(f"{count_text(done.messages, 'message')} published")
