"""The page: HTML with everything in it, to be sent and kept as one file."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Final

from fumarole import __version__
from fumarole.pipeline import report
from fumarole.pipeline.report import plots
from fumarole.pipeline.report.figures import Chosen, Episode, Figures
from fumarole.pipeline.report.plots import byte_text, span_text

LONGEST_GAPS: Final = 12
LONGEST_ALARMS: Final = 20


def written(figures: Figures) -> str:
    """The whole page."""
    parts = [
        _section("Traffic", "Messages a second, by the first two words of their topics.", plots.rates(figures)),
        _section(
            "When it is busy",
            "Each day by the hour." if figures.hours else "The busiest topics over time.",
            plots.heat(figures),
        ),
        _section("Top topics", "By number of messages.", plots.topics(figures)),
        *([] if figures.episodes is None else [_alarms(figures, figures.episodes)]),
        _gaps(figures),
        *([_values(figures, figures.chosen)] if figures.chosen is not None else []),
        _recorders(figures),
    ]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(figures.title)}</title>
<style>{files(report).joinpath("page.css").read_text()}</style>
</head>
<body>
<header><div class="wrap">
<p class="kind">Archive report</p>
<h1>{escape(figures.title)}</h1>
<p>{_range(figures.begin, figures.end)}{_asked(figures)}</p>
</div></header>
<main class="wrap">
{_tiles(figures)}
{"".join(parts)}
</main>
<footer class="wrap">
Made by fumarole {__version__} on {datetime.now(UTC):%d %B %Y at %H:%M} UTC. All times are UTC.
</footer>
</body>
</html>
"""


def _section(title: str, text: str, *contents: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{text}</p>{''.join(contents)}</section>\n"


def _range(begin: datetime, end: datetime) -> str:
    until = f"{end:%H:%M:%S}" if begin.date() == end.date() else f"{end:%d %B %Y, %H:%M:%S}"
    return f"{begin:%d %B %Y, %H:%M:%S} to {until} UTC"


def _asked(figures: Figures) -> str:
    return "".join(f" · {name} <code>{escape(value)}</code>" for name, value in figures.asked)


def rate_text(per_second: float) -> str:
    """`120/s`; of few messages by the minute or the hour: `2/h`."""
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3600)):
        if per_second * seconds >= 1:
            return f"{per_second * seconds:,.0f}/{unit}"
    return f"{per_second * 86400:,.1f}/d"


def _tiles(figures: Figures) -> str:
    total = figures.total
    seconds = max((figures.end - figures.begin).total_seconds(), 1e-6)
    tiles = [
        (f"{total.messages:,}", "messages"),
        (byte_text(total.bytes), "of payload"),
        (f"{total.topics:,}", "topics"),
        (f"{total.producers:,}", "producers"),
        (rate_text(total.messages / seconds), f"on average, {total.busiest_second:,} in the busiest second"),
        (f"{len(figures.gaps):,}", "silences"),
    ]
    return (
        '<div class="tiles">'
        + "".join(f'<div class="tile"><b>{b}</b><span>{s}</span></div>' for b, s in tiles)
        + "</div>"
    )


def _gaps(figures: Figures) -> str:
    if not figures.gaps:
        return _section("Gaps", '<span class="good">No producer was silent for longer than is its habit.</span>')
    rows = "".join(
        f"<tr><td>{escape(gap.name)}</td><td>{gap.since:%d %b %H:%M:%S}</td>"
        f"<td>{f'{gap.until:%d %b %H:%M:%S}' if gap.until else 'still silent'}</td>"
        f'<td class="n">{_seconds(gap.seconds)}</td><td class="n">{_seconds(gap.habit)}</td></tr>'
        for gap in figures.gaps[:LONGEST_GAPS]
    )
    table = (
        '<table><tr><th>producer</th><th>silent since</th><th>until</th><th class="n">for</th>'
        f'<th class="n">its habit</th></tr>{rows}</table>'
    )
    text = "When producers were silent for more than five times their habit; dark: still silent at the end."
    return _section("Gaps", text, plots.gaps(figures), table)


def _alarms(figures: Figures, episodes: list[Episode]) -> str:
    if not episodes:
        return _section("Alarms", '<span class="good">The rules would have raised no alarm.</span>')
    rows = "".join(
        f"<tr><td>{escape(each.rule)}</td><td>{escape(each.name)}</td><td>{each.since:%d %b %H:%M:%S}</td>"
        f"<td>{f'{each.until:%d %b %H:%M:%S}' if each.until else 'still open'}</td>"
        f'<td class="n">{_seconds(each.seconds)}</td>'
        f'<td class="n">{"–" if each.value is None else f"{each.value:g}"}</td></tr>'
        for each in episodes[:LONGEST_ALARMS]
    )
    table = (
        '<table><tr><th>rule</th><th>producer</th><th>since</th><th>until</th><th class="n">for</th>'
        f'<th class="n">value</th></tr>{rows}</table>'
    )
    text = "What these rules would have raised, the longest first; dark: still open at the end."
    return _section("Alarms", text, plots.alarms(figures), table)


def _values(figures: Figures, chosen: Chosen) -> str:
    keys = "".join(
        f"<li>{escape(key)} = {escape(_value(value))}</li>" for key, value in sorted(chosen.metadata.items())
    )
    count = sum(window.count for window in chosen.windows)
    text = f"<code>{escape(chosen.producer)}</code> · {count:,} readings, in windows of {span_text(chosen.width)}."
    known = f'<ul class="keys">{keys}</ul>' if keys else ""
    return _section(f"Values of {chosen.name}", text, known, plots.values(chosen, figures.begin, figures.end))


def _recorders(figures: Figures) -> str:
    fair = 1 / len(figures.recorders)
    rows = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{messages:,}</td><td class="n">{share:.1%}</td>'
        f'<td class="n">{share / fair:.2f}</td></tr>'
        for name, messages, share in figures.recorders
    )
    names = ("messages", "share", "beside an equal share")
    head = "<tr><th>recorder</th>" + "".join(f'<th class="n">{name}</th>' for name in names) + "</tr>"
    return _section("Recorders", "How evenly they were served.", f"<table>{head}{rows}</table>")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _seconds(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length * 1.5:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{seconds * 1000:.2g} ms"
