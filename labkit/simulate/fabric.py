"""Links that messages share: every message gets its max-min fair part of the bandwidth at every moment."""

from __future__ import annotations

from itertools import compress

import numpy as np
import simpy

LINKS = 3
"""A message takes so many links at most."""
NO_LINK = 0
"""Fills up the rows of messages that take fewer links than others: a link that holds nobody up."""
SLACK = 1e-4
"""A message that shares links and lacks less than this part of itself ends with the one that ends now.

Ranks that are nearly in step, because chunks differ by an element, stay in step; else every message of a
large ring would end at a moment of its own, and each end settles all others anew.
"""


def fair_rates(links: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Bytes per second of each message, [M], by progressive filling.

    `links` [M, K] numbers the links that each message takes, `capacity` [L] is in bytes per second; link 0
    holds nobody up. Bertsekas and Gallager, *Data Networks*, section 6.5.2.

    >>> fair_rates(np.array([[1, 0], [1, 2], [2, 0]]), np.array([np.inf, 1.0, 2.0])).tolist()
    [0.5, 0.5, 1.5]
    """
    rate, left = np.zeros(len(links)), capacity.astype(float)
    still = np.arange(len(links))  # messages without a rate
    while len(still):
        rows = links[still]
        users = np.bincount(rows.ravel(), minlength=len(capacity))
        tightest = (left / np.maximum(users, 1))[rows].min(axis=1)
        level = tightest.min()
        full = tightest <= level * (1 + 1e-12)
        rate[still[full]] = level
        if full.all():
            break
        left = np.maximum(left - level * np.bincount(rows[full].ravel(), minlength=len(capacity)), 0)
        still = still[~full]
    return rate


class _Alone:
    """A message that shares none of its links, so far: it needs no settling with others."""

    def __init__(self, links: tuple[int, ...], size: float, rate: float, since: float, done: simpy.Event):
        self.links, self.size, self.rate, self.since, self.done = links, size, rate, since, done


class Fabric:
    """The messages under way. All of those that share links and begin or end together are settled at once."""

    def __init__(self, env: simpy.Environment):
        self._env = env
        self._number: dict[object, int] = {}
        self._capacity = [np.inf]  # bytes per second, by the number of the link
        self._users = [0]
        self._alone: dict[int, _Alone] = {}  # by link
        self._links = np.zeros((0, LINKS), dtype=np.int64)  # the messages that share: [M, LINKS]
        self._left = np.zeros(0)  # bytes, [M]
        self._size = np.zeros(0)
        self._rate = np.zeros(0)
        self._done: list[tuple[tuple[int, ...], simpy.Event]] = []
        self._new: list[tuple[tuple[int, ...], float, simpy.Event]] = []
        self._since = 0.0
        self._plan = 0

    def link(self, name: object, capacity: float) -> int:
        """The number of a link, which is made when first named; `capacity` in bytes per second."""
        if name not in self._number:
            self._number[name] = len(self._capacity)
            self._capacity.append(capacity)
            self._users.append(0)
        return self._number[name]

    def send(self, links: tuple[int, ...], size: float, done: simpy.Event) -> None:
        """Begin a message now; `done` succeeds, with the time as value, when its last byte has passed."""
        for link in links:
            self._users[link] += 1
        if max(self._users[link] for link in links) > 1:
            for link in links:
                if link in self._alone:
                    self._share(self._alone[link])
            self._add(links, size, done)
            return
        message = _Alone(links, size, min(self._capacity[link] for link in links), self._env.now, done)
        self._alone.update(dict.fromkeys(links, message))
        end = self._env.timeout(size / message.rate)
        end.callbacks.append(lambda _: self._end_alone(message))

    def _share(self, message: _Alone) -> None:
        for link in message.links:
            del self._alone[link]
        passed = message.rate * (self._env.now - message.since)
        self._add(message.links, max(message.size - passed, 0), message.done)

    def _end_alone(self, message: _Alone) -> None:
        if self._alone.get(message.links[0]) is message:
            for link in message.links:
                del self._alone[link]
            self._end(message.links, message.done)

    def _add(self, links: tuple[int, ...], size: float, done: simpy.Event) -> None:
        if not self._new:
            self._env.timeout(0).callbacks.append(lambda _: self._settle())
        self._new.append((links, size, done))

    def _end(self, links: tuple[int, ...], done: simpy.Event) -> None:
        for link in links:
            self._users[link] -= 1
        done.succeed(self._env.now)

    def _settle(self) -> None:
        """Let go what has ended, take in what is new, share the links anew, sleep until the next end."""
        now = self._env.now
        self._left -= self._rate * (now - self._since)
        self._since = now
        rounding = self._rate * (1e-12 * now)
        ended = self._left <= np.maximum(SLACK * self._size, rounding)
        if ended.any():
            for place in np.flatnonzero(ended).tolist():
                self._end(*self._done[place])
            kept = ~ended
            self._links, self._left, self._size = self._links[kept], self._left[kept], self._size[kept]
            self._done = list(compress(self._done, kept.tolist()))
        if self._new:
            rows = [links + (NO_LINK,) * (LINKS - len(links)) for links, _, _ in self._new]
            self._links = np.concatenate([self._links, np.array(rows)])
            sizes = [size for _, size, _ in self._new]
            self._left = np.concatenate([self._left, sizes])
            self._size = np.concatenate([self._size, sizes])
            self._done += [(links, done) for links, _, done in self._new]
            self._new = []
        self._plan += 1
        self._rate = fair_rates(self._links, np.array(self._capacity))
        if len(self._left):
            plan = self._plan
            wake = self._env.timeout((self._left / self._rate).min())
            wake.callbacks.append(lambda _: self._settle() if plan == self._plan else None)
