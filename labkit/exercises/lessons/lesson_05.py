"""Lesson 05, When does it pay?: its prediction, exercises and questions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    body,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution, numbers
from labkit.exercises.lazy_torch import torch
from labkit.rank.wording import ranks


def _measured(generator: torch.Generator, size: int) -> Arguments:
    """The bytes of the gradients, and what each rank's stopwatch showed of computing and of the overhead.

    No two ranks' times are alike, so that the longest is neither the mean nor the shortest. The rank that
    computes longest has the shortest overhead: no rank's own bandwidth is that of the longest, or shortest, of
    both.
    """
    n = 1000 * int(torch.randint(500, 5000, (), generator=generator))
    order = torch.randperm(size, generator=generator)

    def times(order: torch.Tensor) -> list[float]:
        apart = order + torch.rand(size, generator=generator) / 2
        return (1 + apart.double() / size).tolist()

    t_comp, overhead = [0.05 * t for t in times(order)], [0.01 * t for t in times(size - 1 - order)]
    return [(n, *mine) for mine in zip(t_comp, overhead, strict=True)]


FORMULA = "2 * (R - 1) / R * n / ((R - 1) * t_comp - overhead)"
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
    judge=like_solution(),
    limits=(Limit("collectives", lambda arguments: 1, "Both times fit into one tensor."),),
    wrong=(
        body(f"R = world_size\nreturn {FORMULA}",
             says="Each rank believes its own stopwatch. Without a message between them they cannot agree."),
        body(f"R = world_size\nW = torch.tensor({FORMULA})\ndist.all_reduce(W, op=dist.ReduceOp.MAX)\nreturn W",
             says="You took the largest of the ranks' bandwidths. Take the longest times first, then one bandwidth."),
        edit("MAX", "AVG", says="That is with the mean of the times. A step lasts until the slowest is done."),
        edit("MAX", "MIN", says="That is with the shortest of the times. A step lasts until the slowest is done."),
        edit("MAX", "SUM",
             says="That is with the sum of the times, and the ranks computed at the same time: take the longest."),
        edit(" - overhead)", ")", says="The overhead is missing: the bytes get only what it leaves of the time."),
        edit(" - overhead)", " + overhead)",
             says="The overhead is added. It leaves the bytes less time, not more: subtract it."),
        edit("(R - 1) * t_comp", "R * t_comp",
             says="That is with R T_comp. The first rank computes its own share; what the R - 1 others compute "
             "must pay for T_sync."),
        edit("(R - 1) * t_comp", "t_comp", says="R - 1 is missing before T_comp: each of the others saves you a T_comp."),
        edit("2 * (R - 1) / R * n", "n",
             says="That sends n bytes. In an all-reduce each rank sends 2 (R - 1) / R times as many."),
        edit("2 * (R - 1) / R * n", "2 * n",
             says="That sends 2 n bytes. A rank sends 2 (R - 1) chunks, and a chunk has n / R."),
        edit("return 2", "return 8 * 2", says="That is in bits. Asked for are bytes per second."),
        edit("return 2", "return 8e-6 * 2", says="That is in Mbit/s. Asked for are bytes per second."),
        edit(FORMULA, f"1 / ({FORMULA})", says="Turn it round: that is seconds per byte."),
        edit("dist.all_reduce(longest, op=dist.ReduceOp.MAX)\n",
             "times = longest.clone()\n    dist.all_reduce(longest, op=dist.ReduceOp.MAX)\n"
             "    dist.all_reduce(times)\n", says="Both times fit into one tensor."),
        edit("    dist.all", "    if rank == 0:\n        dist.all", hangs=True,
             says="deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce"),
    ),
    becomes="least_bandwidth",
)  # fmt: skip


CALLS = 3
"""Of which the shortest counts: a rank that waits for a core makes a stopwatch show more, never less."""


@dataclass
class Planted:
    """A device that computes, or a network that sums, for so many seconds; how often it was called."""

    _seconds: float
    _meets: bool
    calls: int = 0

    def __call__(self) -> None:
        self.calls += 1
        if self._meets:
            torch.distributed.all_reduce(torch.zeros(1))
        time.sleep(self._seconds)


def _one_is_late(generator: torch.Generator, size: int) -> Arguments:
    """Times that are drawn anew: one rank computes much longer, and all synchronise for as long.

    In no two worlds is that as long: a number that is written down is wrong in one of them.
    """
    late = int(torch.randint(size, (), generator=generator))
    compute, more, sync = torch.rand(3, generator=generator).tolist()
    seconds = {2: 0.1, 3: 0.3, 4: 0.17}[size] * (1 + sync / 8)
    times = [0.02 + 0.04 * compute + (0.3 + 0.05 * more) * (rank == late) for rank in range(size)]
    return [(Planted(own, False), Planted(seconds, True)) for own in times]


def _shortest(sync_seconds: Callable[..., Any], arguments: tuple) -> Any:
    """What the stopwatch shows at its best; what is no number, as it is."""
    shown = [sync_seconds(*arguments) for _ in range(CALLS)]
    found = [numbers(value) for value in shown]
    if any(number is None or number.numel() != 1 for number in found):
        return shown[0]
    return min(number.item() for number in found)


def _judge_of_seconds(answers: Answers) -> str:
    """What is wrong with the stopwatches, and which of the known mistakes shows their times."""
    seconds = [[planted._seconds for planted in given[:2]] for given in answers.arguments]
    sync, last = seconds[0][1], max(compute for compute, _ in seconds)
    shown = [answers.found[rank]["seconds"] for rank in range(answers.size)]
    found = [numbers(value) for value in shown]
    wrong = [r for r, x in enumerate(found) if x is None or x.numel() != 1 or not 0.9 < x / sync < 1.4]
    for name in ("compute", "sync"):
        counts = [answers.found[rank][name] / CALLS for rank in range(answers.size)]
        if any(count != 1 for count in counts):
            return f"{ranks([r for r, c in enumerate(counts) if c != 1])} called {name}() {counts[0]:g} times: once"
    if not wrong:
        return ""
    lines = [f"{ranks(wrong)} {'is' if len(wrong) == 1 else 'are'} wrong"]
    if any(found[r] is None for r in wrong):
        return f"{lines[0]}\nNothing came back: a function without `return` returns None."
    lines.append(
        f"  rank {wrong[0]} shows {1e3 * found[wrong[0]].item():.0f} ms, and it took {1e3 * sync:.0f} ms"
    )
    waits = [last - compute + sync for compute, _ in seconds]
    known = {
        "Computing is in that number, that of the slowest rank: only the synchronisation was asked for.": [
            last + sync
        ]
        * answers.size,
        "On a rank that comes early the stopwatch runs while it waits for the rank that computes longest: "
        "that wait is in its number.": waits,
        "That is the mean of the ranks' stopwatches, and most of those ran while their rank waited.": [
            sum(waits) / answers.size
        ]
        * answers.size,
    }
    fits = [s for s, times in known.items() if all(0.9 < found[r] / times[r] < 1.25 for r in wrong)]
    if len(wrong) < answers.size:  # of the rank that computes longest it would be in the number as well
        fits = [s for s in fits if not s.startswith("Computing")]
    if found[waits.index(min(waits))] < sync / 4:
        fits = ["The synchronisation itself is missing: sync() belongs between start and end."]
    elif len({x.item() for x in found}) == 1 and not fits:
        fits = ["It is the same number whatever the ranks do: read the clock before and after sync()."]
    return "\n".join([*lines, *fits[:1]])


STOPWATCH = """\
def sync_seconds(compute, sync):
    from time import perf_counter
    compute()
    dist.barrier()
    start = perf_counter()
    sync()
    return perf_counter() - start
"""
EARLY = "On a rank that comes early the stopwatch runs while it waits for the rank that computes longest"
SYNC_SECONDS = Exercise(
    task="A step computes, then synchronises. This program is meant to measure, on every rank, how long the "
    "synchronisation takes: from the moment when the last rank has arrived until the sum is there. But when "
    "one rank computes longer than the others, the program blames the network for it. It runs without an "
    "error. **Find the bug and mend it**, with at most two collective calls, that of `sync` included. Call "
    "`compute` and `sync` once each.",
    stub=edited(STOPWATCH, "sync_seconds(compute, sync):",
                "sync_seconds(compute, sync):  # two functions without arguments", "    dist.barrier()\n", ""),
    solution=STOPWATCH,
    why="A rank that has computed less comes early, and waits in the all-reduce: that is no property of the "
    "network. After a barrier no stopwatch starts before the last rank has come.",
    hints=(
        "Draw it: one rank computes for 40 ms, the others for 2. When does each stopwatch start? When can "
        "the all-reduce begin?",
        "Nobody may start a stopwatch before all have computed. Which call does nothing but wait for all?",
    ),
    given=_one_is_late,
    use=_shortest,
    calls=CALLS,
    answer=lambda arguments, result: {
        "seconds": result, "compute": arguments[0].calls, "sync": arguments[1].calls
    },
    judge=_judge_of_seconds,
    limits=(Limit("collectives", lambda arguments: 2, "It is enough that all meet once."),),
    wrong=(
        edit("    dist.barrier()\n", "    dist.get_rank()\n", says=EARLY),
        edit("    compute()\n    dist.barrier()", "    dist.barrier()\n    compute()", says=EARLY),
        edit("    dist.barrier()\n", "", "    sync()", "    dist.barrier()\n    sync()", says=EARLY),
        edit("    compute()\n", "", "    sync()", "    compute()\n    sync()", says="Computing is in that number"),
        edit("    dist.barrier()\n", "", "return perf_counter() - start", "x = torch.tensor(perf_counter() - start)\n"
             "    dist.all_reduce(x, op=dist.ReduceOp.MAX)\n    return x", says="wrong"),
        edit("    dist.barrier()\n", "", "return perf_counter() - start", "x = torch.tensor(perf_counter() - start)\n"
             "    dist.all_reduce(x)\n    return x / world_size",
             says="That is the mean of the ranks' stopwatches, and most of those ran while their rank waited."),
        edit("    dist.barrier()\n", "", "    sync()\n    return", "    dist.barrier()\n    seen =", "- start\n",
             "- start\n    sync()\n    return seen\n", says="The synchronisation itself is missing"),
        edit("    dist.barrier()", "    sync()", "    sync()\n    return", "    return",
             says="The synchronisation itself is missing"),
        edit("    compute", "    dist.barrier()\n    compute", says="It is enough that all meet once."),
        edit("    dist.barrier()", "    if rank > 0:\n        dist.barrier()", says="in a world of 2, "),
        edit("return perf_counter() - start", "start = perf_counter() - start", says="Nothing came back"),
        body("compute()\nsync()\nreturn 0.2", says=" wrong"),
        body("return 0.2", says="called compute() 0 times: once"),
        edit("    dist.barrier()", "    sync()", says="called sync() 2 times: once"),
        edit("    sync()\n    return perf_counter() - start", "    for _ in range(2):\n        sync()\n"
             "    return (perf_counter() - start) / 2", says="called sync() 2 times: once"),
    ),
)  # fmt: skip


def _speeds(generator: torch.Generator, size: int) -> Arguments:
    """Seconds per sample, another number on each rank; and a batch, the same on all."""
    times = 1e-3 * (1 + torch.randperm(4, generator=generator)[:size] + torch.rand((), generator=generator))
    batch = 10 * int(torch.randint(5, 100, (), generator=generator))
    return [(t, batch) for t in times.tolist()]


_NOT_THE_SPEED = (
    "That goes with 1 - t / (sum of all t), which is right for two ranks only. A rank that takes twice as "
    "long must do half as many samples: its part goes with 1 / t."
)
FAIR_SHARE = Exercise(
    task="A sample takes `t` seconds on this rank, and another time on every other. Deal `batch` samples so "
    "that all ranks finish together: return this rank's part, with one collective call. Don't round it.",
    stub="""\
def fair_share(t, batch):  # `batch` is the same number on every rank
    ...  # your code
""",
    solution="""\
def fair_share(t, batch):
    speeds = torch.tensor(1 / t, device=device)
    dist.all_reduce(speeds)
    return batch / t / speeds.item()
""",
    why="All finish together after the time batch / (sum of the speeds). In it each rank does that time over "
    "its own t: the faster it is, the more. Then nobody waits in the all-reduce. The mean of the gradients "
    "must be weighted then, as in lesson 03.",
    hints=(
        "How many samples per second does a rank do? And all of them together?",
        "A rank's part of the batch is its part of the speed: 1 / t over the sum of 1 / t on all ranks.",
    ),
    given=_speeds,
    judge=like_solution(),
    limits=(Limit("collectives", lambda arguments: 1, "One sum over all ranks is enough: of what?"),),
    wrong=(
        body("return batch / world_size",
             says="That is an equal part for each. The slowest rank finishes last, and all others wait for it."),
        edit("1 / t,", "t,", "batch / t /", "batch * t /",
             says="That is in proportion to t, so the slowest rank has the most to do. Turn it round: 1 / t is a speed."),
        edit("1 / t,", "t,", "batch / t / speeds.item()", "batch * (1 - t / speeds)", says=_NOT_THE_SPEED),
        edit("1 / t,", "t,", "batch / t / speeds.item()", "batch * (1 - t / speeds) / max(2, world_size - 1)",
             says=_NOT_THE_SPEED),
        edit("return batch", "return 1", says="That is a fraction, and the fractions add up to 1. Multiply by batch."),
        edit("/ speeds.item()", "/ (speeds.item() / world_size)",
             says="You divide by the mean of the speeds, so together the ranks take R times the batch. "
             "Divide by their sum."),
        edit("speeds.item()", "speeds.item() / world_size",
             says="You divide once too often: together the ranks take batch / R samples."),
        body("return batch", says="Every rank takes the whole batch: what the others can do did not come here."),
        edit("return batch / t / speeds.item()", "return round(batch / t / speeds.item())",
             says="That is rounded, and then the parts need not add up to the batch. Return the fraction."),
        edit("dist.all_reduce(speeds)", "dist.reduce(speeds, dst=0)", says="in a world of 2, rank 1 is wrong"),
        edit("    dist.all", "    times = [torch.zeros(1) for _ in range(world_size)]\n"
             "    dist.all_gather(times, torch.tensor([t]))\n    dist.all",
             says="One sum over all ranks is enough: of what?"),
        edit("    dist.all", "    if rank > 0:\n        dist.all", hangs=True,
             says="deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce"),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="05",
    title="When does it pay?",
    predictions=(Prediction("speed_up", "times as fast"),),
    exercises=(LEAST_BANDWIDTH, SYNC_SECONDS, FAIR_SHARE),
    questions=questions("05"),
)
