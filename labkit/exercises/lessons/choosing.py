"""Which all-reduce is the fastest, by the formulas: the heart of lesson 07."""

from __future__ import annotations

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.lazy_torch import torch

Cost = tuple[float, float]
"""Messages one after the other, and bytes one after the other in tensors."""


def _costs(ranks: int) -> dict[str, Cost]:
    power, rounds = 2 ** (ranks.bit_length() - 1), (ranks - 1).bit_length()
    more = 2 * (ranks > power)
    return {
        "ring": (2 * (ranks - 1), 2 * (ranks - 1) / ranks),
        "tree": (2 * rounds, 2 * rounds),
        "halving": (2 * (power.bit_length() - 1) + more, 2 * (power - 1) / power + more),
    }


def _case(generator: torch.Generator, size: int) -> Arguments:
    """The same on all ranks, and in each world a case in which another wrong choice is wrong."""
    alpha = 1e-6 * int(torch.randint(10, 60, (), generator=generator))
    beta = 1e-10 * int(torch.randint(2, 9, (), generator=generator))
    ranks, kind = {2: (100, "large"), 3: (128, "small"), 4: (7, "small")}[size]
    n = (4 if kind == "small" else 500_000_000) * int(torch.randint(1, 9, (), generator=generator))
    return [(ranks, n, alpha, beta)] * size


def _seconds(case: tuple) -> dict[str, float]:
    ranks, n, alpha, beta = case
    return {name: m * alpha + v * n * beta for name, (m, v) in _costs(ranks).items()}


def _judged(answers: Answers) -> str:
    """Right if every rank names the fastest; else the times of both are said."""
    seconds = _seconds(answers.arguments[0])
    right = min(seconds, key=seconds.__getitem__)
    wrong = [rank for rank, found in enumerate(answers.found) if found != right]
    if not wrong:
        return ""
    found, (ranks, n, alpha, beta) = answers.found[wrong[0]], answers.arguments[0]
    where = f"rank {wrong[0]} is wrong for R = {ranks}, n = {n:,}, alpha = {1e6 * alpha:.0f} us, "
    where += f"{8e-9 / beta:.0f} Gbit/s"
    if found is None:
        return f"{where}\nNothing came back: a function without `return` returns None."
    if found not in seconds:
        return f"{where}\nIt returned {found!r}. Return 'ring', 'tree' or 'halving'."
    message = (
        f"{where}: it says {found}, which takes {seconds[found]:.3g} s; {right} takes {seconds[right]:.3g}"
    )
    if found == "halving" and ranks & (ranks - 1):
        return f"{message}\n{ranks} is no power of two: two more steps of the whole tensor."
    if found == "tree" and not ranks & (ranks - 1):
        return f"{message}\nThe tree sends the whole tensor in each of its steps; halving takes as many."
    if found == "ring":
        return f"{message}\nThe ring has 2(R - 1) steps, and each has its latency."
    return f"{message}\nIn each of its steps the tree sends the whole tensor."


FASTEST = Exercise(
    task="Which of the three is the fastest, by the formulas of the derivation, for `R` ranks and `n` bytes? "
    "`R` may be any number from 2 on. Return its name. The ranks do not know `costs`, which lives in the "
    "notebook: write the three formulas out in your function. It needs no message.",
    stub="""\
def my_fastest(R, n, alpha, beta):  # returns "ring", "tree" or "halving"
    ...  # your code
""",
    solution="""\
def my_fastest(R, n, alpha, beta):
    P, rounds = 2 ** (R.bit_length() - 1), (R - 1).bit_length()
    more = 2 * (alpha + n * beta) if R > P else 0
    times = {
        "ring": 2 * (R - 1) * alpha + 2 * (R - 1) / R * n * beta,
        "tree": 2 * rounds * (alpha + n * beta),
        "halving": 2 * (P.bit_length() - 1) * alpha + 2 * (P - 1) / P * n * beta + more,
    }
    return min(times, key=times.get)
""",
    why="Three formulas and a minimum: libraries do no more, with alphas and betas that they have measured. "
    "Only where R is no power of two must one look twice, for halving and doubling pays two whole tensors "
    "there.",
    hints=(
        "Put the three times into a dict by name. min(times, key=times.get) is the name of the smallest.",
        "Import what you need inside the function: of `math`, ceil(log2(R)) is log2 R rounded up, and "
        "2 ** int(log2(R)) is P.",
    ),
    given=_case,
    judge=_judged,
    limits=(Limit("collectives", lambda arguments: 0, "Each rank can compute that alone."),),
    becomes="fastest",
)
