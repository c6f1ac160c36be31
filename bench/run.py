"""Runs the measurements and shows, and writes down, what came of them.

python bench/run.py                      all of it; writes results.json and results.md here, and the table of README.md
python bench/run.py throughput churn     some of it; the other results stay as they are
python bench/run.py --quick              a tenth of the work; shown only
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import figures, readme
from bench.effort import Effort
from bench.figures import Figure
from bench.generator import ServerFaultError
from bench.machine import Others, this_machine
from bench.servers import CannotMeasureError, peer_version

CLAIMS = (
    "throughput",
    "relay",
    "latency",
    "growth",
    "idle",
    "churn",
    "slow",
    "last_values",
    "conflation",
    "keyed",
    "presence",
    "views",
    "kubemq",
    "mqtt",
    "sensors",
    "crowd",
    "console",
    "secure",
    "logins",
    "web",
    "readings",
    "queries",
    "filters",
    "durable",
    "recorder",
    "live",
    "alarms",
    "pipeline",
    "answers",
    "warm",
    "enrichment",
    "columns",
    "cluster",
    "bridge",
)
"""Each a module beside this one, with a function `measure`."""
ROUNDS = 5
BUSY = 0.2
"""Cores that others may keep busy before it is said."""


def main() -> int:
    asked = _asked()
    console = Console()
    try:
        measured = _measure(asked.claims or list(CLAIMS), asked, console)
    except (CannotMeasureError, ServerFaultError) as error:
        console.print(f"[red]{escape(str(error))}", highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("Stopped.")
        return 130
    missed = sum(not figure.met for figure in measured)
    console.print(f"{len(measured) - missed} of {len(measured)} are as wanted.", highlight=False)
    console.print("Nothing was written down." if asked.quick else "Written to bench/results.json and bench/results.md.")
    return 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures the broker beside its peer and its limits.")
    parser.add_argument(
        "claims", nargs="*", metavar="CLAIM", help=f"some of: {', '.join(CLAIMS)} (all, if none is named)"
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"alternating rounds, of which the best count ({ROUNDS})"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, shown but not written down")
    asked = parser.parse_args()
    unknown = [name for name in asked.claims if name not in CLAIMS]
    if unknown or asked.rounds < 1:
        parser.error(f"no such claim: {unknown[0]}" if unknown else "--rounds takes at least 1")
    return asked


def _measure(names: list[str], asked: argparse.Namespace, console: Console) -> list[Figure]:
    measured: list[Figure] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            tell = lambda text, name=name: progress.update(task, description=escape(f"{name}: {text}"))  # noqa: E731
            measure = import_module(f"bench.{name}").measure
            others = Others()
            found = list(measure(Effort(asked.rounds, asked.quick, tell)))
            for table in _tables(found):
                console.print(table)
            if others.cores() > BUSY:
                console.print(f"[yellow]Others kept {others.cores():.1f} cores busy meanwhile: this is unsteady.")
            if not asked.quick:
                _write(name, asked.rounds, others.cores(), found)
            measured += found
            progress.advance(task)
    return measured


def _write(name: str, rounds: int, others: float, found: list[Figure]) -> None:
    """What was just measured takes the place of what was measured before."""
    folder = Path(__file__).parent
    run = figures.Run(
        name=name,
        date=figures.now(),
        commit=figures.this_commit(),
        rounds=rounds,
        others=round(others, 2),
        figures=found,
    )
    path = folder / "results.json"
    before = figures.read(path).runs if path.exists() else []
    results = figures.Results(peer=peer_version(), machine=this_machine(), runs=before)
    results = results.and_then(run, CLAIMS)
    figures.write(results, folder)
    readme.write(results)


def _tables(found: list[Figure]) -> list[Table]:
    tables = []
    for claim, rows in figures.by_claim(found).items():
        table = Table(title=escape(claim), title_justify="left", title_style="bold")
        for column in figures.COLUMNS:
            table.add_column(column, justify="right" if column in {"ours", "beside", "ratio"} else "left")
        for figure in rows:
            table.add_row(*map(escape, figures.cells(figure)), style=None if figure.met else "red")
        if notes := [figure.note for figure in rows if figure.note]:
            table.caption = escape(" ".join(notes))
        tables.append(table)
    return tables


if __name__ == "__main__":
    sys.exit(main())
