"""`fumarole` with eyes inside: on SIGUSR1 it writes to the file named first how many asyncio tasks it has.

python -m tests.integration.cluster.tasks FILE serve …
"""

import asyncio
import signal
import sys
from pathlib import Path

from fumarole.cli.main import main

path = Path(sys.argv.pop(1))
signal.signal(signal.SIGUSR1, lambda *_: path.write_text(f"{len(asyncio.all_tasks())}\n"))
main()
