"""How commands tell a mistake in a query: the text, and a caret under the place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fumarole.cli.terminal import MISUSED, fail
from fumarole.core.query.errors import QueryError


@contextmanager
def query_mistakes() -> Iterator[None]:
    """Inside, a wrong query ends the command with the place of the mistake."""
    from fumarole.client import QueryRefusedError

    try:
        yield
    except (QueryError, QueryRefusedError) as error:
        fail(error.caret(), MISUSED)
