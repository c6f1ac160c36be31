"""How commands show a mistake in a query: the text, and a caret under the position."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fumarole.cli.terminal import MISUSED, fail
from fumarole.core.query.errors import QueryError


@contextmanager
def query_mistakes() -> Iterator[None]:
    """In this block, a wrong query ends the command with the position of the mistake."""
    from fumarole.client import QueryRefusedError

    try:
        yield
    except (QueryError, QueryRefusedError) as error:
        fail(error.caret(), MISUSED)
