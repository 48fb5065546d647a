"""The largest numbers of a gradient, and what is kept of the rest: the find-the-bug of lesson 14."""

from __future__ import annotations

from typing import Any

from labkit.exercises.describe import Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch

NUMBERS, K = 60, 4

_GATHER = """\
    every_place = [torch.empty_like(places) for _ in range(dist.get_world_size())]
    every_value = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(every_place, places)
    dist.all_gather(every_value, values)
    total = torch.zeros_like(gradient)
    total.index_add_(0, torch.cat(every_place), torch.cat(every_value))
    return total / dist.get_world_size()
"""


def _given(generator: torch.Generator, size: int) -> Arguments:
    """A gradient, and a residual whose largest numbers lie elsewhere and change what is sent."""
    given = []
    for _ in range(size):
        gradient, residual = torch.randn(2, NUMBERS, generator=generator)
        residual[gradient.abs().argsort()[: 2 * K]] *= 9
        given.append((gradient, residual, K))
    return given


def _sent(
    arguments: Arguments, chosen_with: float = 1, sent_with: float = 1, kept: bool = True, divide: bool = True
) -> list[torch.Tensor]:
    """Per rank the mean, and behind it the residual: chosen and sent with so much of the old residual."""
    total, residuals = torch.zeros(NUMBERS), []
    for gradient, residual, k in arguments:
        places = (gradient + chosen_with * residual).abs().topk(k).indices
        total[places] += (gradient + sent_with * residual)[places]
        left = gradient + residual
        left[places] *= not kept
        residuals.append(left)
    mean = total / len(arguments) if divide else total
    return [torch.cat([mean, residual]) for residual in residuals]


def _answer(arguments: tuple, result: Any) -> Any:
    if not torch.is_tensor(result) or result.shape != (NUMBERS,):
        return result
    return torch.cat([result, arguments[1]])


TOP_K = Exercise(
    task="Each rank sends only the `k` numbers of its gradient that are largest, with their places; what it "
    "does not send it shall keep in `residual`, and send later. The program returns the mean over the ranks, "
    "and changes `residual` in place. It runs without an error, and trains no better than without a "
    "residual. **Find the bug and mend it**, with at most two collective calls.",
    stub="""\
def top_k_mean(gradient, residual, k):
    places = gradient.abs().topk(k).indices
    values = gradient[places]
    residual += gradient
    residual[places] = 0
"""
    + _GATHER,
    solution="""\
def top_k_mean(gradient, residual, k):
    residual += gradient
    places = residual.abs().topk(k).indices
    values = residual[places]
    residual[places] = 0
"""
    + _GATHER,
    why="The residual was filled and never sent: what is sent came from the new gradient alone, and setting "
    "residual[places] to 0 threw away what had been kept there. Choose and send from the sum of both. Then "
    "what was sent and what is left always add up to all gradients there were.",
    hints=(
        "Follow one number of the gradient that is small, but has the same sign in each step. When is "
        "it sent?",
        "Add first, then choose: the largest of residual + gradient, and send those.",
    ),
    given=_given,
    answer=_answer,
    judge=compare(
        _sent,
        Mistake(
            "What is kept is never sent: the numbers that travel come from the new gradient alone.",
            lambda arguments: _sent(arguments, chosen_with=0, sent_with=0),
        ),
        Mistake(
            "The places are chosen by the new gradient alone, so a number that is always small never "
            "travels.",
            lambda arguments: _sent(arguments, chosen_with=0),
        ),
        Mistake(
            "The places are right, but the numbers sent are the new gradient's: what was kept there is lost.",
            lambda arguments: _sent(arguments, sent_with=0),
        ),
        Mistake(
            "What was sent stays in the residual, too, and would be sent again: set it to 0 there.",
            lambda arguments: _sent(arguments, kept=False),
        ),
        Mistake(
            "This is the sum. Divide it by the number of ranks.",
            lambda arguments: _sent(arguments, divide=False),
        ),
    ),
    limits=(
        Limit("collectives", lambda arguments: 2, "One for the places, one for the numbers."),
        Limit(
            "handed", lambda arguments: 16 * K, "Only k numbers and their places may travel, not the rest."
        ),
    ),
    becomes="mean_of_largest",
    changes=("residual",),
)
