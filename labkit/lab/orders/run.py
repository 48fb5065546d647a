"""A cell in every order, from `%%px --orders` to its verdict."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from labkit import LabError
from labkit.lab.display.said import Said
from labkit.lab.orders.board import Name
from labkit.lab.orders.copies import Copied, Silent, Troupe, troupe
from labkit.lab.orders.explore import Unrepeatable, explore
from labkit.lab.orders.orders import End, Got, Order, Orders, shown
from labkit.lab.orders.play import Decisions, Played, Waits, play
from labkit.lab.orders.unbuffered import Stuck, deadlocks
from labkit.lab.remote import Reachable
from labkit.lab.replay import replay
from labkit.rank.protocol import FINISHED, RAISED, WAITING, Remembered, State

MOST = 1000
"""Orders that are played."""
SECONDS = 60.0
"""After which no other order is begun."""
UNBUFFERED = "MPI does not buffer the sends that wait here"
LATE = "MPI reads what is sent at the wait, and has what is received there before it"


def every_order(lab: Reachable, folder: Path, source: str) -> Orders:
    """Run a cell in all orders that differ, in copies of the ranks. LabError if that cannot be done here."""
    if lab.plan.is_remote or any(rank.backend != "mpi" for rank in lab.ranks):
        raise LabError(
            "%%px --orders",
            "ranks on several hosts" if lab.plan.is_remote else f"backend {lab.ranks[0].backend}",
            'it needs labkit\'s own backend, on one machine: labkit.start(4, backend="mpi")',
        )
    with troupe(lab, folder, source) as ranks:
        return _Run(ranks).orders()


class _Run:
    """The orders that were played, with what their ranks called."""

    def __init__(self, ranks: Troupe) -> None:
        self._ranks = ranks
        self._deadlocks: set[frozenset[tuple[Name, Name]]] = set()
        self._remembered: dict[int, Remembered] = {}
        self._written_to: set[Name] = set()

    def orders(self) -> Orders:
        found: list[Order] = []
        end, unexplored = time.monotonic() + SECONDS, ""
        try:
            for count, played in enumerate(explore(self._play), 1):
                found += self._of(played)
                if count == MOST or time.monotonic() > end:
                    unexplored = f"not explored: orders after the first {len(found)}"
                    break
        except Unrepeatable as error:
            rank, _ = error.receive
            unexplored = (
                f"not explored: all other orders, since rank {rank} did not receive the same again: does the "
                "cell go by the time, or by what is not seeded?"
            )
        except Silent as error:
            more = "all orders" if not found else "all other orders"
            unexplored = f"not explored: {more}, since in one rank {error.rank} {error.how}"
        return Orders(tuple(found), unexplored)

    def _play(self, decided: Decisions, late: bool = False) -> Played:
        with self._ranks.copies(late) as copies:
            played = play(copies, decided, late)
            self._remembered = copies.end_stuck(list(played.stuck))
            self._remembered |= {rank: how.remembered for rank, how in played.ends().items()}
            self._written_to = copies.written_to
        return played

    def _of(self, played: Played) -> Iterator[Order]:
        """The order that was played, and others in which as much meets."""
        remembered, written_to = self._remembered, self._written_to
        if not played.stuck:
            yield self._over(played)
        waiting = tuple(played.stuck.values())
        for stuck in sorted(deadlocks(played), key=lambda stuck: stuck.waiting != waiting):
            if stuck.met not in self._deadlocks:
                self._deadlocks.add(stuck.met)
                yield self._deadlock(played, stuck, remembered)
        if not played.stuck and (written_to or _is_read_early(played)):
            other = self._play(played.decisions, late=True)
            if not other.stuck and shown(_said(other)) != shown(_said(played)):
                yield self._over(other, LATE)

    def _over(self, played: Played, how: str = "") -> Order:
        said = _said(played)
        if not any(s.failure for s in said):
            return Order(End.RIGHT, _got(played), said, how=how)
        ended = tuple(map(_ended, said))
        history = replay([self._remembered[rank] for rank in range(len(said))], ended)
        return Order(End.ERROR, _got(played), said, history, how)

    def _deadlock(self, played: Played, stuck: Stuck, remembered: dict[int, Remembered]) -> Order:
        waiting = dict(stuck.waiting)
        said = {rank: how.said for rank, how in played.ends().items() if rank not in waiting}
        ended = [_ended(said.get(rank) or Said(rank, done=False)) for rank in range(played.board.size)]
        here = [_until(played, rank, stuck, remembered[rank]) for rank in range(played.board.size)]
        how = "" if stuck.waiting == tuple(played.stuck.values()) else UNBUFFERED
        end = End.ERROR if any(s.failure for s in said.values()) else End.DEADLOCK
        return Order(end, _got(played, stuck), tuple(said.values()), replay(here, ended), how)


def _until(played: Played, rank: int, stuck: Stuck, remembered: Remembered) -> Remembered:
    """What a rank had called when it stopped."""
    course, at = played.course[rank], stuck.stopped[rank]
    if at >= len(course) or not isinstance(course[at], Waits):
        return remembered
    turns = remembered.turns[: course[at].turns]
    return Remembered(remembered.calls[: max(turns, default=-1) + 1], turns)


def _ended(said: Said) -> State:
    if not said.done:
        return State(said.rank, WAITING)
    if said.failure:
        return State(said.rank, RAISED, error=said.failure.in_short())
    return State(said.rank, FINISHED)


def _said(played: Played) -> tuple[Said, ...]:
    ends: dict[int, Copied] = played.ends()
    return tuple(ends[rank].said for rank in sorted(ends))


def _got(played: Played, stuck: Stuck | None = None) -> tuple[Got, ...]:
    met = {receive for receive, _ in stuck.met} if stuck else set(played.decisions)
    return tuple(
        Got(receive[0], played.board[receive].place, source)
        for receive, source in played.decisions.items()
        if receive in met
    )


def _is_read_early(played: Played) -> bool:
    """Whether a rank has gone on before something had come that it asked for: it might have looked at it."""
    for rank, asked in enumerate(played.board.asked):
        at_once = {r.number for r in played.course[rank] if isinstance(r, Waits) and r.at_once}
        if any(call.verb != "send" and number not in at_once for number, call in enumerate(asked)):
            return True
    return False
