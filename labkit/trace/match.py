"""Which operations of different ranks belong together: a send and its receive, all of one collective."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from labkit.trace.event import MESSAGE
from labkit.trace.records import Moment, Operation


@dataclass(frozen=True)
class Meeting:
    """One message or one collective: what each of its ranks did, as far as they came, and its number."""

    operations: tuple[Operation, ...]
    sequence: int

    def end(self, one: Operation) -> Moment:
        """A send whose end nobody saw was over when its message had been received."""
        if one.ended or one.verb != "send":
            return one.end
        return Moment(max(one.start.at, min(each.end.at for each in self.operations)), one.end.cpu)

    def waiting(self, one: Operation) -> int:
        """From its entry to the last partner's. Partners who come when it is over were not waited for."""
        start, end = one.start.at, self.end(one).at
        if one.failed and len(self.operations) <= len(set(one.peers) - {one.rank}):
            return end - start
        return max([0, *(each.start.at - start for each in self.operations if each.start.at < end)])


def match(operations: Sequence[Operation], error: int) -> Iterator[Meeting]:
    """All meetings; each operation is in one. Per rank they are in the order in which they were entered.

    Their moments are on one clock, give or take `error` nanoseconds.
    """
    yield from _messages([one for one in operations if one.verb in MESSAGE], error)
    yield from _collectives([one for one in operations if one.verb not in MESSAGE])


def _messages(operations: list[Operation], error: int) -> Iterator[Meeting]:
    """MPI's rule: messages from one rank to another with one tag in one group do not overtake each other."""
    sends = [one for one in operations if one.verb == "send"]
    under_way: dict[tuple, deque[Operation]] = defaultdict(deque)
    for send in sends:
        if not send.failed:
            under_way[send.group, send.rank, send.peers[0], send.tag].append(send)
    receive_of: dict[int, Operation] = {}  # by the id of the send
    unmatched = []
    for recv in (one for one in operations if one.verb == "recv"):
        arrived = recv.source is not None or not recv.failed
        from_one = arrived and len(recv.peers) == 1
        queue = under_way[recv.group, recv.peers[0], recv.rank, recv.tag] if from_one else ()
        # What was received before its send began was sent before the trace did.
        if queue and queue[0].start.at - error <= recv.end.at:
            receive_of[id(queue.popleft())] = recv
        else:
            unmatched.append(recv)
    counts: Counter[tuple] = Counter()
    way: tuple[int, ...]
    for send in sends:
        way = send.rank, send.peers[0], send.tag
        counts[way] += 1
        recv = receive_of.get(id(send))
        yield Meeting((send, recv) if recv else (send,), counts[way])
    for recv in unmatched:
        way = *recv.peers, recv.rank, recv.tag
        counts[way] += 1
        yield Meeting((recv,), counts[way])


def _collectives(operations: list[Operation]) -> Iterator[Meeting]:
    """By group and the group's own count, which starts anew where a group of the same name is made again."""
    found: dict[tuple, list[Operation]] = defaultdict(list)
    times: Counter[tuple] = Counter()
    for one in operations:
        key = one.group, one.ranks, one.sequence
        times[one.rank, key] += 1
        turn = *key, times[one.rank, key]
        found[turn].append(one)
    counts: Counter[tuple] = Counter()
    for together in sorted(found.values(), key=lambda each: min(one.start.at for one in each)):
        members = together[0].group, together[0].ranks
        counts[members] += 1
        yield Meeting(tuple(together), counts[members])
