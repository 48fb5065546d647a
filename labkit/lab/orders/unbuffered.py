"""Where an order ends if MPI does not buffer its sends, and nobody leaves a collective early. Pure.

The order is played again with what its ranks have asked, and a rank that waits in a send stays there until
somebody receives. Where nobody can go on, that is one end that MPI allows. Then one send after another is
buffered after all: a deadlock may need some that are, and others that are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labkit.lab.orders.board import Board, Name
from labkit.lab.orders.play import Calls, Ends, Played, Waits

MOST = 2_000
"""Ways to buffer some sends and not others that are looked at of one order."""


@dataclass(frozen=True)
class Stuck:
    """An end at which ranks wait for ever.

    `stopped` is how many requests of each rank's course were heard, `met` which receives got which messages.
    """

    stopped: tuple[int, ...]
    waiting: tuple[Name, ...]
    met: frozenset[tuple[Name, Name]]


def deadlocks(order: Played) -> Iterator[Stuck]:
    """Every end of that order, with sends buffered or not, at which some ranks wait for ever."""
    seen: set[tuple[int, ...]] = set()
    to_do: list[frozenset[Name]] = [frozenset()]
    while to_do and len(seen) < MOST:
        buffered = to_do.pop()
        board, stopped, waiting = _as_far_as_it_goes(order, buffered)
        if stopped in seen:
            continue
        seen.add(stopped)
        if waiting and not any(board.candidates(receive) for receive in board.receives()):
            yield Stuck(stopped, tuple(waiting), frozenset(board.met.items()))
        to_do += [buffered | {name} for name in waiting if board.is_over(name, buffered=True)]


def _as_far_as_it_goes(order: Played, buffered: frozenset[Name]) -> tuple[Board, tuple[int, ...], list[Name]]:
    board = Board(order.board.size)
    at = [0] * board.size
    moved = True
    while moved:
        moved = False
        for rank, course in enumerate(order.course):
            while at[rank] < len(course):
                match course[at[rank]]:
                    case Calls(asked):
                        board.ask(rank, asked)
                    case Waits(number):
                        if not board.is_over((rank, number), (rank, number) in buffered):
                            break
                        board.waited((rank, number))
                    case Ends():
                        pass
                at[rank] += 1
                moved = True
        for receive in list(board.receives()):
            send = order.board.met.get(receive)
            if send is not None and send in board.candidates(receive).values():
                board.meet(receive, send)
                moved = True
    waiting = [
        (rank, course[at[rank]].number)
        for rank, course in enumerate(order.course)
        if at[rank] < len(course) and isinstance(course[at[rank]], Waits)
    ]
    return board, tuple(at), waiting
