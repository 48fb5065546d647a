"""All orders of a cell that differ in who meets whom, each once. Pure.

A dynamic partial order reduction. An order is known by what its receives from anybody got, for all else
follows from that. Wherever a message of another sender could have come first, another order begins: that
receive decided so, and every decision that does not hang on it as it was. No order is played that one before
has shown, so the number of plays is the number of orders. (Vo et al., "A scalable and distributed dynamic
formal verifier for MPI programs", SC 2010, decides receives in the same way.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from labkit.lab.orders.board import Name
from labkit.lab.orders.play import Decisions, Played


class Unrepeatable(Exception):
    """A receive did not get the message that it got before: the ranks do not do the same each time."""

    def __init__(self, receive: Name) -> None:
        super().__init__(receive)
        self.receive = receive


def explore(play: Callable[[Decisions], Played]) -> Iterator[Played]:
    """Play every order. Unrepeatable where decisions of one order cannot be taken again."""
    seen: list[dict[Name, int]] = []
    to_do: list[dict[Name, int]] = [{}]
    while to_do:
        decided = to_do.pop()
        if any(decided.items() <= before.items() for before in seen):
            continue
        played = play(decided)
        got = played.decisions
        for receive, source in decided.items():
            if got.get(receive) != source:
                raise Unrepeatable(receive)
        seen.append(got)
        to_do.extend(played.board.alternatives())
        yield played
