"""Lesson 00, Meet the ranks: its prediction, exercises and questions."""

from __future__ import annotations

import math
from collections.abc import Callable
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
    questions,
)
from labkit.exercises.judge import close, numbers, show
from labkit.exercises.lazy_torch import torch
from labkit.rank.wording import ranks


def _powers(generator: torch.Generator, size: int) -> Arguments:
    """Powers of two in any order, which do not share out evenly: a sum says which of them were added.

    Two ranks get more than float32 can hold, three get a few, and four get a list of which chunk(4) makes
    fewer pieces, and of which the last rank has too many if the rest is its own.
    """
    lengths = {2: (33, 35, 37, 39, 41, 43), 3: (7, 8, 10, 11), 4: (2, 3, 6)}[size]
    n = lengths[int(torch.randint(len(lengths), (), generator=generator))]
    shuffled = [2**k for k in torch.randperm(50, generator=generator)[:n].tolist()]
    return [(list(shuffled),) for _ in range(size)]


def _shares(answers: Answers) -> str:
    given = answers.arguments[0][0]
    for rank, sum_ in enumerate(answers.found):
        value = numbers(sum_)
        if value is None or value.numel() != 1 or value.item() % 1 or int(value) & ~sum(given):
            return f"rank {rank} is wrong\n  got {sum_!r}, which is no sum of the numbers"
    taken = [[r for r, sum_ in enumerate(answers.found) if int(sum_) & number] for number in given]
    for place, who in enumerate(taken):
        if not who:
            return f"nobody took numbers[{place}]\n  there are {len(given)} numbers: none may be left over"
        if len(who) > 1:
            return f"{ranks(who)} took numbers[{place}]\n  what two ranks add counts twice in the end"
    fair = math.ceil(len(given) / answers.size)
    for rank in range(answers.size):
        took = sum(who == [rank] for who in taken)
        if took > fair:
            return (
                f"the total is right, but over budget: rank {rank} took {took} of {len(given)} numbers, "
                f"limit {fair}\nThe others wait for it: share the numbers out evenly."
            )
    return ""


MY_SUM = Exercise(
    task="Together, the ranks add up a list of any length. Return the sum of this rank's share: every "
    "number is in exactly one share, and no share is larger than it must be.",
    stub="""\
def my_sum(numbers):  # a list, the same on every rank
    ...  # your code: it knows rank and world_size
""",
    solution="""\
def my_sum(numbers):
    return sum(numbers[rank::world_size])
""",
    why="Rank 0 takes every world_size-th number from the first on, rank 1 from the second on. "
    "Nothing is left over, whatever the length.",
    hints=(
        "Ten numbers, four ranks: how many has the rank with the most, at least? Which ranks have one less?",
        "Deal the numbers out like cards: who gets the first, the second, the fifth? A slice "
        "numbers[start::step] takes every step-th. (A tensor's chunk(world_size) may give fewer pieces than "
        "ranks.)",
    ),
    given=_powers,
    judge=_shares,
    wrong=(
        body("return sum(numbers)", says="ranks 0-1 took numbers[0]"),
        body("n = len(numbers) // world_size\nreturn sum(numbers[rank * n : (rank + 1) * n])",
             says="nobody took numbers["),
        edit("rank::", "rank + 1 :: ", says="nobody took numbers[0]"),
        body("return sum(numbers) if rank == 0 else 0",
             says="the total is right, but over budget: rank 0 took"),
        edit("::world_size", "::4", says="in a world of 2, nobody took numbers[2]"),
        edit("world_size]", "2 * (world_size // 2)]", says="in a world of 3, ranks 0, 2 took numbers[2]"),
        edit("world_size])", "world_size]) / len(numbers)", says="no sum of the numbers"),
        body("return torch.tensor(numbers).chunk(world_size)[rank].sum().item()",
             says="in a world of 4, rank 3: IndexError"),
        body("""\
n = len(numbers) // world_size
end = None if rank == world_size - 1 else (rank + 1) * n
return sum(numbers[rank * n : end])""", says="the total is right, but over budget: rank"),
        body("return len(numbers)", says="in a world of 2, "),
        body("""\
mine = torch.tensor([float(sum(numbers[rank::world_size]))], dtype=torch.float64)
dist.all_reduce(mine)
return mine.item()""", says="ranks 0-1 took numbers[0]\n  what two ranks add counts twice"),
        body("return torch.tensor(numbers, dtype=torch.float32)[rank::world_size].sum()", says="in a world of 2, "),
    ),
)  # fmt: skip


def _darts(generator: torch.Generator, size: int) -> Arguments:
    """Numbers that 2, 3, 5 and 7 leave 1 over of: the share of fewer darts is no share of so many."""
    return [(210 * int(torch.randint(400, 570, (), generator=generator)) + 1,)] * size


def _twice(estimate_pi: Callable[..., Any], arguments: tuple) -> list:
    """Two estimates, from the seed that a lab gives to the rank: an earlier answer may have set another."""
    from labkit.rank.world import seed

    seed()
    return [estimate_pi(*arguments) for _ in range(2)]


def _why_not_pi(estimate: object, size: int) -> str:
    if close(estimate, math.pi / 4, 0.05):
        return "\nA quarter of the circle is a quarter of pi."
    if close(estimate, size * math.pi, 0.05):
        return f"\nThat is {size} times pi: divide this rank's hits by all the darts that it threw."
    return ""


def _estimates(answers: Answers) -> str:
    """Each rank has two estimates: who has thrown other darts may hit as often once, and hardly twice."""
    darts = answers.arguments[0][0]
    allowed = 6 * 4 * math.sqrt(math.pi / 4 * (1 - math.pi / 4) / darts)
    for rank, both in enumerate(answers.found):
        for estimate in both:
            if not close(estimate, math.pi, allowed / math.pi):
                expected = f"rank {rank} is wrong\n  expected 3.1416, give or take {allowed:.2f}\n"
                return f"{expected}  got      {show(estimate)}{_why_not_pi(estimate, answers.size)}"
    hits = [tuple(darts * numbers(estimate).item() / 4 for estimate in both) for both in answers.found]
    different = len(set(hits))
    if different < answers.size:
        return (
            f"{answers.size} ranks have only {different} different estimate{'s' * (different > 1)}\n"
            "Ranks that start from one seed throw the same darts: as much work, and no more known."
        )
    for rank, both in enumerate(hits):
        if any(abs(count - round(count)) > 0.02 for count in both):
            return (
                f"rank {rank} is wrong\n  it would have hit {max(both, key=lambda n: abs(n - round(n))):.2f} times\n"
                f"No {darts} darts give that: return four times the hits, divided by the darts."
            )
    return ""


ESTIMATE_PI = Exercise(
    task="The share of random points in the unit square with $x^2 + y^2 < 1$ estimates $\\pi/4$. Return "
    "this rank's own estimate of $\\pi$ from `darts` random points. Each rank must throw different points, "
    "and needs no message. Use one tensor, not a loop over darts: 12 times the processor time of labkit's "
    "solution is the limit.",
    stub="""\
def estimate_pi(darts):  # how many points this rank throws
    ...  # your code: four times the share of hits
""",
    solution="""\
def estimate_pi(darts):
    hits = torch.rand(darts, 2).square().sum(dim=1) < 1
    return 4 * hits.double().mean().item()
""",
    why="The lab gives every rank a seed of its own, so every rank throws other darts. With "
    "torch.manual_seed(0) in front, four ranks would buy no more than one.",
    hints=(
        "torch.rand(darts, 2).square().sum(dim=1) < 1 says which points hit.",
        "The share of hits is .double().mean().item() of that.",
    ),
    given=_darts,
    use=_twice,
    calls=2,
    judge=_estimates,
    limits=(
        Limit("messages", lambda arguments: 0, "Each rank works alone here: an average comes later."),
        Limit("collectives", lambda arguments: 0, "Each rank works alone here: an average comes later."),
        Limit("time", lambda arguments: 12, "A loop in Python is slow: let one tensor hold all the darts."),
    ),
    sizes=(4,),
    wrong=(
        edit("4 * ", "", says="A quarter of the circle is a quarter of pi"),
        edit("hits =", "torch.manual_seed(0)\n    hits =", says="4 ranks have only 1 different estimate\n"),
        edit("hits =", "torch.manual_seed(min(rank, 2))\n    hits =", says="4 ranks have only 3 different estimates\n"),
        edit("4 * hits.double().mean().item()", "pi.item() / world_size",
             "< 1", "< 1\n    pi = 4 * hits.double().mean()\n    dist.all_reduce(pi)",
             says="4 ranks have only 1 different estimate\n"),
        edit("hits.double().mean().item()", "hits.sum().item() / (darts / world_size)",
             says="That is 4 times pi: divide this rank's hits by all the darts that it threw"),
        edit("hits.double().mean().item()", "hits.item() / darts", "< 1", "< 1\n    hits = hits.sum()\n    dist.all_reduce(hits)",
             says="That is 4 times pi: divide this rank's hits by all the darts that it threw"),
        body("""\
import random
hits = sum(random.random() ** 2 + random.random() ** 2 < 1 for _ in range(darts))
return 4 * hits / darts""", says="every rank is right, but over budget: processor time over the solution's"),
        edit("    return", "    dist.barrier()\n    return", says="over budget: collective calls on each rank 1, limit 0"),
        body("import math\nreturn math.pi", says="4 ranks have only 1 different estimate\n"),
        body("return 3.1416 + (torch.rand(()).item() - 0.5) / 100", says="it would have hit"),
        edit("rand(darts", "rand(darts // 10", says="darts give that: return four times the hits"),
        edit("double", "half", says="darts give that: return four times the hits"),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="00",
    title="Meet the ranks",
    predictions=(Prediction("turns", "T"),),
    exercises=(MY_SUM, ESTIMATE_PI),
    questions=questions("00"),
)
