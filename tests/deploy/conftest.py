from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.deploy.containers import make_context, missing_tools


@pytest.fixture(scope="session")
def context() -> Iterator[Path]:
    """A folder with deploy/, and in dist/ our wheel and those that it needs."""
    missing = missing_tools()
    assert not missing, f"not here: {', '.join(missing)}; `scripts/debian-packages container` installs the tools"
    with TemporaryDirectory(prefix="fumarole-context-") as name:
        yield make_context(Path(name))
