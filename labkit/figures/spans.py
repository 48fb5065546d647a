"""What a rank did when, as spans that do not overlap, and how much time each kind took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labkit.trace.event import COMPUTE, Event

if TYPE_CHECKING:
    from labkit.trace import Trace

KINDS = ("compute", "off the CPU", "communication", "waiting")


@dataclass(frozen=True)
class Span:
    """A rank's time from start to end, in seconds, and the share of it that each kind has."""

    start: float
    end: float
    shares: dict[str, float]
    event: Event | None = None  # None: several, each too short to be drawn


def extent(trace: Trace) -> tuple[float, float]:
    """When the first event starts and the last one ends."""
    ends = [event.end for event in trace.events]
    return (min(event.start for event in trace.events), max(ends)) if ends else (0.0, 0.0)


def spans(event: Event, timed: bool = True) -> list[Span]:
    """An event as what it was in turn: waiting, then communication; or compute, on a core or off it.

    A rank that communicates rests between two looks at its messages, so that only in compute is time
    without a core time lost. `timed`: whether processor times were recorded.
    """
    if event.verb == COMPUTE:
        length = event.end - event.start
        on = min(1.0, event.cpu / length) if timed and length > 0 else 1.0
        return [Span(event.start, event.end, {"compute": on, "off the CPU": 1 - on}, event)]
    met = min(event.start + max(event.waiting, 0.0), event.end)
    parts = ((event.start, met, "waiting"), (met, event.end, "communication"))
    return [Span(start, end, {kind: 1.0}, event) for start, end, kind in parts if end > start] or [
        Span(met, met, {"communication": 1.0}, event)
    ]


def is_timed(trace: Trace) -> bool:
    """Whether any event has a processor time; those of a simulation have none."""
    return any(event.cpu > 0 for event in trace.events)


def by_rank(trace: Trace) -> list[list[Event]]:
    """The events of each rank, in the order of their start."""
    found = [[] for _ in range(trace.world_size)]
    for event in sorted(trace.events, key=lambda event: (event.start, event.end)):
        found[event.rank].append(event)
    return found


def tracks(events: list[Event], most: int, slack: float) -> list[list[Event]]:
    """Split a rank's events into at most so many lists in which none overlaps the next by more than slack.

    One list if that is possible; else compute has the first one to itself, as what the others run beside.
    """
    together = _split(events, 2, slack)
    if len(together) < 2:
        return together
    compute = [event for event in events if event.verb == COMPUTE]
    others = _split([event for event in events if event.verb != COMPUTE], most - bool(compute), slack)
    return [compute, *others] if compute else others


def _split(events, most, slack):
    rows: list[list[Event]] = [[]]
    for event in events:
        row = next((row for row in rows if not row or row[-1].end <= event.start + slack), None)
        if row is None:
            rows += [[]] if len(rows) < most else []
            row = rows[-1]
        row.append(event)
    return rows


def merged(found: list[Span], thinnest: float) -> list[Span]:
    """The same time with nothing thinner than `thinnest` seconds.

    Neighbours that are too short become one span that has their mean shares.
    """
    drawn: list[Span] = []
    run: list[Span] = []
    for span in sorted(found, key=lambda span: span.start):
        is_thin = span.end - span.start < thinnest
        if run and (
            not is_thin or span.start - run[-1].end > thinnest or span.end - run[0].start > 3 * thinnest
        ):
            drawn.append(_mean(run, thinnest))
            run = []
        if is_thin:
            run.append(span)
        else:
            drawn.append(span)
    return [*drawn, _mean(run, thinnest)] if run else drawn


def _mean(run, thinnest):
    start, end = run[0].start, max(run[0].start + thinnest, *(span.end for span in run))
    weights = [max(span.end - span.start, 1e-12) for span in run]
    shares = {
        kind: sum(w * span.shares.get(kind, 0) for w, span in zip(weights, run, strict=True)) / sum(weights)
        for kind in KINDS
    }
    return Span(start, end, shares, run[0].event if len(run) == 1 else None)


def time_spent(trace: Trace) -> list[dict[str, float]]:
    """Seconds of each kind, per rank.

    An instant counts once: as compute where the rank computes, else as communication, else as waiting;
    so communication that is hidden behind compute counts as compute.
    """
    timed = is_timed(trace)
    totals = []
    for events in by_rank(trace):
        total = dict.fromkeys(KINDS, 0.0)
        for start, end, shares in _once([span for event in events for span in spans(event, timed)]):
            for kind, share in shares.items():
                total[kind] += share * (end - start)
        totals.append(total)
    return totals


def _once(found):
    """(start, end, shares) of the span that counts between each two moments at which one starts or ends."""
    rank_of = {kind: place for place, kind in enumerate(KINDS)}
    found = [span for span in found if span.end > span.start]
    starts = [(span.start, 1, number) for number, span in enumerate(found)]
    edges = sorted(starts + [(span.end, 0, number) for number, span in enumerate(found)])
    running: set[int] = set()
    before = 0.0
    for now, starts, number in edges:
        if running and now > before:
            counts = min(running, key=lambda n: rank_of[next(iter(found[n].shares))])
            yield before, now, found[counts].shares
        before = now
        if starts:
            running.add(number)
        else:
            running.discard(number)
