"""What a rank did between its communication: the gaps in which it neither posted nor waited."""

from collections.abc import Iterator

from labkit.trace.records import Moment, Recording


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
