"""From what each rank recorded to one Trace."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from labkit.trace.event import COMPUTE, Event
from labkit.trace.match import Entry, match
from labkit.trace.records import Moment, Offset, Place, Recording
from labkit.trace.trace import Trace


def merge(recordings: Sequence[Recording], world_size: int) -> Trace:
    """All ranks' events on rank 0's clock; the trace begins with the first of them."""
    error = max((o.error for r in recordings for o in r.offsets), default=0)
    entries = [entry for r in recordings for entry in _entries(r)]
    match(entries, error)
    computes = [
        (r.rank, on_rank_0(start.at, r.offsets), on_rank_0(end.at, r.offsets), _cpu(start, end))
        for r in recordings
        for start, end in gaps(r)
    ]
    begin = min([e.start for e in entries] + [start for _, start, *_ in computes], default=0)
    named = not all(e.operation.place is None or e.operation.place.cell in (None, 1) for e in entries)
    events = [_event(entry, begin, named) for entry in entries] + [
        Event(rank, COMPUTE, _seconds(start - begin), _seconds(end - begin), cpu=_seconds(cpu))
        for rank, start, end, cpu in computes
    ]
    events.sort(key=lambda e: (e.start, e.rank, e.end))
    return Trace(world_size, tuple(events), _seconds(error))


def _entries(recording: Recording) -> list[Entry]:
    """What never ended lasts until the recording stopped."""
    found = []
    for operation in recording.operations:
        last = operation.end or recording.stop
        start, end = (on_rank_0(m.at, recording.offsets) for m in (operation.start, last))
        found.append(Entry(recording.rank, operation, start, end, _cpu(operation.start, last)))
    return found


def _cpu(start: Moment, end: Moment) -> int:
    """Nanoseconds on a core in between; the moments' own are right to a quarter of a millisecond."""
    return max(0, min(end.cpu - start.cpu, end.at - start.at))


def _event(entry: Entry, begin: int, named: bool) -> Event:
    about = entry.operation
    return Event(
        rank=entry.rank, verb=about.verb,
        start=_seconds(entry.start - begin), end=_seconds(entry.end - begin),
        peers=entry.peers(), bytes=about.bytes, dtype=about.dtype,
        group=about.group, sequence=entry.sequence, tag=about.tag, root=about.root, op=about.op,
        waiting=_seconds(entry.waiting()), cpu=_seconds(entry.cpu),
        place=_words(about.place, named) if about.place else "",
    )  # fmt: skip


def _seconds(nanoseconds: int) -> float:
    return nanoseconds / 1e9


def _words(place: Place, named: bool) -> str:
    """ "cell 2, line 1: dist.send(x, dst=1)"; the cell is left out where all of them is the first one."""
    line = f"line {place.line}: {place.text}"
    if place.cell is None:
        return f"{place.file}, {line}"
    if not named:
        return line
    return f"cell {place.cell}, {line}" if place.cell > 0 else f"an earlier cell, {line}"


def on_rank_0(at: int, offsets: tuple[Offset, ...]) -> int:
    """A rank's clock reading on rank 0's clock: between two measured offsets on the line through both."""
    if not offsets:
        return at
    after = bisect_right([o.at for o in offsets], at)
    left, right = offsets[max(0, after - 1)], offsets[min(after, len(offsets) - 1)]
    share = (at - left.at) / (right.at - left.at) if right.at > left.at else 0
    return at + left.offset + round(share * (right.offset - left.offset))


def offset(ping: int, pong: int, back: int) -> Offset:
    """From one round trip: rank 0 sent at `ping`, this rank answered at `pong`, it was back at `back`.

    The answer was given at some time between: in the middle, give or take half of the round trip
    (Cristian, Probabilistic clock synchronization, 1989). Clocks that agree within that are taken as
    equal, as those of two processes on one machine are; the bound is then larger by the difference.
    """
    error, found = (back - ping + 1) // 2, (ping + back) // 2 - pong
    if abs(found) <= error:
        return Offset(pong, 0, error + abs(found))
    return Offset(pong, found, error)


def gaps(recording: Recording) -> Iterator[tuple[Moment, Moment]]:
    """The times at which the rank ran a cell and waited for no operation.

    An operation that it posted, and waited for only later, leaves it free in between.
    """
    waits = [(op.waited, op.end or recording.stop) for op in recording.operations if op.waited]
    waits.sort(key=lambda wait: wait[0].at)
    for begin, end in recording.spans or _span(recording):
        here = begin
        for start, over in waits:
            if begin.at <= start.at < end.at:
                if here.at < start.at:
                    yield here, start
                if here.at < over.at:
                    here = over
        if here.at < end.at:
            yield here, end


def _span(recording: Recording) -> list[tuple[Moment, Moment]]:
    """Where no cell was run, as in a function called on the ranks: from the first operation to the last."""
    moments = [op.start for op in recording.operations] + [op.end for op in recording.operations if op.end]
    moments.sort(key=lambda moment: moment.at)
    return [(moments[0], moments[-1])] if moments else []
