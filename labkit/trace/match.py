"""Which operations of different ranks belong together: a send and its receive, all of one collective."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from labkit.trace.records import Operation


@dataclass(eq=False)
class Entry:
    """An operation on rank 0's clock (nanoseconds), and what became of it once all ranks are compared.

    `partners` are the entries of the other ranks in the same message or collective.
    """

    rank: int
    operation: Operation
    start: int
    end: int
    cpu: int
    partners: list["Entry"] = field(default_factory=list)
    sequence: int = 0

    def peers(self) -> tuple[int, ...]:
        """World ranks; of a receive from any source the one whose message it got."""
        source = self.operation.source
        return self.operation.ranks if source is None else (source,)

    def waiting(self) -> int:
        """From its own entry to the last partner's. Partners who come when it is over were not waited for."""
        if self.operation.failed and len(self.partners) < len(set(self.peers()) - {self.rank}):
            return self.end - self.start
        return max([0, *(p.start - self.start for p in self.partners if p.start < self.end)])


def match(entries: Sequence[Entry], error: int) -> None:
    """Find each entry's partners and sequence. Per rank they are in the order in which they were entered.

    `error` is how far two clocks may differ, in nanoseconds.
    """
    _match_messages([e for e in entries if e.operation.verb in ("send", "recv")], error)
    _match_collectives([e for e in entries if e.operation.verb not in ("send", "recv")])


def _match_messages(entries: list[Entry], error: int) -> None:
    """MPI's rule: messages from one rank to another with one tag in one group do not overtake each other."""
    counts: dict[tuple, int] = defaultdict(int)
    under_way: dict[tuple, deque[Entry]] = defaultdict(deque)
    for send in (e for e in entries if e.operation.verb == "send"):
        about = send.operation
        _number(send, (send.rank, about.ranks[0], about.tag), counts)
        if not about.failed:
            under_way[about.group, send.rank, about.ranks[0], about.tag].append(send)
    for recv in (e for e in entries if e.operation.verb == "recv"):
        about, peers = recv.operation, recv.peers()
        arrived = about.source is not None or not about.failed
        queue = under_way[about.group, peers[0], recv.rank, about.tag] if len(peers) == 1 and arrived else ()
        # What was received before its send began was sent before the trace did.
        if queue and queue[0].start - error <= recv.end:
            send = queue.popleft()
            send.partners, recv.partners, recv.sequence = [recv], [send], send.sequence
            if send.operation.end is None:
                send.end = max(send.start, min(send.end, recv.end))
                send.cpu = min(send.cpu, send.end - send.start)
    for recv in (e for e in entries if e.operation.verb == "recv" and not e.partners):
        _number(recv, (*recv.peers(), recv.rank, recv.operation.tag), counts)


def _match_collectives(entries: list[Entry]) -> None:
    """By group and the group's own count, which starts anew where a group of the same name is made again."""
    found: dict[tuple, list[Entry]] = defaultdict(list)
    times: dict[tuple, int] = defaultdict(int)
    for entry in entries:
        key = entry.operation.group, entry.operation.ranks, entry.operation.sequence
        times[entry.rank, key] += 1
        found[(*key, times[entry.rank, key])].append(entry)
    counts: dict[tuple, int] = defaultdict(int)
    for (group, ranks, *_), together in sorted(found.items(), key=lambda item: min(e.start for e in item[1])):
        counts[group, ranks] += 1
        for entry in together:
            entry.partners = [e for e in together if e is not entry]
            entry.sequence = counts[group, ranks]


def _number(entry: Entry, key: tuple, counts: dict[tuple, int]) -> None:
    counts[key] += 1
    entry.sequence = counts[key]
