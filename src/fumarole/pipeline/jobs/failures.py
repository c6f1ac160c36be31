"""What Spark raises when a job fails, and what of it a person wants to read."""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

FAILURES: Final = (PySparkException, Py4JError)
"""A plan that cannot be is the first; a task that failed, or a Java that is gone, is the second."""


def in_short(failure: BaseException) -> str:
    """The first line of what it says, and of what was at the bottom of it."""
    if not isinstance(failure, Py4JJavaError):
        return _line(str(failure))
    first = bottom = failure.java_exception
    while (cause := bottom.getCause()) is not None:
        bottom = cause
    said, why = _line(_message(first)), _line(_message(bottom))
    return said if why in said else f"{said}: {why}"


def _message(thrown: Any) -> str:
    return str(thrown.getMessage() or thrown.toString())


def _line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "it did not say why")
