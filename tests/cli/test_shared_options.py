from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from fumarole.cli.shared_options import shared_options


@dataclass(frozen=True)
class Place:
    folder: Annotated[str, typer.Option(metavar="DIR")]
    depth: Annotated[int, typer.Option(min=1)] = 2


@dataclass(frozen=True)
class Shown:
    as_json: Annotated[bool, typer.Option("--json")] = False
    words: Annotated[list[str] | None, typer.Option("--word")] = None


@shared_options
def look(place: Place, *, speed: float = 1.5, shown: Shown) -> None:
    """Looks."""
    typer.echo(f"{place} {speed} {shown}")


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ("--folder a", 0, "Place(folder='a', depth=2) 1.5 Shown(as_json=False, words=None)"),
        ("--speed 3 --json --folder a --depth 4 --word x --word y", 0, "Place(folder='a', depth=4) 3.0 Shown(as_json=True, words=['x', 'y'])"),
        ("", 2, "Missing option '--folder'"),
        ("--folder a --depth 0", 2, "Invalid value for '--depth'"),
    ],
    ids=["defaults", "everything", "nothing", "a mistake"],
)  # fmt: skip
def test_fields_are_options(flags: str, code: int, said: str) -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(look)
    ended = CliRunner().invoke(app, flags.split())
    assert (ended.exit_code, said in ended.output) == (code, True), ended.output


def test_options_are_in_the_order_of_the_signature() -> None:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(look)
    shown = CliRunner().invoke(app, ["--help"]).output
    names = ["Looks.", "--folder", "--depth", "--speed", "--json", "--word"]
    assert sorted(names, key=shown.index) == names
