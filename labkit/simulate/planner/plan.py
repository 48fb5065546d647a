"""All configurations of a cluster: ranked by their time, or rejected with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from labkit.simulate.planner.cluster import Budget, Cluster
from labkit.simulate.planner.configuration import EXACT, SERVERS, WAYS, Configuration
from labkit.simulate.planner.memory import rank_memory
from labkit.simulate.planner.model import Model
from labkit.simulate.planner.seconds import step_seconds

MICROBATCHES = (1, 2, 4, 8, 16)
PIECES = (1, 2, 3, 4)
SHOWN = 5


@dataclass(frozen=True)
class Plan:
    """A configuration, what it will take, and why it was rejected, if it was."""

    configuration: Configuration
    seconds: dict[str, float]
    """Of a step, by what they are spent on."""
    memory: dict[str, float]
    """Bytes of the fullest rank, by what they hold."""
    rejected: str = ""

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return sum(self.seconds.values())

    @property
    def bytes(self) -> float:
        """Bytes of the fullest rank."""
        return sum(self.memory.values())

    def __str__(self) -> str:
        taken = f"{self.step:9.3g} s {self.bytes / 1e9:7.3g} GB" if self.seconds else f"{'':22}"
        return f"{taken}  {self.configuration}" + (f": {self.rejected}" if self.rejected else "")


@dataclass(frozen=True)
class Plans:
    """The plans that keep to the budget, the fastest first, and those that do not."""

    ranked: tuple[Plan, ...]
    rejected: tuple[Plan, ...]

    def __str__(self) -> str:
        lines = [f"{len(self.ranked)} keep to the budget, {len(self.rejected)} do not"]
        lines += [str(plan) for plan in self.ranked[:SHOWN]]
        lines += ["rejected:"] * bool(self.rejected) + [str(plan) for plan in self.rejected[:SHOWN]]
        return "\n".join(lines)


def predict(model: Model, cluster: Cluster, configuration: Configuration, batch: int) -> Plan:
    """What one configuration will take for a step of `batch` samples. Built in lesson 25."""
    if reason := configuration.impossible(model, batch):
        return Plan(configuration, {}, {}, reason)
    seconds = step_seconds(model, cluster, configuration, batch)
    return Plan(configuration, seconds, rank_memory(model, configuration, batch))


def plan(model: Model, cluster: Cluster, budget: Budget) -> Plans:
    """Rank the configurations of all of the cluster's devices by predicted seconds of a step.

    Of configurations that differ only in microbatch, pieces and recomputation the best is named. Built in
    lesson 25.

    >>> from labkit.simulate.planner import Model, a100
    >>> gpt = Model.transformer(layers=36, hidden=4096, heads=32)
    >>> found = plan(gpt, a100(1), Budget(batch=16))
    >>> print(found)
    0 keep to the budget, 1 do not
    rejected:
         12.6 s     121 GB  single, microbatch 1, recompute: does not fit: 121 GB of 80
    """
    room = min(cluster.memory, budget.memory)
    found: list[Plan] = []
    for shape in _shapes(cluster.devices):
        tried = [predict(model, cluster, one, budget.batch) for one in _variants(shape, budget.batch)]
        judged = [replace(one, rejected=one.rejected or _broken(one, room, budget)) for one in tried]
        found.append(min(judged, key=_better))
    return Plans(
        tuple(sorted((p for p in found if not p.rejected), key=lambda p: (p.step, p.bytes))),
        tuple(sorted((p for p in found if p.rejected), key=lambda p: (not p.seconds, p.step))),
    )


def _better(plan: Plan) -> tuple:
    """What keeps to the budget by its time; of what does not, that which needs least memory."""
    return bool(plan.rejected), not plan.seconds, plan.bytes if plan.rejected else plan.step


def _broken(plan: Plan, room: float, budget: Budget) -> str:
    """The first part of the budget that it does not keep to."""
    if plan.bytes > room:
        return f"does not fit: {plan.bytes / 1e9:.3g} GB of {room / 1e9:.3g}"
    if budget.exact and plan.configuration.data > 1 and plan.configuration.agree not in EXACT:
        return f"not exact: {plan.configuration.agree}"
    if plan.step > budget.seconds:
        return f"too slow: {plan.step:.3g} s of {budget.seconds:.3g}"
    return ""


def _shapes(devices: int) -> Iterator[Configuration]:
    """Each way to multiply three sizes to so many devices, and each way in which replicas can agree."""
    for tensor in _divisors(devices):
        for pipeline in _divisors(devices // tensor):
            data = devices // (tensor * pipeline)
            ways = WAYS if tensor == pipeline == 1 else ("synchronous", "stage 1", "sharded")
            for way in ways if data > 1 else ("synchronous",):
                yield Configuration(data - (way in SERVERS), tensor, pipeline, agree=way)


def _variants(shape: Configuration, batch: int) -> Iterator[Configuration]:
    """The shape with each microbatch, number of pieces, and without recomputation or with it."""
    own = max(1, batch // shape.data)
    sizes = {size for size in (*MICROBATCHES, own) if own % size == 0 and size <= MICROBATCHES[-1]}
    for size in sorted(sizes):
        for pieces in PIECES if shape.pipeline > 1 else PIECES[:1]:
            for recompute in (False, True):
                yield replace(shape, microbatch=size, pieces=pieces, recompute=recompute)


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
