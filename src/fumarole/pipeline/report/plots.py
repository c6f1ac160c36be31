"""The pictures of the report, each as SVG that stands in the page itself."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import matplotlib as mpl
import matplotlib.dates as mdates
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from fumarole.pipeline.report.figures import Chosen, Episode, Figures, Gap

INK: Final = "#2b2523"
FAINT: Final = "#8d827c"
LINE: Final = "#e6ddd6"
EMBER: Final = "#d9480f"
COLOURS: Final = ["#d9480f", "#f08c00", "#1f6f8b", "#5b8e7d", "#8f2d56", "#6d597a", "#a8a29e"]
HEAT: Final = LinearSegmentedColormap.from_list(
    "heat", ["#fdf8f4", "#fde0c2", "#f6ad55", "#e8590c", "#8f1d0a", "#3b0d06"]
)
FEW_BUCKETS: Final = 3
"""With fewer whole ones, those that are not are shown too."""
STYLE: Final[dict[str, Any]] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # `$` in a topic is a `$`
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
}
WIDTH: Final = 11.2
MOST_SILENT: Final = 14
MOST_DRAWN: Final = 1e307


def rates(figures: Figures) -> str:
    """Messages a second over time, by subtree."""

    def draw(axes: Axes) -> None:
        middles, by_name = rates_by_name(figures)
        places = [_place(middle) for middle in middles]
        areas = axes.stackplot(places, list(by_name.values()), colors=COLOURS, linewidth=0, alpha=0.92)
        axes.set_xlim(places[0], places[-1] if len(places) > 1 else places[0] + 1e-5)
        axes.set_ylim(0)
        axes.set_ylabel("messages a second")
        axes.yaxis.set_major_formatter("{x:,.0f}" if axes.get_ylim()[1] >= 10 else "{x:g}")
        _times(axes)
        # Areas and names outright: of labels, those that begin with _ would be left out.
        axes.legend(
            areas, list(by_name), ncols=7, loc="lower left", bbox_to_anchor=(0, 1.0), handlelength=0.9, handleheight=0.9
        )

    return _svg(draw, 3.5, "rates")


def rates_by_name(figures: Figures) -> tuple[list[datetime], dict[str, list[float]]]:
    """The middle of each bucket, and what each subtree had there in a second."""
    width = figures.width
    # The first and the last bucket are seldom whole, and of a sliver no rate can be told.
    seconds = {
        start: (min(start + width, figures.end) - max(start, figures.begin)).total_seconds()
        for start in _buckets(figures.begin, figures.end, width)
    }
    least = width.total_seconds() / 10
    starts = [start for start in seconds if seconds[start] >= least] or list(seconds)[:1]
    # Where there are enough, only whole ones: a burst is a peak in a part of one, and so is the last message, which is
    # one more than its time has.
    whole = [start for start in starts if seconds[start] == width.total_seconds()]
    starts = whole if len(whole) >= FEW_BUCKETS else starts
    by_name = {
        name: [counts.get(start, 0) / max(seconds[start], least) for start in starts]
        for name, counts in figures.streams.items()
    }
    return [start + width / 2 for start in starts], by_name


def heat(figures: Figures) -> str:
    """Days by hours of the day; of a shorter time, topics by time."""
    if figures.hours:
        return _hours(figures)
    names, width = list(figures.heat), figures.heat_width
    starts, cells = heat_cells(figures)

    def draw(axes: Axes) -> None:
        edges = [_place(start) for start in [*starts, starts[-1] + width]]
        mesh = axes.pcolormesh(
            edges, range(len(names) + 1), np.array(cells), cmap=HEAT, vmin=0, edgecolors="white", linewidth=0.6
        )
        axes.set_yticks([row + 0.5 for row in range(len(names))], _labels(names))
        axes.invert_yaxis()
        axes.grid(visible=False)
        _times(axes)
        _scale(axes, mesh, f"messages in {span_text(width)}")

    return _svg(draw, 0.6 + 0.3 * max(4, len(names)), "heat")


def heat_cells(figures: Figures) -> tuple[list[datetime], list[list[int]]]:
    """When each bucket begins, and for each topic how many messages it had in each."""
    starts = _buckets(figures.begin, figures.end, figures.heat_width)
    return starts, [[counts.get(start, 0) for start in starts] for counts in figures.heat.values()]


def _hours(figures: Figures) -> str:
    first, last = min(day for day, _ in figures.hours), max(day for day, _ in figures.hours)
    days = _buckets(first, last, timedelta(days=1))[-31:]
    cells = np.array([[figures.hours.get((day, hour), 0) for hour in range(24)] for day in days], dtype=float)

    def draw(axes: Axes) -> None:
        mesh = axes.pcolormesh(
            range(25), range(len(days) + 1), cells, cmap=HEAT, vmin=0, edgecolors="white", linewidth=0.8
        )
        axes.set_yticks([row + 0.5 for row in range(len(days))], [f"{day:%a %d %b}" for day in days])
        axes.set_xticks([hour + 0.5 for hour in range(0, 24, 2)], [f"{hour:02d}" for hour in range(0, 24, 2)])
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.set_xlabel("hour of the day, UTC")
        _scale(axes, mesh, "messages in an hour")

    return _svg(draw, 0.9 + 0.26 * max(4, len(days)), "hours")


def topics(figures: Figures) -> str:
    """The most talkative topics."""

    def draw(axes: Axes) -> None:
        names = _labels([topic or "(the empty topic)" for topic, _, _ in figures.topics])
        counts = [messages for _, messages, _ in figures.topics]
        axes.barh(range(len(names)), counts, color=EMBER, height=0.62)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(visible=False)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        for row, (_, messages, size) in enumerate(figures.topics):
            text = f"{messages:,} · {byte_text(size)}"
            beside: Any = {"xytext": (6, 0), "textcoords": "offset points"}
            axes.annotate(text, (messages, row), **beside, va="center", fontsize=9, color=FAINT)
        axes.set_xlim(0, max(counts) * 1.22)

    return _svg(draw, 0.4 + 0.3 * max(3, len(figures.topics)), "topics")


def gaps(figures: Figures) -> str:
    """Silences on a line for each producer, the most silent ones."""
    by_name: dict[str, list[Gap]] = {}
    for gap in figures.gaps:
        by_name.setdefault(gap.name, []).append(gap)
    begin, end = _place(figures.begin), _place(figures.end)
    names = sorted(by_name, key=lambda name: -sum(gap.seconds for gap in by_name[name]))[:MOST_SILENT]

    def draw(axes: Axes) -> None:
        for row, name in enumerate(names):
            axes.plot([begin, end], [row, row], color=LINE, linewidth=7, solid_capstyle="butt")
            for gap in by_name[name]:
                until = gap.until or figures.end
                colour = EMBER if gap.until else "#3b0d06"
                axes.plot(
                    [_place(gap.since), _place(until)], [row, row], color=colour, linewidth=7, solid_capstyle="butt"
                )
        axes.set_yticks(range(len(names)), _labels(names))
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(visible=False)
        axes.set_xlim(begin, end)
        _times(axes)

    return _svg(draw, 0.6 + 0.3 * max(2, len(names)), "gaps")


def alarms(figures: Figures) -> str:
    """Alarms on a line for each rule and producer, those that lasted longest; dark: still open at the end."""
    by_name: dict[str, list[Episode]] = {}
    for episode in figures.episodes or []:
        by_name.setdefault(f"{episode.rule}: {episode.name}", []).append(episode)
    begin, end = _place(figures.begin), _place(figures.end)
    names = sorted(by_name, key=lambda name: -sum(each.seconds for each in by_name[name]))[:MOST_SILENT]

    def draw(axes: Axes) -> None:
        for row, name in enumerate(names):
            axes.plot([begin, end], [row, row], color=LINE, linewidth=7, solid_capstyle="butt")
            for each in by_name[name]:
                places = [_place(each.since), _place(each.until or figures.end)]
                colour = EMBER if each.until else "#3b0d06"
                axes.plot(places, [row, row], color=colour, linewidth=7, solid_capstyle="butt")
                axes.plot(places[:1], [row], "|", color=INK, markersize=9)  # also one that is over at once is seen
        axes.set_yticks(range(len(names)), _labels(names))
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(visible=False)
        axes.set_xlim(begin, end)
        _times(axes)

    return _svg(draw, 0.6 + 0.3 * max(2, len(names)), "alarms")


def values(chosen: Chosen, begin: datetime, end: datetime) -> str:
    """A producer's readings, and its windows as bands, over the whole time."""

    def draw(axes: Axes) -> None:
        middles: Any = [window.start + chosen.width / 2 for window in chosen.windows]
        low, high = _drawn(window.low for window in chosen.windows), _drawn(window.high for window in chosen.windows)
        p05, p95 = _drawn(window.p05 for window in chosen.windows), _drawn(window.p95 for window in chosen.windows)
        axes.fill_between(middles, low, high, color="#f6ad55", alpha=0.28, linewidth=0, label="smallest to largest")
        axes.fill_between(middles, p05, p95, color="#f08c00", alpha=0.42, linewidth=0, label="5 % to 95 %")
        times: Any = [time for time, _ in chosen.points]
        axes.plot(
            times,
            _drawn(value for _, value in chosen.points),
            ".",
            color="#1f6f8b",
            markersize=2.4,
            alpha=0.55,
            label="readings",
        )
        axes.plot(
            middles,
            _drawn(window.mean for window in chosen.windows),
            color="#8f1d0a",
            linewidth=1.8,
            label=f"mean of {span_text(chosen.width)}",
        )
        axes.set_xlim(_place(begin), max(_place(end), _place(begin) + 1e-5))
        axes.set_ylabel(str(chosen.metadata.get("Unit", "")))
        _times(axes)
        axes.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1.0), handlelength=1.2)

    return _svg(draw, 3.6, "values")


def _drawn(values: Iterable[float]) -> list[float]:
    """Matplotlib reckons with their distance, which has to be a double as well."""
    return [max(-MOST_DRAWN, min(MOST_DRAWN, value)) for value in values]


def _svg(draw: Callable[[Axes], None], height: float, name: str) -> str:
    with mpl.rc_context({**STYLE, "svg.hashsalt": name}):  # type: ignore[dict-item]
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        written = io.StringIO()
        with warnings.catch_warnings():
            # Letters that no font here has: the browser has others, and they are text in the page.
            warnings.filterwarnings("ignore", "Glyph .* missing")
            figure.savefig(written, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = written.getvalue()
    return svg[svg.index("<svg") :].replace("<svg ", f'<svg role="img" class="plot" data-name="{name}" ', 1)


def _place(time: datetime) -> float:
    return float(mdates.date2num(time))  # type: ignore[no-untyped-call]


def _times(axes: Axes) -> None:
    locator = mdates.AutoDateLocator(minticks=4, maxticks=9)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = mdates.ConciseDateFormatter(  # type: ignore[no-untyped-call]
        locator,
        formats=["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S"],
        zero_formats=["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"],
        show_offset=False,
    )
    axes.xaxis.set_major_formatter(formatter)
    axes.xaxis_date()


def _scale(axes: Axes, mesh: Any, label: str) -> None:
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.01, aspect=24, shrink=0.9)
    bar.outline.set_visible(False)
    bar.set_label(label, color=FAINT, fontsize=9)


def _buckets(begin: datetime, end: datetime, width: timedelta) -> list[datetime]:
    """Every bucket from the first to the last, also those in which nothing was said."""
    seconds = width.total_seconds()
    first = datetime.fromtimestamp(begin.timestamp() // seconds * seconds, begin.tzinfo)
    return [first + number * width for number in range(int((end - first) / width) + 1)]


def span_text(width: timedelta) -> str:
    """`a minute`, `5 minutes`"""
    seconds = int(width.total_seconds())
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length and seconds % length == 0:
            count = seconds // length
            return f"{'an' if unit == 'hour' else 'a'} {unit}" if count == 1 else f"{count} {unit}s"
    return "a second" if seconds == 1 else f"{seconds} seconds"


def byte_text(size: float) -> str:
    """`1.5 MiB`"""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,.0f} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"


def _labels(names: list[str]) -> list[str]:
    """Without the words that all begin with, which say nothing here."""
    words = [name.split(".") for name in names]
    same = 0
    while len(words) > 1 and all(len(each) > same + 1 and each[same] == words[0][same] for each in words):
        same += 1
    return [_shortened(("…" if same else "") + ".".join(each[same:])) for each in words]


def _shortened(text: str) -> str:
    return text if len(text) <= 52 else text[:24] + "…" + text[-27:]
