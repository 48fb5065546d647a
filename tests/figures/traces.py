"""Traces to draw, made by hand at any world size: what a picture must show is known beforehand."""

from dataclasses import replace

from labkit.trace import COMPUTE, Event, Trace


class Clock:
    """Builds a trace: each rank has its own time, and a message or a collective moves it on."""

    def __init__(self, world_size):
        self.now = [0.0] * world_size
        self.events = []
        self.world = tuple(range(world_size))
        self.counts = {}

    def compute(self, rank, seconds, on_cpu=1.0):
        self._add(rank, COMPUTE, seconds, cpu=seconds * on_cpu)

    def message(self, source, to, size, seconds, label=""):
        """Both meet, then the bytes pass: the one that comes first waits."""
        met = max(self.now[source], self.now[to])
        common = {"bytes": size, "dtype": "float32", "sequence": self._count(source, to), "label": label}
        for rank, verb, peer in ((source, "send", to), (to, "recv", source)):
            waiting = met - self.now[rank]
            self._add(rank, verb, waiting + seconds, peers=(peer,), waiting=waiting, **common)

    def collective(self, verb, size, seconds, late=0.0):
        """All meet; `late` is how long the transfer is of the rank that ends last beyond the first one's."""
        met, sequence = max(self.now), self._count(verb)
        for rank in self.world:
            waiting = met - self.now[rank]
            length = waiting + seconds + late * rank / len(self.world)
            self._add(
                rank,
                verb,
                length,
                peers=self.world,
                bytes=size,
                dtype="float32",
                group="world",
                sequence=sequence,
                waiting=waiting,
                op="sum",
            )

    def trace(self):
        events = sorted(self.events, key=lambda event: (event.start, event.rank))
        return Trace(len(self.world), tuple(events))

    def _add(self, rank, verb, seconds, **what):
        start = self.now[rank]
        self.now[rank] = start + seconds
        event = Event(rank, verb, start, start + seconds, **{"cpu": seconds, **what})
        self.events.append(event)

    def _count(self, *key):
        self.counts[key] = self.counts.get(key, -1) + 1
        return self.counts[key]


def ring(world_size, size=8):
    """A token goes once around."""
    clock = Clock(world_size)
    for rank in range(world_size):
        clock.compute(rank, 4e-6)
    for rank in range(world_size):
        clock.message(rank, (rank + 1) % world_size, size, 20e-6)
    return clock.trace()


def straggler(world_size, slow=None, seconds=0.5):
    """Three steps of training; one rank sleeps in the second."""
    slow = world_size // 2 if slow is None else slow
    clock = Clock(world_size)
    for step in range(3):
        for rank in range(world_size):
            clock.compute(rank, 0.1 + 0.01 * (rank % 3))
        if step == 1:
            clock.compute(slow, seconds, on_cpu=0.01)
        clock.collective("all_reduce", 4_000_000, 0.04, late=0.002)
    return clock.trace()


def naive(world_size, size=1_000_000):
    """All-reduce by sends: everyone sends to rank 0, which adds and sends the sum back."""
    clock = Clock(world_size)
    for rank in range(1, world_size):
        clock.message(rank, 0, size, 0.8e-3)
        clock.compute(0, 0.2e-3)
    for rank in range(1, world_size):
        clock.message(0, rank, size, 0.8e-3)
    return clock.trace()


def pipeline(world_size, microbatches=6, size=65_536):
    """Each rank computes on a micro-batch and hands it on."""
    clock = Clock(world_size)
    for number in range(microbatches):
        for rank in range(world_size):
            if rank:
                clock.message(rank - 1, rank, size, 0.1e-3, label=f"micro-batch {number}")
            clock.compute(rank, 1e-3)
    return clock.trace()


def layers(world_size, size=65_536):
    """One step of a network that is cut by layers: activations up, gradients down, backward twice as long."""
    clock = Clock(world_size)
    for rank in range(world_size):
        if rank:
            clock.message(rank - 1, rank, size, 0.5e-3, label="activations")
        clock.compute(rank, 10e-3)
    for rank in reversed(range(world_size)):
        clock.compute(rank, 20e-3)
        if rank:
            clock.message(rank, rank - 1, size, 0.5e-3, label="gradients")
    return clock.trace()


def ddp(world_size, steps=2):
    """Backward passes with two buckets, whose all-reduces run beside the rest of the backward pass."""
    events, now = [], 0.0
    for step in range(steps):
        skew = [0.0004 * (rank % 2) for rank in range(world_size)]
        last = now + max(skew)
        for rank in range(world_size):
            start = now + skew[rank]
            world = {"peers": tuple(range(world_size)), "group": "world", "op": "sum", "dtype": "float32"}
            first, second = start + 0.006, start + 0.010
            met = (last + 0.006 - first, last + 0.010 - second)
            events += [
                Event(rank, COMPUTE, start, second, cpu=0.010),
                Event(
                    rank,
                    "all_reduce",
                    first,
                    last + 0.0095,
                    bytes=1_000_000,
                    sequence=2 * step,
                    waiting=met[0],
                    **world,
                ),
                Event(
                    rank,
                    "all_reduce",
                    second,
                    last + 0.013,
                    bytes=600_000,
                    sequence=2 * step + 1,
                    waiting=met[1],
                    **world,
                ),
            ]
        now = last + 0.0135
    return Trace(world_size, tuple(sorted(events, key=lambda event: (event.start, event.rank))))


def crowded(world_size, cores=2):
    """More ranks than cores, all spinning, then a barrier."""
    clock = Clock(world_size)
    for _ in range(2):
        for rank in range(world_size):
            clock.compute(rank, 0.4 + 0.02 * rank / world_size, on_cpu=min(1.0, cores / world_size))
        clock.collective("barrier", 0, 0.001)
    return clock.trace()


def busy(world_size, steps=300):
    """Hundreds of short events on each rank: more than there are pixels."""
    clock = Clock(world_size)
    for step in range(steps):
        for rank in range(world_size):
            clock.compute(rank, 1e-3 * (1 + (rank + step) % 3 / 3))
        clock.collective("all_reduce", 4096, 0.3e-3)
    return clock.trace()


def served(world_size, size=1_000_000):
    """Rank 0 has the weights; each other rank pulls, computes and pushes, the later ones longer."""
    clock = Clock(world_size)
    for _ in range(3):
        for rank in range(1, world_size):
            clock.message(0, rank, size, 0.01)
            clock.compute(rank, 0.3 + 0.02 * rank)
        for rank in range(1, world_size):
            clock.message(rank, 0, size, 0.01)
    return clock.trace()


def shifted(trace, seconds):
    """The same, later."""
    moved = (replace(event, start=event.start + seconds, end=event.end + seconds) for event in trace.events)
    return replace(trace, events=tuple(moved))


TRACES = {make.__name__: make for make in (ring, straggler, naive, pipeline, ddp, crowded, busy)}
