"""A figure, what it stands beside, and whether it is what was wanted; and how figures are written down.

Ratios are the figures: a rate alone says as much about the machine as about the broker. So each figure stands beside
one of the same run: the peer's, the undisturbed one, or else a limit.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench.machine import Machine

ROOT = Path(__file__).parents[1]
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "MB": 1_000_000}


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `ratio` is ours to what stands beside it; `bound` is for the ratio."""

    claim: str
    name: str
    ours: float
    beside: float
    beside_what: str
    """Whose figure that is: nats-server's, the limit, …"""
    unit: str
    ratio: float
    bound: float
    at_least: bool
    """Must the ratio be at least the bound, or at most?"""
    met: bool
    note: str = ""
    low: float = 0.0
    """The ratios of the rounds, where they were noted: the lowest, and the highest."""
    high: float = 0.0

    @property
    def kind(self) -> str:
        """What stands beside it: a peer that others wrote, a limit, or ourselves under other circumstances."""
        return KINDS.get(self.beside_what, "ourselves")

    @property
    def shown_ratio(self) -> str:
        """One number, or a range where the rounds differ by more than a fifth."""
        if self.low and self.high > self.low * STEADY:
            return f"{self.low:.2f}–{self.high:.2f}"
        return f"{self.ratio:.2f}"

    @property
    def wanted(self) -> str:
        if self.beside_what == LIMIT:
            return "within the limit"
        return f"{'at least' if self.at_least else 'at most'} {self.bound:g}"


LIMIT = "limit"
PEER = "nats-server"
RELAY = "C relay"
KINDS = dict.fromkeys(("limit", "wanted", RELAY), "limit") | dict.fromkeys(
    (
        PEER,
        "uvicorn",
        "aiohttp",
        "Mosquitto",
        "bare aio-pika",
        "grpc.aio echo",
        "pyarrow, in one go",
        "Python UDF",
        "by hand",
        "equi-join",
        "DuckDB",
        "polars",
    ),
    "peer",
)
STEADY = 1.2
"""Rounds that differ by more are reported as a range."""


def against(
    peer: str,
    claim: str,
    name: str,
    ours: float,
    theirs: float,
    unit: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    note: str = "",
    rounds: Sequence[float] = (),
) -> Figure:
    """A figure beside another one of the same run. One of `at_least` and `at_most` bounds their ratio.

    `rounds` are the ratios of each round.
    """
    bound = at_least if at_least is not None else at_most
    assert bound is not None
    ratio = ours / theirs
    return Figure(
        claim=claim,
        name=name,
        ours=ours,
        beside=theirs,
        beside_what=peer,
        unit=unit,
        ratio=ratio,
        bound=bound,
        at_least=at_least is not None,
        met=ratio <= bound if at_least is None else ratio >= bound,
        note=note,
        low=min(rounds, default=0.0),
        high=max(rounds, default=0.0),
    )


def within(limit: float, claim: str, name: str, ours: float, unit: str, note: str = "") -> Figure:
    """A figure that must not be above its limit."""
    return against(LIMIT, claim, name, ours, limit, unit, at_most=1.0, note=note)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What one of the modules here measured in one go."""

    name: str
    date: str
    commit: str
    rounds: int
    others: float
    """Cores that other processes kept busy meanwhile."""
    figures: list[Figure]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The latest run of each."""

    peer: str
    machine: Machine
    runs: list[Run]

    @property
    def figures(self) -> list[Figure]:
        return [figure for run in self.runs for figure in run.figures]

    def and_then(self, run: Run, order: Sequence[str]) -> Results:
        """With this run in place of the one before."""
        runs = {each.name: each for each in self.runs} | {run.name: run}
        return msgspec.structs.replace(self, runs=[runs[name] for name in order if name in runs])


def this_commit() -> str:
    """The commit that is checked out, and whether the sources are still as it has them."""
    if not (ROOT / ".git").exists():
        return "unknown"
    commit = _git("rev-parse", "--short=12", "HEAD")
    return (
        f"{commit} with changes" if _git("status", "--porcelain", "--", "src", "bench/*.py", "bench/load") else commit
    )


def _git(*words: str) -> str:
    run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return run.stdout.strip()


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def write(results: Results, folder: Path) -> None:
    """results.json for programs, results.md for people."""
    encoded = msgspec.json.format(msgspec.json.encode(results), indent=1)
    (folder / "results.json").write_bytes(encoded + b"\n")
    (folder / "results.md").write_text(as_markdown(results))


def read(path: Path) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)


def amount(value: float, unit: str) -> str:
    """`1,234,567 /s`, `41.2 µs`, `1.4 KiB`: as many digits as say something."""
    value /= UNITS.get(unit, 1)
    return f"{value:,.0f} {unit}".strip() if value >= 1000 or unit == "B" else f"{value:,.1f} {unit}".strip()


def cells(figure: Figure) -> tuple[str, str, str, str, str, str, str]:
    """What a table shows of a figure: what, ours, beside, the kind of that, ratio, wanted, met."""
    beside = amount(figure.beside, figure.unit)
    return (
        figure.name,
        amount(figure.ours, figure.unit),
        f"{beside} ({figure.beside_what})",
        figure.kind,
        figure.shown_ratio,
        figure.wanted,
        "yes" if figure.met else "no",
    )


COLUMNS = ("", "ours", "beside", "which is", "ratio", "wanted", "met")


def by_claim(figures: Iterable[Figure]) -> dict[str, list[Figure]]:
    claims: dict[str, list[Figure]] = {}
    for figure in figures:
        claims.setdefault(figure.claim, []).append(figure)
    return claims


def comparison(results: Results) -> list[str]:
    """The ratios to the peer only, a column for each form of the broker, as rows of a table."""
    forms: dict[str, dict[str, str]] = {}
    for figure in results.figures:
        what, comma, form = figure.claim.partition(", ")
        if comma and figure.beside_what == PEER:
            name = figure.name if what == "Throughput" else f"{what.lower()}, {figure.name}"
            forms.setdefault(name, {})[form] = figure.shown_ratio
    titles = list(dict.fromkeys(form for ratios in forms.values() for form in ratios))
    rows = [(name, *(ratios.get(form, "") for form in titles)) for name, ratios in forms.items()]
    return [_row((f"ratio to {PEER}", *titles)), "|---|" + "---:|" * len(titles), *map(_row, rows)]


def as_markdown(results: Results) -> str:
    machine = results.machine
    met, count = sum(figure.met for figure in results.figures), len(results.figures)
    lines = [
        f"Measured beside {results.peer} on {machine.cores} cores of {machine.processor}, {machine.memory_gib:g} GiB,",
        f"Linux {machine.kernel}, Python {machine.python}. {met} of {count} figures are as wanted.",
        "`make bench` measures again; [docs/how-to/benchmarks.md](../docs/how-to/benchmarks.md) says how.",
        "",
        *comparison(results),
    ]
    for run in results.runs:
        lines += [
            "",
            f"## {run.name}",
            f"{run.date}, commit {run.commit}, the best of {run.rounds} rounds.",
            f"Others kept {run.others:.1f} cores busy meanwhile.",
        ]
        for claim, figures in by_claim(run.figures).items():
            columns = (claim, *COLUMNS[1:])
            lines += ["", _row(columns), "|---|---:|---:|---|---:|---|---|"]
            lines += [_row(cells(figure)) for figure in figures]
            lines += [f"\n{note}" for note in dict.fromkeys(figure.note for figure in figures) if note]
    return "\n".join(lines) + "\n"


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"
