"""The cheapest plan that keeps to a budget: an exercise of lesson 25."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.lazy_torch import torch

Plan = tuple[int, float, float]
"""Devices, seconds of a step, bytes of a device."""
_PLANS: tuple[Plan, ...] = (
    (4, 1.5, 60),  # the cheapest, and too large
    (2, 3.5, 30),  # the fewest devices, and too slow
    (8, 1.2, 35),  # the cheapest that keeps to both
    (16, 0.7, 20),  # the fastest, and the least memory
    (6, 1.9, 38),  # the fewest devices that keep to both
)
SECONDS, MEMORY, NO_MEMORY = 2.0, 40, 10


def _given(generator: torch.Generator, size: int) -> Arguments:
    """In the order of the ranks the same; in worlds of three nothing keeps to the budget."""
    slower, larger = (1 + torch.rand(2, generator=generator, dtype=torch.float64)).tolist()
    order = torch.randperm(len(_PLANS), generator=generator).tolist()
    plans = [(d, slower * s, larger * 1e9 * m) for d, s, m in (_PLANS[place] for place in order)]
    memory = NO_MEMORY if size == 3 else MEMORY
    return [(plans, slower * SECONDS, larger * 1e9 * memory)] * size


def _choice(
    plans: list[Plan], seconds: float, memory: float, by: Callable[[Plan], float] = lambda p: p[0] * p[1]
) -> int:
    fit = [place for place, (_, s, m) in enumerate(plans) if s <= seconds and m <= memory]
    return min(fit, key=lambda place: by(plans[place]), default=-1)


def _judged(answers: Answers) -> str:
    """Right if every rank names the cheapest; else what is wrong with the plan that is named."""
    plans, seconds, memory = answers.arguments[0]
    right = _choice(plans, seconds, memory)
    wrong = [rank for rank, found in enumerate(answers.found) if type(found) is not int or found != right]
    if not wrong:
        return ""
    where, found = f"rank {wrong[0]} is wrong: ", answers.found[wrong[0]]
    if found is None:
        return f"{where}nothing came back: a function without `return` returns None."
    if type(found) is not int or not -1 <= found < len(plans):
        return f"{where}it returned {found!r}. Return a place in the list, from 0 on, or -1."
    if found == -1:
        return f"{where}it says that none keeps to the budget; that in place {right} does."
    (d, s, m), told = plans[found], f"{where}place {found} "
    if m > memory:
        return f"{told}does not fit: {m / 1e9:.0f} GB of {memory / 1e9:.0f}."
    if s > seconds:
        return f"{told}is too slow: {s:.2g} s of {seconds:.2g}."
    cost, least = d * s, plans[right][0] * plans[right][1]
    return f"{told}costs {cost:.3g} device-seconds a step, that in place {right} {least:.3g}."


CHEAPEST = Exercise(
    task="`plans` is a list of (devices, seconds of a step, bytes of a device). You pay for each device and "
    "second. Return the place in the list of the cheapest plan whose step takes at most `seconds` and "
    "needs at most `memory` bytes, or -1 if there is none.",
    stub="""\
def cheapest(plans, seconds, memory):
    ...  # your code
""",
    solution="""\
def cheapest(plans, seconds, memory):
    fit = [i for i, (_, s, m) in enumerate(plans) if s <= seconds and m <= memory]
    return min(fit, key=lambda i: plans[i][0] * plans[i][1], default=-1)
""",
    why="Reject first, then rank: a plan that does not fit has no price. The cheapest is as a rule neither "
    "the fastest nor the one with the fewest devices: more devices than can be kept busy cost more for each "
    "sample.",
    hints=(
        "Two steps: the places of all plans that keep to both limits; of those the least product.",
        "min(places, key=..., default=-1) is -1 where no place is left.",
    ),
    given=_given,
    judge=_judged,
    limits=(Limit("collectives", lambda arguments: 0, "Each rank can choose alone."),),
)
