"""One time for all ranks: what to add to a rank's clock, and how far that may be off."""

from bisect import bisect_right

from labkit.trace.records import Offset


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
