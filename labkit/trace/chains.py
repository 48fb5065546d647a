"""Which event had to wait for which: messages, steps, the critical path. Pure, over the events alone.

An event can depend on what its own rank had done before it, and on what its partners had done
before they entered it, if they entered before it was over. Only times of one rank are compared for the
first; for the second the clocks must agree better than an operation takes.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from labkit.trace.event import COMPUTE, MESSAGE, Event


def units(events: Sequence[Event]) -> list[list[Event]]:
    """The events that are one message or one collective, in the order of their first start."""
    found: dict[tuple, list[Event]] = defaultdict(list)
    for event in events:
        if event.verb in MESSAGE and len(event.peers) == 1:
            pair = (event.rank, *event.peers) if event.verb == "send" else (*event.peers, event.rank)
            message = "message", *pair, event.tag, event.sequence
            found[message].append(event)
        elif event.verb != COMPUTE and event.verb not in MESSAGE:
            found[event.group, event.peers, event.sequence].append(event)
    return list(found.values())


def messages(events: Sequence[Event]) -> tuple[tuple[Event, Event], ...]:
    """(send, recv) of each message that was sent and received, in the order in which they were sent."""
    pairs = (sorted(unit, key=lambda e: e.verb, reverse=True) for unit in units(events))
    whole = (pair for pair in pairs if [e.verb for e in pair] == ["send", "recv"])
    return tuple(
        sorted(((send, recv) for send, recv in whole), key=lambda pair: (pair[0].start, pair[0].rank))
    )


def steps(events: Sequence[Event]) -> int:
    """Length of the longest chain of messages and collectives of which each depends on the one before."""
    together = {id(event): unit for unit in units(events) for event in unit}
    done: dict[int, tuple[list[float], list[int]]] = defaultdict(lambda: ([], []))
    for event in sorted((e for e in events if id(e) in together), key=lambda e: (e.end, e.start)):
        partners = [p for p in together[id(event)] if p.start < event.end or p.verb == "send"]
        before = []
        for partner in {id(p): p for p in [event, *partners]}.values():
            ends, longest = done[partner.rank]
            index = bisect_right(ends, partner.start)
            before.append(longest[index - 1] if index else 0)
        ends, longest = done[event.rank]
        ends.append(event.end)
        longest.append(max([1 + max(before), *longest[-1:]]))
    return max((longest[-1] for _, longest in done.values()), default=0)


def critical_path(events: Sequence[Event]) -> tuple[Event, ...]:
    """The chain of events that made the run as long as it was, in the order of time.

    Followed from the last end backwards: from an event that waited to the partner who came last,
    from any other to what its rank did before.
    """
    if not events:
        return ()
    together = {id(event): unit for unit in units(events) for event in unit}
    of_rank: dict[int, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda e: (e.end, e.start)):
        of_rank[event.rank].append(event)
    ends = {rank: [e.end for e in mine] for rank, mine in of_rank.items()}
    path, here = [], max(events, key=lambda e: e.end)
    seen = set()
    while here is not None and id(here) not in seen:
        seen.add(id(here))
        path.append(here)
        entered = [p for p in together.get(id(here), ()) if p.start < here.end]
        last = max([*entered, here], key=lambda e: e.start)
        if last is not here and id(last) not in seen:
            here = last
            continue
        index = bisect_right(ends[here.rank], here.start)
        here = of_rank[here.rank][index - 1] if index else None
    return tuple(reversed(path))
