"""Links that messages share: every message gets its max-min fair part of the bandwidth at every moment."""

from __future__ import annotations

import numpy as np
import simpy

NO_LINK = 0
"""Fills up the rows of messages that take fewer links than others: a link that holds nobody up."""


def fair_rates(links: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Bytes per second of each message, [M], by progressive filling.

    `links` [M, K] numbers the links that each message takes, `capacity` [L] is in bytes per second; link 0
    holds nobody up. Bertsekas and Gallager, *Data Networks*, section 6.5.2.

    >>> fair_rates(np.array([[1, 0], [1, 2], [2, 0]]), np.array([np.inf, 1.0, 2.0])).tolist()
    [0.5, 0.5, 1.5]
    """
    rate, left = np.zeros(len(links)), capacity.astype(float)
    open_ = np.arange(len(links))
    while len(open_):
        rows = links[open_]
        users = np.bincount(rows.ravel(), minlength=len(capacity))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(users > 0, left / users, np.inf)
        tightest = share[rows].min(axis=1)
        level = tightest.min()
        full = tightest <= level * (1 + 1e-12)
        rate[open_[full]] = level
        left = np.maximum(left - level * np.bincount(rows[full].ravel(), minlength=len(capacity)), 0)
        left[NO_LINK] = np.inf
        open_ = open_[~full]
    return rate


class Fabric:
    """The messages under way. All that begin or end at one moment are settled at once."""

    def __init__(self, env: simpy.Environment, capacity: np.ndarray, links_per_message: int):
        self._env, self._capacity = env, capacity
        self._links = np.zeros((0, links_per_message), dtype=np.int64)
        self._left = np.zeros(0)  # bytes
        self._rate = np.zeros(0)
        self._done: list[simpy.Event] = []
        self._new: list[tuple[tuple[int, ...], float, simpy.Event]] = []
        self._since = 0.0
        self._plan = 0

    def send(self, links: tuple[int, ...], size: float, done: simpy.Event) -> None:
        """Begin a message now; `done` succeeds when its last byte has passed."""
        if not self._new:
            self._env.timeout(0).callbacks.append(lambda _: self._settle())
        self._new.append((links, size, done))

    def _settle(self) -> None:
        """Take in what is new, let go what has ended, share the links anew, sleep until the next end."""
        now = self._env.now
        self._left -= self._rate * (now - self._since)
        self._since = now
        ended = self._left <= self._rate * 1e-12 * now  # within what rounding makes of `now`
        if ended.any():
            for place in np.flatnonzero(ended):
                self._done[place].succeed()
            kept = ~ended
            self._links, self._left = self._links[kept], self._left[kept]
            self._done = [done for done, keep in zip(self._done, kept, strict=True) if keep]
        if self._new:
            links, sizes, done = zip(*self._new, strict=True)
            self._links = np.concatenate([self._links, np.array(links)])
            self._left = np.concatenate([self._left, np.array(sizes, dtype=float)])
            self._done.extend(done)
            self._new = []
        self._rate = fair_rates(self._links, self._capacity)
        if len(self._left):
            self._plan += 1
            plan = self._plan
            wake = self._env.timeout((self._left / self._rate).min())
            wake.callbacks.append(lambda _: plan == self._plan and self._settle())
