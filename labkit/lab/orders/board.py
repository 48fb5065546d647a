"""Who can meet whom: the operations of all ranks under MPI's rules of matching. Pure.

A receive may take the first message of each sender that fits it, unless an earlier receive of its rank wants
that one. A collective joins the calls of one number in its group. Sends are buffered or wait for their
receive: MPI leaves it open, as it leaves open whether a rank leaves a broadcast before the others have come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from labkit.rank.protocol import Asked

Name: TypeAlias = tuple[int, int]
"""An operation: its rank, and its number there, from 0."""

_FROM_ROOT, _TO_ROOT = ("broadcast", "scatter"), ("reduce", "gather")


@dataclass(frozen=True)
class Disagreement:
    """Calls that come together as one collective and are not the same: a line for each rank."""

    told: tuple[str, ...]


class Board:
    """What has been asked for so far, and what has met.

    `met` has the partner of each matched send and receive. `known` is what an operation's rank knows once it
    has waited for it: the receives from anybody, as bits, that were decided before its end.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked: list[list[Asked]] = [[] for _ in range(size)]
        self.met: dict[Name, Name] = {}
        self.known_by_rank = [0] * size
        self._known_at_call: dict[Name, int] = {}
        self._known_after: dict[Name, int] = {}
        self._bits: dict[Name, int] = {}
        self._groups: dict[tuple[str, int], dict[int, Name]] = defaultdict(dict)
        self._counts: dict[tuple[str, int], int] = defaultdict(int)
        self._place: dict[Name, tuple[str, int]] = {}
        self._waited: set[Name] = set()

    def ask(self, rank: int, asked: Asked) -> Name:
        """A rank calls something."""
        name = rank, len(self.asked[rank])
        self.asked[rank].append(asked)
        self._known_at_call[name] = self.known_by_rank[rank]
        if asked.is_collective():
            self._counts[asked.group, rank] += 1
            self._place[name] = asked.group, self._counts[asked.group, rank]
            self._groups[self._place[name]][rank] = name
        return name

    def __getitem__(self, name: Name) -> Asked:
        rank, number = name
        return self.asked[rank][number]

    # What can meet

    def receives(self) -> Iterator[Name]:
        """Receives that have got nothing yet, by rank and number."""
        return (
            (rank, number)
            for rank, asked in enumerate(self.asked)
            for number, one in enumerate(asked)
            if one.verb == "recv" and (rank, number) not in self.met
        )

    def candidates(self, receive: Name) -> dict[int, Name]:
        """The message that a receive could take now, by its sender."""
        rank, number = receive
        found = {}
        for source in self.sources(receive):
            send = self.first(receive, source)
            earlier = (other for other in self.receives() if other[0] == rank and other[1] < number)
            if send is not None and not any(self.fits(send, other) for other in earlier):
                found[source] = send
        return found

    def sources(self, receive: Name) -> tuple[int, ...]:
        return self[receive].peers

    def first(self, receive: Name, source: int) -> Name | None:
        """The first message of one sender that fits a receive and that nobody has got."""
        sends = ((source, number) for number in range(len(self.asked[source])))
        return next((s for s in sends if s not in self.met and self.fits(s, receive)), None)

    def fits(self, send: Name, receive: Name) -> bool:
        """Whether a receive would take that message if it came."""
        given, wanted = self[send], self[receive]
        return (
            given.verb == "send"
            and given.peers == (receive[0],)
            and send[0] in wanted.peers
            and (given.group, given.tag) == (wanted.group, wanted.tag)
        )

    def meet(self, receive: Name, send: Name) -> None:
        """A message is received."""
        self.met[receive], self.met[send] = send, receive
        known = self._known_at_call[receive] | self._known_at_call[send]
        for other in range(receive[1]):
            earlier = receive[0], other
            if self[earlier].verb == "recv" and earlier in self.met and self.fits(send, earlier):
                known |= self._known_after[earlier]
        if self.is_from_anybody(receive):
            self._bits[receive] = 1 << len(self._bits)
            known |= self._bits[receive]
        self._known_after[receive] = known

    def is_from_anybody(self, receive: Name) -> bool:
        return len(self[receive].peers) > 1

    # What is over

    def is_over(self, name: Name, buffered: bool) -> bool:
        """Whether the rank can go on that waits for an operation.

        `buffered`: MPI lets it go as soon as it may, from a send at once, from a broadcast when the root has
        come. Else it goes when its partner, or everybody, has come.
        """
        asked = self[name]
        if asked.is_collective():
            return set(self._needed(name, buffered)) <= set(self._groups[self._place[name]])
        return name in self.met or (asked.verb == "send" and (buffered or not asked.peers))

    def _needed(self, name: Name, buffered: bool) -> tuple[int, ...]:
        asked, rank = self[name], name[0]
        if buffered and asked.root is not None:
            if asked.verb in _FROM_ROOT:
                return (rank,) if rank == asked.root else (rank, asked.root)
            if asked.verb in _TO_ROOT and rank != asked.root:
                return (rank,)
        return asked.peers

    def waited(self, name: Name) -> None:
        """Its rank has waited for it, and goes on."""
        self._waited.add(name)
        known = self._known_after.get(name, 0)
        if self[name].is_collective():
            members = self._groups[self._place[name]]
            for rank in self._needed(name, True):
                known |= self._known_at_call[members[rank]]
        self.known_by_rank[name[0]] |= known

    def may_change(self, name: Name) -> bool:
        """Whether a receive's message is one whose sender has not waited yet, and could still write to it."""
        return self[name].verb == "recv" and self.met[name] not in self._waited

    def disagreement(self, name: Name) -> Disagreement | None:
        """Whether the ranks that have come to a collective have called the same."""
        calls = {rank: self[other] for rank, other in sorted(self._groups[self._place[name]].items())}
        if len({(c.verb, c.root, c.peers, c.same) for c in calls.values()}) == 1:
            return None
        return Disagreement(tuple(f"rank {rank}: {c.what} at {c.place}" for rank, c in calls.items()))

    def together(self, name: Name) -> dict[int, Name]:
        """The calls of a collective that have come, by rank."""
        return self._groups[self._place[name]]

    # What could have been otherwise

    def decided(self) -> dict[Name, int]:
        """From whom each receive from anybody has got its message."""
        return {receive: self.met[receive][0] for receive in self._bits}

    def alternatives(self) -> Iterator[dict[Name, int]]:
        """For each receive from anybody, and each other sender whose message could have come first: what to
        decide to see that. Decisions that hang on this receive are left open.

        A message could have come first if its sender did not know how the receive ended.
        """
        decided = self.decided()
        for receive, bit in self._bits.items():
            kept = {other: decided[other] for other in decided if not self._known_after[other] & bit}
            for source in self.sources(receive):
                send = self._first_not_taken_before(receive, source)
                if source != decided[receive] and send and not self._known_at_call[send] & bit:
                    yield kept | {receive: source}

    def _first_not_taken_before(self, receive: Name, source: int) -> Name | None:
        sends = ((source, number) for number in range(len(self.asked[source])))
        for send in sends:
            if self.fits(send, receive):
                taker = self.met.get(send)
                if taker is None or taker[1] >= receive[1]:
                    return send
        return None
