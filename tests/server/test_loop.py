import asyncio
import sys

import pytest

from fumarole.server import loop


async def name_of_the_loop(found: list[str]) -> None:
    found.append(type(asyncio.get_running_loop()).__module__)


def test_uvloop_where_it_is_installed() -> None:
    found: list[str] = []
    loop.run(name_of_the_loop(found))
    assert found == ["uvloop"]


def test_the_loop_of_asyncio_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    found: list[str] = []
    loop.run(name_of_the_loop(found))
    assert found[0].startswith("asyncio.")
