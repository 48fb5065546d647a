"""Two parts of a softmax, merged: a heart of lesson 20."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare, numbers
from labkit.exercises.lazy_torch import torch

HEADS, SIZE = 2, 4
HIGH = 1000.0
"""Added to all logarithms of weights: the weights themselves are beyond float64."""


def drawn(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Normal numbers in float64."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _two_parts(generator: torch.Generator, size: int) -> Arguments:
    """Per rank what two sets of keys gave: outputs, and logarithms that are nowhere close to each other."""
    n = int(torch.randint(3, 9, (), generator=generator))
    given = []
    for _ in range(size):
        apart = (1 + drawn(generator, HEADS, n).abs()) * (-1) ** torch.arange(n)
        log = HIGH + drawn(generator, HEADS, n)
        outs = drawn(generator, HEADS, n, SIZE), drawn(generator, HEADS, n, SIZE)
        given.append((outs[0], log, outs[1], log + apart))
    return given


def _together(out: torch.Tensor, log: torch.Tensor) -> torch.Tensor:
    """Output and logarithm as one tensor, the logarithm without what was added to it."""
    return torch.cat([out, log[..., None] - HIGH], -1)


def _both(function: Callable[..., Any], arguments: tuple) -> Any:
    result = function(*arguments)
    if isinstance(result, tuple) and len(result) == 2 and result[1].shape == arguments[1].shape:
        return _together(*result)
    return result


def _merged(share: Callable[..., Any], log: Callable[..., Any] | None = None) -> Values:
    """Per rank: `share` is the first part's, of both logarithms; `log` what becomes of them."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        found = []
        for out, own, other_out, other in arguments:
            weight = share(own, other)[..., None]
            found.append(
                _together(weight * out + (1 - weight) * other_out, (log or torch.logaddexp)(own, other))
            )
        return found

    return values


def _right_share(log: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (log - other).sigmoid()


def _judge_merge(answers: Answers) -> str:
    for rank, found in enumerate(answers.found):
        value = numbers(found)
        if value is not None and not torch.isfinite(value).all():
            return (
                f"rank {rank} got {value[~value.isfinite()][0].item()}\nexp(1000) is beyond float64: take "
                "exp of differences only, and torch.logaddexp."
            )
    return compare(
        _merged(_right_share),
        Mistake(
            "You took the mean of both. Who has more weight counts more: the shares are exp(log - both).",
            _merged(lambda log, other: torch.full_like(log, 0.5)),
        ),
        Mistake(
            "The output is right, and the logarithm is still that of the first part: the next merge would "
            "give this one too little.",
            _merged(_right_share, lambda log, other: log),
        ),
        Mistake(
            "The output is right. The logarithm of a sum is not the larger one: torch.logaddexp.",
            _merged(_right_share, lambda log, other: torch.maximum(log, other)),
        ),
        Mistake(
            "The shares are swapped: who has more weight got less.",
            _merged(lambda a, b: 1 - _right_share(a, b)),
        ),
        Mistake(
            "That is the output alone. Return the logarithm, too: the next merge needs it.",
            lambda arguments: [part[..., :-1] for part in _merged(_right_share)(arguments)],
        ),
        tolerance=1e-10,
    )(answers)


MERGE = Exercise(
    task="`out` is the attention of some queries to some keys, and `log` the logarithm of the sum of their "
    "weights, $\\ln Z$; `other_out` and `other_log` are the same for other keys. Return both for all these "
    "keys together: `(output, logarithm)`. `out` has one dimension more than `log`, at the end. The sums "
    "themselves are beyond float64.",
    stub="""\
def my_merge(out, log, other_out, other_log):
    ...  # your code
""",
    solution="""\
def my_merge(out, log, other_out, other_log):
    both = torch.logaddexp(log, other_log)
    share, other_share = (log - both).exp(), (other_log - both).exp()
    return share[..., None] * out + other_share[..., None] * other_out, both
""",
    why="Each output was divided by its own sum of weights, so it counts in proportion to that sum: "
    "exp(log - both). The differences are never above 0, so no exponential is too large.",
    hints=(
        "What was divided by Z_A is to be divided by Z_A + Z_B: multiply by Z_A / (Z_A + Z_B). What is that, "
        "written with logarithms?",
        "both = torch.logaddexp(log, other_log) is ln(Z_A + Z_B). The share of the first is "
        "(log - both).exp(), and [..., None] makes it fit the output.",
    ),
    given=_two_parts,
    use=_both,
    judge=_judge_merge,
    limits=(
        Limit("collectives", lambda arguments: 0, "Both parts are here: no other rank is needed."),
        Limit("messages", lambda arguments: 0, "Both parts are here: no other rank is needed."),
    ),
    becomes="merge",
)
