"""Meet the ranks."""

from __future__ import annotations

import math

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    questions,
)
from labkit.exercises.judge import close, numbers, show
from labkit.exercises.lazy_torch import torch
from labkit.rank.wording import ranks


def _powers(generator: torch.Generator, size: int) -> Arguments:
    """Powers of two in any order, which do not share out evenly: a sum says which of them were added.

    Two ranks get a long list, three get one shorter than the world, and four one of which chunk(4) makes
    three pieces.
    """
    lengths = {2: (33, 35, 37, 39, 41, 43), 3: (2,), 4: (5, 6, 9)}[size]
    n = lengths[int(torch.randint(len(lengths), (), generator=generator))]
    shuffled = [2**k for k in torch.randperm(n, generator=generator).tolist()]
    return [(list(shuffled),) for _ in range(size)]


def _shares(answers: Answers) -> str:
    given = answers.arguments[0][0]
    for rank, sum_ in enumerate(answers.found):
        value = numbers(sum_)
        if value is None or value.numel() != 1 or value.item() % 1 or not 0 <= value.item() < 2 ** len(given):
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
)


def _darts(generator: torch.Generator, size: int) -> Arguments:
    return [(int(torch.randint(80_000, 120_000, (), generator=generator)),)] * size


def _why_not_pi(estimate: object, size: int) -> str:
    if close(estimate, math.pi / 4, 0.05):
        return "\nA quarter of the circle is a quarter of pi."
    if close(estimate, size * math.pi, 0.05):
        return f"\nThat is {size} times pi: divide this rank's hits by all the darts that it threw."
    return ""


def _estimates(answers: Answers) -> str:
    allowed = 6 * 4 * math.sqrt(math.pi / 4 * (1 - math.pi / 4) / answers.arguments[0][0])
    for rank, estimate in enumerate(answers.found):
        if close(estimate, math.pi, allowed / math.pi):
            continue
        expected = f"rank {rank} is wrong\n  expected 3.1416, give or take {allowed:.2f}\n"
        return f"{expected}  got      {show(estimate)}{_why_not_pi(estimate, answers.size)}"
    different = len({numbers(estimate).item() for estimate in answers.found})
    if different < answers.size - 1:
        return (
            f"{answers.size} ranks have only {different} different estimate{'s' * (different > 1)}\n"
            "Ranks that start from one seed throw the same darts: as much work, and no more known."
        )
    return ""


ESTIMATE_PI = Exercise(
    task="The share of random points in the unit square with $x^2 + y^2 < 1$ estimates $\\pi/4$. Return "
    "this rank's own estimate of $\\pi$ from `darts` random points. Each rank must throw different points. "
    "Use one tensor, not a loop over darts: time is limited.",
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
    judge=_estimates,
    limits=(
        Limit("messages", lambda a: 0, "Each rank works alone here: the notebook averages."),
        Limit("collectives", lambda a: 0, "Each rank works alone here: the notebook averages."),
        Limit("time", lambda a: 12, "A loop in Python is slow: let one tensor hold all the darts."),
    ),
    sizes=(4,),
)

LESSON = Lesson(
    "00",
    "Meet the ranks",
    predictions=(Prediction("turns", "T"),),
    exercises=(MY_SUM, ESTIMATE_PI),
    questions=questions("00"),
)
