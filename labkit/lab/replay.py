"""How a cell came to its end: what the ranks have called, played again step by step. Pure.

A rank tells what it has called and for what it has waited, in its own order. Which of two ranks was first
nobody knows, and it does not matter: in each step every rank that can go on goes on by one call. What has
to meet for that are MPI's rules: a message and the receive that it comes first for, all members of a
collective.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum

from labkit.lab.diagnosis import stuck, tags_meet
from labkit.lab.history import History, Message, Played, Step, Turn
from labkit.rank.protocol import RECEIVES, SENDS, WAITING, Called, Remembered, State

_NONBLOCKING = {"send": "isend", "recv": "irecv"}


def replay(remembered: Sequence[Remembered], ended: Sequence[State]) -> History:
    """The history of a cell from what each rank remembers, and how it ended on each."""
    forgotten = any(one.forgotten for one in remembered)
    if forgotten:
        remembered = _from_one_collective(remembered)
    ranks = _Replay(remembered, ended)
    played = tuple(ranks.steps())
    return History(played, _stuck_from(played), ranks.calls(), forgotten)


def _stuck_from(played: Sequence[Step]) -> int | None:
    held = [{s.rank for s in stuck(step.states)} for step in played]
    if not held or not held[-1]:
        return None
    earlier = (k for k in reversed(range(len(held))) if not held[-1] <= held[k])
    return next(earlier, -1) + 1


def _from_one_collective(remembered: Sequence[Remembered]) -> list[Remembered]:
    """Without what was before the first collective of all ranks that all of them remember."""
    everybody = tuple(range(len(remembered)))
    found = [
        {_key(call): k for k, call in enumerate(m.calls) if call.peers == everybody and call.number}
        for m in remembered
    ]
    common = [key for key in found[0] if all(key in each for each in found)] if found else []
    if not common:
        return list(remembered)
    starts = [each[common[0]] for each in found]
    return [
        replace(m, turns=m.turns[m.turns.index(start) :]) for m, start in zip(remembered, starts, strict=True)
    ]


class _Kind(Enum):
    """Of an entry: a call that its rank waits for at once; one it does not; the wait for that."""

    BLOCKING, POSTED, WAITED = range(3)


def _program(one: Remembered) -> list[tuple[_Kind, int]]:
    """The calls of a rank in its order, each with what the rank does with it."""
    program: list[tuple[_Kind, int]] = []
    made: set[int] = set()
    for place, number in enumerate(one.turns):
        if number not in made:
            made.add(number)
            at_once = one.turns[place + 1 : place + 2] == (number,)
            program.append((_Kind.BLOCKING if at_once else _Kind.POSTED, number))
        elif program[-1] != (_Kind.BLOCKING, number):
            program.append((_Kind.WAITED, number))
    return program


def _key(call: Called) -> tuple[str, str, int]:
    return call.group, call.verb, call.number


class _Replay:
    """All ranks, as far as they have come."""

    def __init__(self, remembered: Sequence[Remembered], ended: Sequence[State]) -> None:
        self._memories, self._ended = remembered, ended
        self._programs = [_program(one) for one in remembered]
        self._at = [-1] * len(remembered)
        self._begun: dict[tuple[int, int], int] = {}  # in which step, by the rank and the number of its call
        self._over: dict[tuple[int, int], int] = {}
        self._messages: list[tuple[int, int]] = []  # sends and receives that have not met, in their order
        self._received: list[tuple[int, int]] = []  # sends, in this step
        self._count = 0
        self._entered: dict[tuple[str, str, int], dict[int, int]] = {}

    def steps(self) -> Iterator[Step]:
        while True:
            moved = [rank for rank in range(len(self._at)) if self._moves(rank)]
            if not moved and not self._went_on_all_the_same():
                return
            if moved:
                self._meet()
                yield self._step()
                self._count += 1

    def calls(self) -> tuple[Played, ...]:
        """All that were made, in the order of the steps."""
        return tuple(
            Played(rank, self._memories[rank].calls[number], begin, self._over.get((rank, number)))
            for (rank, number), begin in self._begun.items()
        )

    def _moves(self, rank: int) -> bool:
        """Let a rank begin its next call, or come to its end, if it can."""
        if self._held(rank) or self._at[rank] == len(self._programs[rank]):
            return False
        program = self._programs[rank]
        self._at[rank] += 1
        while self._at[rank] < len(program):
            kind, number = program[self._at[rank]]
            if kind is not _Kind.WAITED:
                self._enter(rank, number)
                break
            if (rank, number) not in self._over:
                break
            self._at[rank] += 1  # a wait for what is over is none
        return True

    def _held(self, rank: int) -> bool:
        """Whether a rank waits for something that has not come."""
        if not 0 <= self._at[rank] < len(self._programs[rank]):
            return False
        kind, number = self._programs[rank][self._at[rank]]
        return kind is not _Kind.POSTED and (rank, number) not in self._over

    def _enter(self, rank: int, number: int) -> None:
        call = self._memories[rank].calls[number]
        self._begun[rank, number] = self._count
        if call.verb not in SENDS + RECEIVES:
            self._entered.setdefault(_key(call), {})[rank] = number
        elif call.verb in SENDS and len(call.peers) != 1:  # to nobody
            self._over[rank, number] = self._count
        else:
            self._messages.append((rank, number))

    def _meet(self) -> None:
        """All that can meet now does."""
        self._received = []
        for key, numbers in list(self._entered.items()):
            rank, number = next(iter(numbers.items()))
            if set(self._memories[rank].calls[number].peers) <= set(numbers):
                self._end(*numbers.items())
                del self._entered[key]
        for here in [m for m in self._messages if self._call(m).verb in RECEIVES]:
            there = next((m for m in self._messages if self._is_for(m, here)), None)
            if there is not None:
                self._end(here, there)
                self._received.append(there)
                self._messages = [m for m in self._messages if m not in (here, there)]

    def _is_for(self, message: tuple[int, int], receive: tuple[int, int]) -> bool:
        sent, wanted = self._call(message), self._call(receive)
        source = wanted.peers[0] if len(wanted.peers) == 1 else wanted.source
        return (
            sent.verb in SENDS
            and (message[0], sent.peers[0], sent.group) == (source, receive[0], wanted.group)
            and tags_meet(sent.tag, wanted.tag)
        )

    def _call(self, which: tuple[int, int]) -> Called:
        rank, number = which
        return self._memories[rank].calls[number]

    def _went_on_all_the_same(self) -> bool:
        """Nobody could go on, and some did: their calls were over without a partner, as small sends can be.

        Whoever has called something later, or has come to an end, has gone on.
        """
        went = [
            rank
            for rank, program in enumerate(self._programs)
            if self._held(rank) and (self._at[rank] + 1 < len(program) or self._ended[rank].doing != WAITING)
        ]
        self._end(*((rank, self._programs[rank][self._at[rank]][1]) for rank in went))
        return bool(went)

    def _end(self, *calls: tuple[int, int]) -> None:
        self._over.update(dict.fromkeys(calls, self._count))

    def _step(self) -> Step:
        sends = [m for m in self._messages if self._call(m).verb in SENDS and not self._waits_for(*m)]
        return Step(
            tuple(map(self._turn, range(len(self._at)))),
            tuple(map(self._message, self._received)),
            tuple(map(self._message, sends)),
        )

    def _waits_for(self, rank: int, number: int) -> bool:
        return self._held(rank) and self._programs[rank][self._at[rank]][1] == number

    def _message(self, sent: tuple[int, int]) -> Message:
        call = self._call(sent)
        return Message(sent[0], call.peers[0], call.tag, call.place, self._begun[sent])

    def _turn(self, rank: int) -> Turn:
        if self._at[rank] == len(self._programs[rank]):
            return Turn(self._ended[rank])
        kind, number = self._programs[rank][self._at[rank]]
        call = self._memories[rank].calls[number]
        verb = call.verb if kind is _Kind.BLOCKING else _NONBLOCKING.get(call.verb, call.verb)
        peers = () if call.verb in RECEIVES and len(call.peers) > 1 else call.peers  # from any
        state = State(rank, WAITING, verb, peers, call.number, call.group, call.tag, call.place)
        return Turn(state, not self._held(rank), kind is _Kind.WAITED)
