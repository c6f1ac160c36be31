"""What the scripts here have in common: a test tells them in JSON, line by line, what to do with their SDK.

    -> {"do": "subscribe", "name": "R1", "channel": "foo.>", "group": "g"}
    <- {"done": null}
    <- {"heard": "R1", "message": {"channel": "foo.bar", "body": "hi", …}}

Each command is a method of the script's class, done as a user of the SDK would do it. Run by the Python of an
environment that has the SDK and nothing else; sdks.py in the folder above is the other side.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import sys
import threading
from typing import Any

_lock = threading.Lock()


def tell(**line: Any) -> None:
    with _lock:
        print(json.dumps(line), flush=True)


def heard(name: str, message: Any) -> None:
    """A subscription got a message."""
    tell(heard=name, message=shown(message))


def failed(name: str, error: object) -> None:
    """A subscription was told of an error."""
    tell(failed=name, text=str(error))


def shown(message: Any) -> dict[str, Any]:
    """A received event, request or answer, whatever the SDK calls its parts."""
    fields = {
        "id": ("id", "event_id", "request_id"),
        "channel": ("channel",),
        "body": ("body",),
        "metadata": ("metadata",),
        "tags": ("tags",),
        "executed": ("executed", "is_executed"),
        "error": ("error",),
        "client": ("client_id", "from_client_id"),
    }
    found: dict[str, Any] = {}
    for field, names in fields.items():
        for name in names:
            if hasattr(message, name):
                value = getattr(message, name)
                found[field] = _plain(value)
                break
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str | bool | None) else dict(value)


class Warnings(logging.Handler):
    """Whatever the SDK has to say."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(warning=record.getMessage())


def run(commands: Any) -> None:
    """Does what it is told until the end of input."""
    logging.getLogger().addHandler(Warnings(logging.WARNING))
    if inspect.iscoroutinefunction(commands.connect):
        asyncio.run(_run_async(commands))
    for line in sys.stdin:
        given = json.loads(line)
        try:
            done = getattr(commands, given.pop("do"))(**given)
        except Exception as error:  # noqa: BLE001, whatever it is, the test wants to know
            tell(fault=f"{type(error).__name__}: {error}")
        else:
            tell(done=done)
    os._exit(0)  # some threads and tasks of the SDKs never end


async def _run_async(commands: Any) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        given = json.loads(line)
        try:
            done = await getattr(commands, given.pop("do"))(**given)
        except Exception as error:  # noqa: BLE001
            tell(fault=f"{type(error).__name__}: {error}")
        else:
            tell(done=done)
    os._exit(0)
