"""README's table of figures, made from results.json. `bench/run.py` puts it there; a test compares the two."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bench.figures import ROOT, Figure, Results

README = ROOT / "README.md"
BEGIN, END = "<!-- figures: made by bench/run.py from bench/results.json -->\n", "<!-- /figures -->\n"


class Row(NamedTuple):
    """Figures of one claim in one row of the table."""

    text: str
    claim: str
    names: tuple[str, ...]
    rates: bool = False
    """Show rates, where nats-server has nothing to stand beside."""


THROUGHPUT = "Throughput, compiled"
ROWS = (
    Row("one to one, 16 B / 128 B", THROUGHPUT, ("one to one, 16 B", "one to one, 128 B")),
    Row("one to one, 1 KiB / 16 KiB", THROUGHPUT, ("one to one, 1 KiB", "one to one, 16 KiB")),
    Row("no consumer, 16 B", THROUGHPUT, ("no consumer, 16 B",)),
    Row("fan-out to 10 / to 100, 128 B", THROUGHPUT, ("fan-out to 10, 128 B", "fan-out to 100, 128 B")),
    Row("fan-out to 10, 16 KiB", THROUGHPUT, ("fan-out to 10, 16 KiB",)),
    Row("group of 4, 16 B", THROUGHPUT, ("group of 4, 16 B",)),
    Row("4 publishers, 4 consumers, 64 B", THROUGHPUT, ("4 publishers, 4 consumers, 64 B",)),
    Row("every topic new, 16 B", THROUGHPUT, ("every topic new, 16 B",)),
    Row("TLS, one to one, 128 B / 1 KiB", "TLS", ("one to one, 128 B", "one to one, 1 KiB")),
    Row("TLS handshakes a second of a processor", "TLS", ("handshakes in a second of a processor",)),
    Row(
        "10,000 connections that publish / that consume, for each second of a processor",
        "10,000 connections",
        ("each publishes once a second, a message: 1/time", "each is a consumer of one topic, a delivery: 1/time"),
    ),
    Row("latency p50 / p99 (less is better)", "Latency, compiled", ("p50", "p99")),
    Row(
        "readings at the NATS door, no consumer / one / one, with changes of metadata",
        "Readings at the NATS door",
        ("no consumer", "one consumer", "one consumer, each tenth changes a key of the metadata"),
        rates=True,
    ),
)


def table(results: Results) -> str:
    """The rows, as Markdown."""
    figures = {(figure.claim, figure.name): figure for figure in results.figures}
    lines = [f"| load | ratio to {results.peer} |", "|---|---|"]
    for row in ROWS:
        shown = " / ".join(_shown(figures[row.claim, name], row.rates) for name in row.names)
        lines.append(f"| {row.text} | {shown}{' million a second' if row.rates else ''} |")
    return "\n".join(lines) + "\n"


def _shown(figure: Figure, rates: bool) -> str:
    return f"{figure.ours / 1e6:.1f}" if rates else figure.shown_ratio


def written(results: Results, text: str) -> str:
    """The text of README with this table in it."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"README has no place for the figures: {BEGIN.strip()} … {END.strip()}"
    return f"{before}{BEGIN}{table(results)}{END}{after}"


def write(results: Results, path: Path = README) -> None:
    """Puts the table into README."""
    path.write_text(written(results, path.read_text()))
