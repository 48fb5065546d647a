"""What a rank did when: each event as spans of one kind of time, and how much of each kind there was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from labkit.trace.event import COMPUTE, Event

if TYPE_CHECKING:
    from labkit.trace import Trace

KINDS = ("compute", "off the CPU", "communication", "waiting")

Span = tuple[float, float, dict[str, float]]
"""A rank's time from start to end, in seconds, and the share of it that each kind has."""


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
        return [(event.start, event.end, {"compute": on, "off the CPU": 1 - on})]
    waiting = (event.start, event.met, {"waiting": 1.0})
    communication = (event.met, event.end, {"communication": 1.0})
    return [(start, end, shares) for start, end, shares in (waiting, communication) if end > start] or [
        communication
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


def _split(events: Iterable[Event], most: int, slack: float) -> list[list[Event]]:
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
    for start, end, shares in sorted(found, key=lambda span: span[0]):
        is_thin = end - start < thinnest
        if run:
            first, last = run[0][0], run[-1][1]
            if not is_thin or start - last > thinnest or end - first > 3 * thinnest:
                drawn.append(_mean(run, thinnest))
                run = []
        (run if is_thin else drawn).append((start, end, shares))
    return [*drawn, _mean(run, thinnest)] if run else drawn


def _mean(run: list[Span], thinnest: float) -> Span:
    first = run[0][0]
    weights = [max(end - start, 1e-12) for start, end, _ in run]
    shares = {
        kind: sum(w * shares.get(kind, 0) for w, (_, _, shares) in zip(weights, run, strict=True))
        / sum(weights)
        for kind in KINDS
    }
    return first, max(first + thinnest, *(end for _, end, _ in run)), shares


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


def _once(found: list[Span]) -> Iterator[Span]:
    """Between each two moments at which a span starts or ends, the shares of the one that counts."""
    priority = {kind: place for place, kind in enumerate(KINDS)}
    found = [(start, end, shares) for start, end, shares in found if end > start]
    edges = [(start, True, number) for number, (start, _, _) in enumerate(found)]
    edges = sorted(edges + [(end, False, number) for number, (_, end, _) in enumerate(found)])
    running: set[int] = set()
    before = 0.0
    for now, is_start, number in edges:
        if running and now > before:
            shares = min((found[n][2] for n in running), key=lambda shares: priority[next(iter(shares))])
            yield before, now, shares
        before = now
        if is_start:
            running.add(number)
        else:
            running.discard(number)
