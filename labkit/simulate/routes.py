"""The way of each message through a network: its latency and its links, which have numbers here."""

from __future__ import annotations

import numpy as np

from labkit.schedule.rounds import Rounds
from labkit.simulate.network import Network

LINKS = 3
"""A message takes so many links at most."""
NO_LINK = 0
"""Fills up the rows of messages that take fewer links than others: a link that holds nobody up."""


class Routes:
    """The routes of all messages of some rounds, each pair of ranks looked up once."""

    def __init__(self, rounds: Rounds, network: Network):
        self._world_size = rounds.world_size
        self._pairs = self._pairs_of(rounds)  # source * R + to, ascending
        routes = [network.route(*divmod(pair, self._world_size)) for pair in self._pairs.tolist()]
        number = {
            link: n + 1 for n, link in enumerate(dict.fromkeys(link for _, row in routes for link in row))
        }
        self.capacity = np.array([np.inf, *(network.capacity(name) for name, _ in number)])
        """Bytes per second of each link, [L]."""
        self._alpha = np.array([alpha for alpha, _ in routes])
        rows = [[number[link] for link in row] + [NO_LINK] * (LINKS - len(row)) for _, row in routes]
        self._links = np.array(rows, dtype=np.int64).reshape(-1, LINKS)

    def between(self, source: np.ndarray, to: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of latency [M] and links [M, LINKS] of messages between these ranks."""
        place = np.searchsorted(self._pairs, source * self._world_size + to)
        return self._alpha[place], self._links[place]

    def pace(self, source: np.ndarray, to: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Seconds of latency, and seconds per byte of a message that is alone on its links, [M] each."""
        alpha, links = self.between(source, to)
        return alpha, 1 / self.capacity[links].min(axis=1)

    def meet(self) -> bool:
        """Whether two messages can be on one link at once.

        They cannot if one rank sends all that pass there, or receives all of it: it has one such message in a
        round.
        """
        source, to = np.divmod(self._pairs, self._world_size)
        return bool((self._several(source) & self._several(to))[NO_LINK + 1 :].any())

    def _several(self, rank: np.ndarray) -> np.ndarray:
        """Whether the messages of each link have more than one of these ranks, [L]; `rank` [pairs]."""
        lowest, highest = np.full(len(self.capacity), self._world_size), np.full(len(self.capacity), -1)
        for column in self._links.T:
            np.minimum.at(lowest, column, rank)
            np.maximum.at(highest, column, rank)
        return lowest < highest

    def _pairs_of(self, rounds: Rounds) -> np.ndarray:
        found, before = np.zeros(0, dtype=np.int64), None
        for one in rounds.rounds():
            if before is None or one.source is not before.source or one.to is not before.to:
                found = np.union1d(found, one.source * self._world_size + one.to)
            before = one
        return found
