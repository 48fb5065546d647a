"""Schedules of thousands of ranks: rounds in which every message is one element of an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from labkit.schedule.chunks import chunk_range
from labkit.schedule.description import Schedule
from labkit.schedule.operations import Recv, Reduce, Send


@dataclass(frozen=True)
class Round:
    """Messages that pass at the same time: rank source[i] sends chunks first[i] to last[i] - 1 to rank to[i].

    A rank sends at most one message in a round and receives at most one. Receivers add what comes to their
    own if `add`, else they replace their own by it. `first` and `last` are arrays like the others, or
    numbers that hold for all messages.
    """

    source: np.ndarray  # int [M]
    to: np.ndarray  # int [M]
    first: np.ndarray | int
    last: np.ndarray | int
    add: bool


@dataclass(frozen=True)
class Rounds:
    """A schedule by its rounds, made one at a time: a ring of 4,096 ranks has 33 million messages.

    A rank that takes part in round n has it as its step n, and rests in the others.
    """

    world_size: int
    chunks: int
    rounds: Callable[[], Iterator[Round]]

    def schedule(self) -> Schedule:
        """The same as tuples of `Send`, `Recv` and `Reduce` per rank and step."""
        steps: list[list] = [[] for _ in range(self.world_size)]
        for one in self.rounds():
            for rank in steps:
                rank.append(())
            receive = Reduce if one.add else Recv
            ends = np.broadcast_arrays(one.source, one.to, one.first, one.last)
            found = list(zip(*(array.tolist() for array in ends), strict=True))
            for source, to, first, last in found:
                steps[source][-1] += (Send(to, chunk_range(first, last)),)
            for source, to, first, last in found:
                steps[to][-1] += (receive(source, chunk_range(first, last)),)
        return Schedule(steps, self.chunks)
