import asyncio
import sys

import pytest

from fumarole.doors import memory
from fumarole.doors.memory import ENOUGH, Freed


async def test_much_is_given_back_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PAUSE", 0.0)
    trims: list[int] = []
    given_back = asyncio.Event()

    def trim(pad: int) -> int:
        trims.append(pad)
        given_back.set()
        return 1

    freed = Freed(trim)
    freed(ENOUGH)
    await asyncio.sleep(0.01)
    assert trims == []
    freed(1)
    freed(ENOUGH)
    await given_back.wait()
    freed(ENOUGH)
    await asyncio.sleep(0.01)
    assert trims == [0]


async def test_where_the_system_has_no_such_function() -> None:
    freed = Freed(None)
    freed(ENOUGH * 2)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_the_function_is_found_here() -> None:
    assert memory.freed._trim is not None
