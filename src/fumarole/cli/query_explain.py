"""`fumarole query explain`: the tree of a parsed query, and its keys."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.command import command
from fumarole.cli.query_mistakes import query_mistakes


@command(
    "query explain",
    panel="Observation",
    examples="""
        fumarole query explain "Kind = 'temperature' and not Room like '4%'"
    """,
)
def explain(
    query: Annotated[str, typer.Argument(help="A query, such as: Kind = 'temperature' and Room like '4%'")],
) -> None:
    """Show the parsed query as a tree, and the keys it depends on. No broker is needed."""
    from fumarole.core.limits import Limits
    from fumarole.core.query.parse import parse
    from fumarole.core.query.tree import explain

    with query_mistakes():
        typer.echo(explain(parse(query, Limits())))
