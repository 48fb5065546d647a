"""From what each rank recorded to one trace's events: on one clock, matched, with what lies in between."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from labkit.trace.event import COMPUTE, Event
from labkit.trace.match import Meeting, match
from labkit.trace.records import Moment, Offset, Operation, Place, Recording


def merge(recordings: Sequence[Recording]) -> tuple[tuple[Event, ...], float]:
    """All ranks' events on rank 0's clock, which begins with the first of them; the bound on its error."""
    error = max((o.error for r in recordings for o in r.offsets), default=0)
    recordings = [aligned(recording) for recording in recordings]
    operations = [operation for recording in recordings for operation in recording.operations]
    computes = [(recording.rank, *gap) for recording in recordings for gap in gaps(recording)]
    starts = [operation.start.at for operation in operations] + [start.at for _, start, _ in computes]
    begin = min(starts, default=0)
    named = not all(o.place is None or o.place.cell in (None, 1) for o in operations)
    meetings = {id(one): meeting for meeting in match(operations, error) for one in meeting.operations}
    events = [_event(one, meetings[id(one)], begin, named) for one in operations] + [
        Event(rank, COMPUTE, _seconds(start.at - begin), _seconds(end.at - begin), cpu=_cpu(start, end))
        for rank, start, end in computes
    ]
    events.sort(key=lambda e: (e.start, e.rank, e.end))
    return tuple(events), _seconds(error)


def aligned(recording: Recording) -> Recording:
    """The same with all moments on rank 0's clock."""
    if not any(measured.offset for measured in recording.offsets):  # clocks of one machine agree
        return recording

    def there(moment: Moment) -> Moment:
        return Moment(on_rank_0(moment.at, recording.offsets), moment.cpu)

    operations = (
        replace(one, start=there(one.start), end=there(one.end), waited=one.waited and there(one.waited))
        for one in recording.operations
    )
    spans = ((there(start), there(end)) for start, end in recording.spans)
    return Recording(recording.rank, tuple(operations), tuple(spans))


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
    waits = [(one.waited, one.end) for one in recording.operations if one.waited]
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
    moments = [one.start for one in recording.operations]
    moments += [one.end for one in recording.operations if one.ended]
    moments.sort(key=lambda moment: moment.at)
    return [(moments[0], moments[-1])] if moments else []


def _event(one: Operation, meeting: Meeting, begin: int, named: bool) -> Event:
    end = meeting.end(one)
    return Event(
        rank=one.rank, verb=one.verb, start=_seconds(one.start.at - begin), end=_seconds(end.at - begin),
        peers=one.peers, bytes=one.bytes, dtype=one.dtype, group=one.group, sequence=meeting.sequence,
        tag=one.tag, root=one.root, op=one.op,
        waiting=_seconds(meeting.waiting(one)), cpu=_cpu(one.start, end),
        place=_words(one.place, named) if one.place else "",
        any_source=one.verb == "recv" and one.source is not None and len(one.ranks) > 1,
        ended=one.ended and not one.failed,
    )  # fmt: skip


def _cpu(start: Moment, end: Moment) -> float:
    """Seconds on a core in between; the moments' own are right to a quarter of a millisecond."""
    return _seconds(max(0, min(end.cpu - start.cpu, end.at - start.at)))


def _seconds(nanoseconds: int) -> float:
    return nanoseconds / 1e9


def _words(place: Place, named: bool) -> str:
    """ "In [10], line 2: dist.send(x, dst=1)"; the cell is left out where all of them is the first one."""
    line = f"line {place.line}: {place.text}"
    if place.cell is not None and not named:
        return line
    cell = f"cell {place.cell}" if place.cell else "an earlier cell"
    return f"{place.file or cell}, {line}"
