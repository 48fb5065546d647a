"""A virtual cluster of up to some hundred ranks, whose messages queue and whose compute times vary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import simpy

from labkit.schedule.checks import check
from labkit.schedule.chunks import Chunk, label
from labkit.schedule.counts import chunk_bytes
from labkit.schedule.description import Schedule
from labkit.schedule.operations import Compute, Operation, Reduce, Send, holds_up
from labkit.schedule.rendezvous import Position, partners
from labkit.simulate.fabric import Fabric
from labkit.simulate.network import Network
from labkit.trace import COMPUTE, Event, Trace

Noise = Callable[[np.random.Generator, float], float]
"""From a rank's own random numbers and the planned seconds of a `Compute` to the seconds that it takes."""


class Message:
    """One message under way: from the moment when the first of its ranks is in the step that names it."""

    __slots__ = ("arrived", "bytes", "met", "sequence")

    def __init__(self, arrived: simpy.Event, nbytes: int, sequence: int):
        self.arrived, self.bytes, self.sequence = arrived, nbytes, sequence
        self.met = None  # when the second of its ranks came


class Cluster:
    """One run of a schedule."""

    def __init__(self, schedule: Schedule, network: Network, nbytes: int, itemsize: int):
        self.env = simpy.Environment()
        self.events: list[Event] = []
        self._schedule, self._network = schedule, network
        self._tensor = nbytes, itemsize
        self._partner = partners(schedule)
        self._fabric = Fabric(self.env)
        self._routes: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {}
        self._sizes: dict[Chunk, int] = {}
        self._waiting: dict[Position, Message] = {}
        self._count: Counter[tuple[int, int]] = Counter()

    def rank(self, rank: int, begin: float, seconds: Callable[[float], float]) -> Iterator[simpy.Event]:
        """The life of one rank, a SimPy process; `seconds` says how long a planned time takes."""
        yield self.env.timeout(begin)
        posted = []
        for n, step in enumerate(self._schedule.steps[rank]):
            entered = self.env.now
            messages = [
                (operation, self._enter((rank, n, place), operation))
                for place, operation in enumerate(step)
                if operation.peer is not None
            ]
            for operation in step:
                if isinstance(operation, Compute):
                    since, length = self.env.now, seconds(operation.seconds)
                    yield self.env.timeout(length)
                    self.events.append(
                        Event(rank, COMPUTE, since, self.env.now, cpu=length, label=operation.label)
                    )
            for operation, message in messages:
                if holds_up(operation):
                    yield message.arrived
                    self.events.append(_event(rank, entered, operation, message))
                else:
                    posted.append((entered, operation, message))
            added = sum(message.bytes for operation, message in messages if isinstance(operation, Reduce))
            if added and self._network.gamma:
                yield self.env.timeout(added * self._network.gamma)
        for entered, operation, message in posted:
            yield message.arrived
            self.events.append(_event(rank, entered, operation, message))

    def _enter(self, position: Position, operation: Operation) -> Message:
        """A rank comes to the step that names a message; the second one to come starts it."""
        source, to = (position[0], operation.peer)[:: 1 if isinstance(operation, Send) else -1]
        message = self._waiting.pop(position, None)
        if message is None:
            size = self._sizes.get(operation.chunk)
            if size is None:
                size = chunk_bytes(self._schedule, operation.chunk, *self._tensor)
                self._sizes[operation.chunk] = size
            message = Message(self.env.event(), size, self._count[source, to])
            self._count[source, to] += 1
            if position in self._partner:  # else a lost message: the rank waits for ever
                self._waiting[self._partner[position]] = message
            return message
        message.met = self.env.now
        alpha, links = self._route(source, to)
        delay = self.env.timeout(alpha)
        delay.callbacks.append(lambda _: self._fabric.send(links, message.bytes, message.arrived))
        return message

    def _route(self, source: int, to: int) -> tuple[float, tuple[int, ...]]:
        if (source, to) not in self._routes:
            alpha, links = self._network.route(source, to)
            numbers = tuple(self._fabric.link(link, self._network.capacity(link[0])) for link in links)
            self._routes[source, to] = alpha, numbers
        return self._routes[source, to]


def simulate_schedule(
    schedule: Schedule,
    network: Network,
    nbytes: int,
    itemsize: int,
    start: float | Sequence[float],
    noise: Noise | None,
    seed: int,
) -> Trace:
    """See `labkit.simulate.simulate`."""
    cluster = Cluster(schedule, network, nbytes, itemsize)
    begin = np.broadcast_to(np.asarray(start, dtype=float), schedule.world_size).tolist()
    ranks = [
        cluster.env.process(cluster.rank(rank, begin[rank], _clock(noise, seed, rank)))
        for rank in range(schedule.world_size)
    ]
    cluster.env.run()
    if any(rank.is_alive for rank in ranks):
        check(schedule)
    return Trace(schedule.world_size, tuple(sorted(cluster.events, key=lambda one: (one.start, one.rank))))


def _clock(noise: Noise | None, seed: int, rank: int) -> Callable[[float], float]:
    """Each rank has random numbers of its own: what it draws does not depend on who else runs."""
    if noise is None:
        return lambda seconds: seconds
    random = np.random.default_rng((seed, rank))
    return lambda seconds: noise(random, seconds)


def _event(rank: int, entered: float, operation: Operation, message: Message) -> Event:
    return Event(
        rank,
        "send" if isinstance(operation, Send) else "recv",
        entered,
        message.arrived.value,
        peers=(operation.peer,),
        bytes=message.bytes,
        sequence=message.sequence,
        waiting=message.met - entered,
        label=label(operation.chunk),
    )
