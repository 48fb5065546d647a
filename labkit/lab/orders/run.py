"""A cell in every order, from `%%px --orders` to its verdict."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from labkit import LabError
from labkit.lab.display.said import Said
from labkit.lab.orders.board import Name
from labkit.lab.orders.copies import Silent, Troupe, troupe
from labkit.lab.orders.explore import Unrepeatable, explore
from labkit.lab.orders.orders import End, Got, Order, Orders, shown
from labkit.lab.orders.play import Decisions, Ends, Played, Waits, play
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
            return play(copies, decided, late)

    def _of(self, played: Played) -> Iterator[Order]:
        """The order that was played, and others in which the same meets."""
        yield from self._ends(played)
        if not played.stuck and (_is_written_to(played) or _is_read_early(played)):
            other = self._play(played.decisions, late=True)
            if other.stuck or _outcome(other) != _outcome(played):
                yield from self._ends(other, LATE)

    def _ends(self, played: Played, how: str = "") -> Iterator[Order]:
        if not played.stuck:
            yield _over(played, how)
        waiting = tuple(played.stuck.values())
        for stuck in sorted(deadlocks(played), key=lambda stuck: stuck.waiting != waiting):
            if stuck.met not in self._deadlocks:
                self._deadlocks.add(stuck.met)
                yield _deadlock(played, stuck, how or UNBUFFERED * (stuck.waiting != waiting))


def _over(played: Played, how: str) -> Order:
    said = _said(played)
    if not any(s.failure for s in said):
        return Order(End.RIGHT, _got(played), said, how=how)
    history = replay([played.hows[s.rank].remembered for s in said], [_ended(s) for s in said])
    return Order(End.ERROR, _got(played), said, history, how)


def _deadlock(played: Played, stuck: Stuck, how: str) -> Order:
    waiting = dict(stuck.waiting)
    said = [Said(s.rank, done=False) if s.rank in waiting else s for s in _said(played)]
    history = replay([_until(played, s.rank, stuck) for s in said], [_ended(s) for s in said])
    end = End.ERROR if any(s.failure for s in said) else End.DEADLOCK
    return Order(end, _got(played, stuck), tuple(s for s in said if s.done), history, how)


def _until(played: Played, rank: int, stuck: Stuck) -> Remembered:
    """What a rank had called when it stopped."""
    remembered: Remembered = played.hows[rank].remembered
    match played.course[rank][stuck.stopped[rank] :]:
        case [Waits(turns=count), *_]:
            turns = remembered.turns[:count]
            return Remembered(remembered.calls[: max(turns, default=-1) + 1], turns)
    return remembered


def _ended(said: Said) -> State:
    if not said.done:
        return State(said.rank, WAITING)
    if said.failure:
        return State(said.rank, RAISED, error=said.failure.in_short())
    return State(said.rank, FINISHED)


def _said(played: Played) -> tuple[Said, ...]:
    return tuple(how.said for _, how in sorted(played.hows.items()))


def _outcome(played: Played) -> object:
    """What can be seen of how an order went."""
    said = _said(played)
    return shown(said), [s.failure.in_short() if s.failure else "" for s in said]


def _got(played: Played, stuck: Stuck | None = None) -> tuple[Got, ...]:
    met = {receive for receive, _ in stuck.met} if stuck else set(played.decisions)
    return tuple(
        Got(receive[0], played.board[receive].place, source)
        for receive, source in played.decisions.items()
        if receive in met
    )


def _is_written_to(played: Played) -> bool:
    """Whether a rank has written to what it had given to a call that it had not waited for."""
    asked = (request for course in played.course for request in course)
    return any(isinstance(request, Waits | Ends) and request.written_to for request in asked)


def _is_read_early(played: Played) -> bool:
    """Whether a rank has gone on before something had come that it asked for: it might have looked at it."""
    for rank, asked in enumerate(played.board.asked):
        at_once = {r.number for r in played.course[rank] if isinstance(r, Waits) and r.at_once}
        if any(call.verb != "send" and number not in at_once for number, call in enumerate(asked)):
            return True
    return False
