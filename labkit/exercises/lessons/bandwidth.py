"""From which bandwidth on it pays: the heart of lesson 05."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch


def _mean(times: list[float]) -> float:
    return sum(times) / len(times)


def _measured(generator: torch.Generator, size: int) -> Arguments:
    """The bytes of the gradients, and what each rank's stopwatch said of computing and of the overhead.

    No two ranks' times are alike, so that the longest is neither the mean nor the shortest. Who computes
    longest has the shortest overhead: no rank's own bandwidth is that of the longest, or shortest, of both.
    """
    n = 1000 * int(torch.randint(500, 5000, (), generator=generator))
    order = torch.randperm(size, generator=generator)

    def times(order: torch.Tensor) -> list[float]:
        apart = order + torch.rand(size, generator=generator) / 2
        return (1 + apart.double() / size).tolist()

    t_comp, overhead = [0.05 * t for t in times(order)], [0.01 * t for t in times(size - 1 - order)]
    return [(n, *mine) for mine in zip(t_comp, overhead, strict=True)]


def _bandwidth(
    choose: Callable[[list[float]], float] = max,
    volume: Callable[[int], float] = lambda size: 2 * (size - 1) / size,
    paid: Callable[[int], float] = lambda size: size - 1,
    overheads: float = 1,
    unit: float = 1,
) -> Values:
    """The bandwidth of the lesson, from these numbers of all ranks' ones, and with these factors."""

    def bandwidth(arguments: Arguments) -> float:
        size, (n, _, _) = len(arguments), arguments[0]
        t_comp, overhead = (choose([mine[place] for mine in arguments]) for place in (1, 2))
        return unit * volume(size) * n / (paid(size) * t_comp - overheads * overhead)

    return everywhere(bandwidth)


def _own_bandwidth(arguments: Arguments) -> list[float]:
    size = len(arguments)
    return [2 * (size - 1) / size * n / ((size - 1) * t - o) for n, t, o in arguments]


LEAST_BANDWIDTH = Exercise(
    task="`n` is the same on every rank. `t_comp` and `overhead` are what the rank itself measured, another "
    "number on each. A step lasts until the slowest rank is done, so the longest time of each counts. Return "
    "the bandwidth, in bytes per second, above which it pays: the same number on every rank, with one "
    "collective call. (If the overhead alone were longer than $(R-1)$ `t_comp`, no bandwidth would do. That "
    "does not happen here.)",
    stub="""\
def my_least_bandwidth(n, t_comp, overhead):  # bytes, seconds, seconds
    ...  # your code
""",
    solution="""\
def my_least_bandwidth(n, t_comp, overhead):
    longest = torch.tensor([t_comp, overhead], device=device)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    t_comp, overhead = longest.tolist()
    R = dist.get_world_size()
    return 2 * (R - 1) / R * n / ((R - 1) * t_comp - overhead)
""",
    why="At break-even T_sync is (R - 1) T_comp. The overhead is lost in any case; what is left of that time "
    "is for the bytes, and bytes over seconds is a bandwidth. The longest of both times: nobody leaves an "
    "all-reduce before the last has come.",
    hints=(
        "First on paper: put T_sync = o + 2 (R - 1) / R n / W into T_sync = (R - 1) T_comp, and solve for W.",
        "Then the ranks: one tensor holds both of a rank's times, and dist.all_reduce has an argument op. "
        "dist.ReduceOp has SUM, MAX and MIN.",
    ),
    given=_measured,
    judge=compare(
        _bandwidth(),
        Mistake(
            "Each rank believes its own stopwatch. Without a message between them they cannot agree.",
            _own_bandwidth,
        ),
        Mistake(
            "You took the largest of the ranks' bandwidths. Take the longest times first, then one "
            "bandwidth.",
            everywhere(lambda arguments: max(_own_bandwidth(arguments))),
        ),
        Mistake(
            "That is with the mean of the times. A step lasts until the slowest is done.", _bandwidth(_mean)
        ),
        Mistake(
            "That is with the shortest of the times. A step lasts until the slowest is done.", _bandwidth(min)
        ),
        Mistake(
            "That is with the sum of the times, and the ranks computed at the same time: take the longest.",
            _bandwidth(sum),
        ),
        Mistake(
            "The overhead is missing: the bytes get only what it leaves of the time.", _bandwidth(overheads=0)
        ),
        Mistake(
            "The overhead is added. It leaves the bytes less time, not more: subtract it.",
            _bandwidth(overheads=-1),
        ),
        Mistake(
            "That is with R T_comp. The first rank computes its own share; what the R - 1 others compute "
            "must pay for T_sync.",
            _bandwidth(paid=lambda size: size),
        ),
        Mistake(
            "R - 1 is missing before T_comp: each of the others saves you a T_comp.",
            _bandwidth(paid=lambda size: 1),
        ),
        Mistake(
            "That sends n bytes. In an all-reduce each rank sends 2 (R - 1) / R times as many.",
            _bandwidth(volume=lambda size: 1),
        ),
        Mistake(
            "That sends 2 n bytes. A rank sends 2 (R - 1) chunks, and a chunk has n / R.",
            _bandwidth(volume=lambda size: 2),
        ),
        Mistake("That is in bits. Asked for are bytes per second.", _bandwidth(unit=8)),
        Mistake("That is in Mbit/s. Asked for are bytes per second.", _bandwidth(unit=8e-6)),
        Mistake(
            "Turn it round: that is seconds per byte.",
            lambda arguments: [1 / w for w in _bandwidth()(arguments)],
        ),
    ),
    limits=(Limit("collectives", lambda arguments: 1, "Both times fit into one tensor."),),
    becomes="least_bandwidth",
)
