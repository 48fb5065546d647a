"""Thousands of ranks that share links: when each is done. All that happens at one moment is one step."""

from __future__ import annotations

import heapq
from itertools import count

import numpy as np

from labkit.schedule.chunks import boundary
from labkit.schedule.rounds import Round, Rounds
from labkit.simulate.flows import Flows
from labkit.simulate.routes import LINKS, Routes

AT_ONCE = 1e-12
"""What differs by this part of a time happens at that time."""


class _Open:
    """A round that ranks are in: which message each sends and receives, and how many ranks came for it."""

    def __init__(self, one: Round, size: np.ndarray, world_size: int):
        self.source, self.to, self.add, self.size = one.source, one.to, one.add, size
        self.sends, self.receives = np.full(world_size, -1), np.full(world_size, -1)
        self.sends[one.source] = self.receives[one.to] = np.arange(len(one.source))
        self.came = np.zeros(len(one.source), dtype=np.int64)
        self.left = 0  # ranks that have gone on


class SharedRun:
    """One run of `rounds`, each rank beginning at its `start`, [R] in seconds."""

    def __init__(
        self, rounds: Rounds, routes: Routes, gamma: float, nbytes: int, itemsize: int, start: np.ndarray
    ):
        self._rounds, self._coming = rounds, rounds.rounds()
        self._gamma, self._itemsize, self._length = gamma, itemsize, nbytes // itemsize
        self._flows, self._routes = Flows(routes.capacity), routes
        self._open: dict[int, _Open] = {}
        self._opened = 0
        self._round = np.zeros(rounds.world_size, dtype=np.int64)  # the one that each rank is in
        self._missing = np.zeros(rounds.world_size, dtype=np.int64)  # its messages that have not ended
        self._done = start.copy()
        self._entering: list[tuple[float, int, np.ndarray]] = []  # heaps: when, in which order, what
        self._beginning: list[tuple[float, int, tuple[np.ndarray, np.ndarray, np.ndarray]]] = []
        self._order = count()
        self._at(self._entering, start, np.arange(rounds.world_size))

    def finish_times(self) -> np.ndarray:
        """When each rank is done, [R] in seconds."""
        none = np.zeros((0, LINKS), dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64)
        while self._entering or self._beginning or len(self._flows):
            firsts = [heap[0][0] for heap in (self._entering, self._beginning) if heap]
            now = min([*firsts, self._flows.next_end])
            entering = [*_due(self._entering, now)]
            if len(self._flows) or self._beginning:
                begun = [none, *_due(self._beginning, now)]
                ended = self._flows.settle(now, *map(np.concatenate, zip(*begun, strict=True)))
                entering.append(self._end(ended, now))
            self._enter(np.concatenate(entering), now)
        return self._done

    def _enter(self, ranks: np.ndarray, now: float) -> None:
        """Ranks come to their next round; its latency after its second rank has come, a message begins."""
        while len(ranks):
            resting, rounds = [ranks[:0]], self._round[ranks]
            for n in np.unique(rounds).tolist():
                here = ranks[rounds == n]
                one = self._number(n)
                if one is None:
                    self._done[here] = now
                    continue
                sends, receives = one.sends[here], one.receives[here]
                self._missing[here] = (sends >= 0).astype(np.int64) + (receives >= 0)
                resting.append(here[self._missing[here] == 0])
                self._leave(n, resting[-1])
                named = np.concatenate([sends[sends >= 0], receives[receives >= 0]])
                np.add.at(one.came, named, 1)
                both = np.unique(named[one.came[named] == 2])
                alpha, links = self._routes.between(one.source[both], one.to[both])
                self._at(self._beginning, now + alpha, links, one.size[both], n * len(self._done) + both)
            ranks = np.concatenate(resting)

    def _end(self, ended: np.ndarray, now: float) -> np.ndarray:
        """Messages have ended; returns the ranks that go on now. Who adds goes on when it has added."""
        going = [ended[:0]]
        for n in np.unique(ended // len(self._done)).tolist():
            which, one = ended[ended // len(self._done) == n] % len(self._done), self._open[n]
            ranks = np.concatenate([one.source[which], one.to[which]])
            np.subtract.at(self._missing, ranks, 1)
            free = np.unique(ranks[self._missing[ranks] == 0])
            received = one.receives[free]
            added = np.where(received >= 0, one.size[received], 0) * (self._gamma if one.add else 0)
            self._leave(n, free)
            going.append(free[added == 0])
            self._at(self._entering, now + added[added > 0], free[added > 0])
        return np.concatenate(going)

    def _number(self, n: int) -> _Open | None:
        """Round n, or None if there are fewer."""
        while n >= self._opened and (one := next(self._coming, None)) is not None:
            first, last = (boundary(self._length, self._rounds.chunks, end) for end in (one.first, one.last))
            size = np.broadcast_to(self._itemsize * (last - first), len(one.source))
            self._open[self._opened] = _Open(one, size, len(self._done))
            self._opened += 1
        return self._open.get(n)

    def _leave(self, n: int, ranks: np.ndarray) -> None:
        self._round[ranks] += 1
        self._open[n].left += len(ranks)
        if self._open[n].left == len(self._done):
            del self._open[n]

    def _at(self, heap: list, times: np.ndarray, *arrays: np.ndarray) -> None:
        """Put elements of arrays on the heap, those of one moment together."""
        for time in np.unique(times).tolist():
            chosen = tuple(array[times == time] for array in arrays)
            heapq.heappush(heap, (time, next(self._order), chosen if len(chosen) > 1 else chosen[0]))


def _due(heap: list, now: float) -> list:
    """Take off the heap what happens now."""
    due = []
    while heap and heap[0][0] <= now * (1 + AT_ONCE):
        due.append(heapq.heappop(heap)[2])
    return due
