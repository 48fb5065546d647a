"""Messages under way on links that they share: every one gets its max-min fair part at every moment."""

from __future__ import annotations

import numpy as np

from labkit.simulate.routes import LINKS, NO_LINK

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


class Flows:
    """The messages under way, as arrays of one element each; all that happens at one moment is one call."""

    def __init__(self, capacity: np.ndarray | tuple[float, ...] = (np.inf,)):
        self._capacity = np.asarray(capacity)  # bytes per second, by the number of the link
        self._now = 0.0
        self._links = np.zeros((0, LINKS), dtype=np.int64)  # [M, LINKS]
        self._left, self._size, self._rate = np.zeros(0), np.zeros(0), np.zeros(0)  # bytes, bytes per second
        self._shares = np.zeros(0, dtype=bool)  # whether it has met another on a link
        self._name = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._name)

    def add_link(self, capacity: float) -> int:
        """The number of a new link of so many bytes per second."""
        self._capacity = np.append(self._capacity, capacity)
        return len(self._capacity) - 1

    @property
    def next_end(self) -> float:
        """When the next message ends if none begins before, in seconds; inf if none is under way."""
        return self._now + (self._left / self._rate).min() if len(self) else np.inf

    def settle(self, now: float, links: np.ndarray, size: np.ndarray, name: np.ndarray) -> np.ndarray:
        """Go on to `now` and begin messages with these links [N, LINKS], bytes and names [N].

        Returns the names of those that have ended.
        """
        self._left = self._left - self._rate * (now - self._now)
        self._now = now
        nearly = np.maximum(np.where(self._shares, SLACK, 0) * self._size, self._rate * (1e-12 * now))
        kept = self._left > nearly
        ended = self._name[~kept]
        self._links = np.concatenate([self._links[kept], links])
        self._left = np.concatenate([self._left[kept], size])
        self._size = np.concatenate([self._size[kept], size])
        self._name = np.concatenate([self._name[kept], name])
        users = np.bincount(self._links.ravel(), minlength=len(self._capacity))
        users[NO_LINK] = 1
        met = users[self._links].max(axis=1) > 1 if len(self) else np.zeros(0, dtype=bool)
        self._shares = met | np.concatenate([self._shares[kept], np.zeros(len(name), dtype=bool)])
        self._rate = fair_rates(self._links, self._capacity)
        return ended
