"""Settings of a measured broker that have no flag: a file of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.servers import COMPILED, Server, fumarole


@contextmanager
def configured(text: str, *flags: str) -> Iterator[Server]:
    """Our broker with these settings, in TOML."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fumarole.toml"
        file.write_text(text)
        with fumarole(COMPILED, "--config", str(file), *flags) as server:
            yield server
