"""Links that messages share: every message gets its max-min fair part of the bandwidth at every moment."""

from __future__ import annotations

from itertools import count

import numpy as np
import simpy

from labkit.simulate.flows import Flows
from labkit.simulate.routes import LINKS, NO_LINK


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
        self._flows = Flows()
        self._sharing: dict[int, tuple[tuple[int, ...], simpy.Event]] = {}  # by the name that it has there
        self._new: list[tuple[list[int], float, int]] = []
        self._names = count()
        self._plan = 0

    def link(self, name: object, capacity: float) -> int:
        """The number of a link, which is made when first named; `capacity` in bytes per second."""
        if name not in self._number:
            self._number[name] = self._flows.add_link(capacity)
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
        name = next(self._names)
        self._sharing[name] = links, done
        self._new.append(([*links, *[NO_LINK] * (LINKS - len(links))], size, name))

    def _end(self, links: tuple[int, ...], done: simpy.Event) -> None:
        for link in links:
            self._users[link] -= 1
        done.succeed(self._env.now)

    def _settle(self) -> None:
        """Let go what has ended, take in what is new, sleep until the next end."""
        links, size, name = zip(*self._new, strict=True) if self._new else ((), (), ())
        new = (
            np.array(links, dtype=np.int64).reshape(-1, LINKS),
            np.array(size),
            np.array(name, dtype=np.int64),
        )
        self._new = []
        for ended in self._flows.settle(self._env.now, *new).tolist():
            self._end(*self._sharing.pop(ended))
        self._plan += 1
        if len(self._flows):
            plan = self._plan
            wake = self._env.timeout(self._flows.next_end - self._env.now)
            wake.callbacks.append(lambda _: self._settle() if plan == self._plan else None)
