"""A pipeline: which micro-batch each stage works on when, and how many it stores. Drawn in lesson 17."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch
from matplotlib.typing import ColorType

from labkit.figures.colours import RIM, WAIT, half_opaque, ink, rank_colour
from labkit.figures.looks import EDGE
from labkit.figures.spans import extent
from labkit.figures.style import figure, in_style
from labkit.figures.units import unit
from labkit.trace.event import COMPUTE, Event

if TYPE_CHECKING:
    from labkit.trace import Trace

WIDTH = 9.0  # inches
LANE, STRIP = 0.3, 0.22  # inches of a rank's row above, and of its row in the memory strip, for few ranks
TALLEST = 2.6  # inches of all rows above
HALF = 0.4  # half the height of a bar; the rows are 1 apart
LEAST = 0.13  # inches: lower rows have no room for a number
LETTER = 0.075  # inches: the width of one digit
KINDS = ("forward", "backward", "communication", "idle")


@in_style
def pipeline(traces: Trace | Mapping[str, Trace], title: str | None = None) -> Figure:
    """Draw a trace whose compute events are labelled F0, B0, F1, ...; or {name: trace}, on one time axis.

    A row per rank: a forward pass has the rank's colour, a backward pass the same pale, with the number of
    the micro-batch; idle time is grey; where a receive held the rank up, communication is a half-high bar.
    Below, the memory strip: the micro-batches that each rank stores, with the most at the right. `title`: if
    not given, the idle share and the most that a rank stores. Returns a Figure.
    """
    shown = traces if isinstance(traces, Mapping) else {"": traces}
    ranks = max(trace.world_size for trace in shown.values())
    lane = min(LANE, TALLEST / ranks)
    ratios = [LANE, STRIP] * len(shown)
    made, rows = figure(
        title or "; ".join(_finding(*each) for each in shown.items()),
        width=WIDTH,
        height=1.1 + len(shown) * (ranks * lane * (LANE + STRIP) / LANE + 0.45),
        rows=2 * len(shown),
        sharex=True,
        height_ratios=ratios,
    )
    scale, name = unit(max(_length(trace) for trace in shown.values()) or 1e-6)
    width = max(_length(trace) for trace in shown.values()) / scale
    drawn = set()
    for number, (said, trace) in enumerate(shown.items()):
        lanes, strip = rows[2 * number], rows[2 * number + 1]
        lanes.set_title(said, fontsize=10)
        drawn |= _lanes(lanes, trace, scale, width, lane)
        _strip(strip, trace, scale, lane)
        _rank_rows(lanes, trace.world_size, lane)
        _rank_rows(strip, trace.world_size, lane * STRIP / LANE)
    rows[-1].set(xlim=(0, width * 1.001), xlabel=f"time ({name})")
    _legend(made, drawn, ranks)
    return made


def passes(trace: Trace, rank: int) -> list[Event]:
    """The forward and backward passes of a rank, in the order of their start."""
    mine = (e for e in trace.events if e.rank == rank and e.verb == COMPUTE and e.label[:1] in ("F", "B"))
    return sorted(mine, key=lambda event: event.start)


def stored_over_time(trace: Trace, rank: int) -> list[tuple[float, int]]:
    """(time, micro-batches stored from then on): from the start of a forward to the end of its backward."""
    changes = [
        (event.start, 1) if event.label[0] == "F" else (event.end, -1) for event in passes(trace, rank)
    ]
    found, count = [], 0
    for time, change in sorted(changes):
        count += change
        found.append((time, count))
    return found


def _length(trace: Trace) -> float:
    start, end = extent(trace)
    return end - start


def _most(trace: Trace) -> list[int]:
    return [
        max((count for _, count in stored_over_time(trace, r)), default=0) for r in range(trace.world_size)
    ]


def _finding(name: str, trace: Trace) -> str:
    busy = sum(e.end - e.start for rank in range(trace.world_size) for e in passes(trace, rank))
    idle = 1 - busy / max(_length(trace) * trace.world_size, 1e-12)
    return f"{name + ': ' if name else ''}{idle:.0%} idle, up to {max(_most(trace))} stored"


def _lanes(axes: Axes, trace: Trace, scale: float, width: float, lane: float) -> set[str]:
    start, end = extent(trace)
    boxes = {kind: {} for kind in KINDS}
    longest = max(
        (len(e.label) - 1 for rank in range(trace.world_size) for e in passes(trace, rank)), default=0
    )
    for rank in range(trace.world_size):
        boxes["idle"][rank] = [_box(0, (end - start) / scale, rank)]
        for event in passes(trace, rank):
            kind = "forward" if event.label[0] == "F" else "backward"
            left, right = (event.start - start) / scale, (event.end - start) / scale
            boxes[kind].setdefault(rank, []).append(_box(left, right, rank))
            if lane > LEAST and (right - left) / width * (WIDTH - 1) > LETTER * longest + 0.03:
                middle, shade = (left + right) / 2, ink(_colour(kind, rank))
                axes.text(middle, rank, event.label[1:], ha="center", va="center", fontsize=8, color=shade)
        for event in trace.events:
            if event.rank == rank and event.verb == "recv" and event.end - event.start > event.waiting:
                left, right = (event.met - start) / scale, (event.end - start) / scale
                boxes["communication"].setdefault(rank, []).append(
                    _box(left, right, rank + HALF / 2, HALF / 2)
                )
    for kind in ("idle", "communication", "forward", "backward"):
        for rank, found in boxes[kind].items():
            edge = {"idle": RIM, "forward": "white"}.get(kind, rank_colour(rank))
            bars = PolyCollection(found, facecolors=_colour(kind, rank), edgecolors=edge, linewidths=EDGE)
            bars.set_gid(f"rank {rank}: {kind}")
            axes.add_collection(bars)
    return {kind for kind in KINDS if boxes[kind]}


def _colour(kind: str, rank: int) -> ColorType:
    if kind == "idle":
        return WAIT
    return rank_colour(rank) if kind == "forward" else half_opaque(rank_colour(rank))


def _strip(axes: Axes, trace: Trace, scale: float, lane: float) -> None:
    """A rank's row is full where it stores as many micro-batches as any rank ever does."""
    start, end = extent(trace)
    most = _most(trace)
    for rank in range(trace.world_size):
        floor, x, y = rank + HALF, [0.0], [0.0]
        for time, count in stored_over_time(trace, rank):
            x += [(time - start) / scale] * 2
            y += [y[-1], 2 * HALF * count / max(most)]
        area = axes.fill_between(x, [floor - height for height in y], floor, color=rank_colour(rank), lw=0)
        area.set_gid(f"rank {rank}: stored")
        axes.annotate(
            str(most[rank]),
            (1, rank),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=min(9, 60 * lane * STRIP / LANE),
        )
    axes.set_title("stored micro-batches, and their most", fontsize=9)


def _rank_rows(axes: Axes, ranks: int, lane: float) -> None:
    every = 1 if lane > LEAST else 4
    axes.set_yticks(range(0, ranks, every), [f"rank {rank}" for rank in range(0, ranks, every)], fontsize=9)
    axes.set_ylim(ranks - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _box(left: float, right: float, middle: float, half: float = HALF) -> list[tuple[float, float]]:
    return [(left, middle - half), (right, middle - half), (right, middle + half), (left, middle + half)]


def _legend(made: Figure, drawn: set[str], ranks: int) -> None:
    handles: dict[str, Any] = {
        kind: tuple(Patch(facecolor=_colour(kind, r), edgecolor=rank_colour(r)) for r in range(min(3, ranks)))
        for kind in KINDS
    }
    handles["idle"] = Patch(facecolor=WAIT, edgecolor=RIM)
    names = [kind for kind in KINDS if kind in drawn]
    where: dict[str, Any] = {"loc": "outside lower left", "ncols": 4, "fontsize": 9, "handlelength": 2.2}
    side_by_side = {tuple: HandlerTuple(ndivide=None, pad=0)}
    made.legend([handles[name] for name in names], names, handler_map=side_by_side, **where)
