"""A virtual cluster of up to some hundred ranks, whose messages queue and whose compute times vary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import simpy

from labkit.schedule.checks import check
from labkit.schedule.counts import chunk_bytes
from labkit.schedule.description import Compute, Reduce, Schedule, Send, label
from labkit.schedule.rendezvous import partners, peer
from labkit.simulate.fabric import Fabric
from labkit.simulate.network import Network
from labkit.trace import COMPUTE, Event, Trace

Noise = Callable[[np.random.Generator, float], float]
"""From a rank's own random numbers and the planned seconds of a `Compute` to the seconds that it takes."""


class _Message:
    """One message: each of its ranks enters in its time, the second one starts it."""

    def __init__(self, env: simpy.Environment, source: int, to: int, size: int, sequence: int):
        self.source, self.to, self.size, self.sequence = source, to, size, sequence
        self.entered = {}
        self.done = env.event()
        self.end = 0.0


def simulate_schedule(
    schedule: Schedule,
    network: Network,
    nbytes: int,
    itemsize: int,
    start,
    noise: Noise | None,
    seed: int,
) -> Trace:
    """See `labkit.simulate.simulate`."""
    env = simpy.Environment()
    met = _messages(env, schedule, nbytes, itemsize)
    wires = _Wires(env, network, set(met.values()))
    begin = np.broadcast_to(np.asarray(start, dtype=float), schedule.world_size)
    events: list[Event] = []
    ranks = [
        env.process(
            _rank(
                env,
                schedule,
                rank,
                float(begin[rank]),
                met,
                wires,
                _clock(noise, seed, rank),
                network.gamma,
                events,
            )
        )
        for rank in range(schedule.world_size)
    ]
    env.run()
    if any(rank.is_alive for rank in ranks):
        check(schedule)
    events.sort(key=lambda event: (event.start, event.rank))
    return Trace(schedule.world_size, tuple(events))


def _rank(env, schedule, rank, begin, met, wires, seconds, gamma, events):
    """The life of one rank, as a SimPy process."""
    yield env.timeout(begin)
    for n, step in enumerate(schedule.steps[rank]):
        entered, waits, added, recorded = env.now, [], 0, []
        for place, operation in enumerate(step):
            message = met.get((rank, n, place))
            if message:
                wires.enter(message, rank)
                waits.append(message.done)
                recorded.append((operation, message))
                added += message.size if isinstance(operation, Reduce) else 0
            elif peer(operation) is not None:
                waits.append(env.event())  # a lost message: the rank stays here
        for operation in step:
            if isinstance(operation, Compute):
                since, length = env.now, seconds(operation.seconds)
                yield env.timeout(length)
                events.append(Event(rank, COMPUTE, since, env.now, cpu=length, label=operation.label))
        for wait in waits:
            yield wait
        events.extend(_event(operation, message, rank, entered) for operation, message in recorded)
        if added and gamma:
            yield env.timeout(added * gamma)


def _event(operation, message: _Message, rank: int, entered: float) -> Event:
    sends = isinstance(operation, Send)
    return Event(
        rank,
        "send" if sends else "recv",
        entered,
        message.end,
        peers=(message.to if sends else message.source,),
        bytes=message.size,
        sequence=message.sequence,
        waiting=max(message.entered.values()) - entered,
        label=label(operation.chunk),
    )


def _messages(env, schedule: Schedule, nbytes: int, itemsize: int) -> dict[tuple[int, int, int], _Message]:
    """From the position of each send, and of its receive, to their message."""
    met, count = {}, Counter()
    for position, other in partners(schedule).items():
        rank, n, place = position
        operation = schedule.steps[rank][n][place]
        if isinstance(operation, Send):
            pair = rank, other[0]
            size = chunk_bytes(schedule, operation.chunk, nbytes, itemsize)
            met[position] = met[other] = _Message(env, *pair, size, count[pair])
            count[pair] += 1
    return met


def _clock(noise: Noise | None, seed: int, rank: int) -> Callable[[float], float]:
    """Each rank has random numbers of its own: what it draws does not depend on who else runs."""
    if noise is None:
        return lambda seconds: seconds
    random = np.random.default_rng((seed, rank))
    return lambda seconds: noise(random, seconds)


class _Wires:
    """The links by number, and the latency before a message comes to them."""

    def __init__(self, env: simpy.Environment, network: Network, messages: set[_Message]):
        self._env = env
        pairs = {(message.source, message.to) for message in messages}
        costs = {pair: network.cost(*pair) for pair in pairs}
        numbers = {}
        for _, links in costs.values():
            for link in links:
                numbers.setdefault(link, len(numbers) + 1)
        most = max((len(links) for _, links in costs.values()), default=1)
        self._costs = {
            pair: (alpha, tuple(numbers[link] for link in links) + (0,) * (most - len(links)))
            for pair, (alpha, links) in costs.items()
        }
        capacity = np.array([np.inf, *(network.capacity(name) for name, _ in numbers)])
        self._fabric = Fabric(env, capacity, most)

    def enter(self, message: _Message, rank: int) -> None:
        """A rank has come to the step that names the message."""
        message.entered[rank] = self._env.now
        if len(message.entered) == 2:
            alpha, links = self._costs[message.source, message.to]
            message.done.callbacks.append(lambda _: setattr(message, "end", self._env.now))
            delay = self._env.timeout(alpha)
            delay.callbacks.append(lambda _: self._fabric.send(links, message.size, message.done))
