"""The return value of `connect` and `subscribe`: used with `await` or `async with`."""

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    """An object with `close`."""

    async def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class Opening(Generic[T]):
    """Something about to be opened: `await` it, and close it yourself, or use it in `async with`, which closes it."""

    def __init__(self, opening: Coroutine[Any, Any, T]) -> None:
        self._opening = opening
        self._opened: T | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._opening.__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._opening
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.close()
