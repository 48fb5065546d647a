"""A loss scale that follows the gradients, and steps that all ranks skip together. Lesson 21."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.sixteen_bits import NUMBERS, flat, parts, sixteen_bits

PATIENCE = 20
CASES = 4
"""Steps that a check takes: a good one, one that a rank spoils, one that the sum spoils, the 20th good."""
FINITE, INFINITE = 40_000.0, float("inf")
"""Two of the first are beyond float16's 65,504."""


def _given(generator: torch.Generator, size: int) -> Arguments:
    """Per rank a model, masters, a rate, and for each step what p.grad holds, the scale and the count.

    In the second step one rank's weights have an inf, in the third all have a number that is finite.
    """
    scale = 2.0 ** int(torch.randint(28, 32, (), generator=generator))
    models, masters, rate = sixteen_bits(generator, size, torch.float16, scale)
    bad = int(torch.randint(size, (), generator=generator))
    given = []
    for rank, model in enumerate(models):
        own = flat([p.grad for p in model.parameters()]).half()
        spoilt, large = own.clone(), own.clone()
        spoilt[1] = INFINITE if rank == bad else spoilt[1]
        large[2] = FINITE
        counts = (3, 5, 7, PATIENCE - 1)
        steps = [
            (parts(model, numbers), scale, good)
            for numbers, good in zip((own, spoilt, large, -own), counts, strict=True)
        ]
        given.append((model, [m.clone() for m in masters], rate, steps))
    return given


def _steps(function: Callable[..., Any], arguments: tuple) -> list[tuple[torch.Tensor, Any]]:
    """Masters and weights after each step, and what the function returned."""
    model, masters, rate, steps = arguments
    found = []
    for gradients, scale, good in steps:
        for p, gradient in zip(model.parameters(), gradients, strict=True):
            p.grad = gradient.clone()
        told = function(model, masters, rate, scale, good)
        found.append((torch.cat([flat(masters), flat(list(model.parameters()))]), told))
    return found


def _readable(numbers: torch.Tensor) -> torch.Tensor:
    """Without inf and nan, which equal nothing."""
    return torch.nan_to_num(numbers, nan=100.0, posinf=100.0, neginf=100.0)


def _answer(arguments: tuple, result: list[tuple[torch.Tensor, Any]]) -> Any:
    found = []
    for (numbers, told), (_, scale, _) in zip(result, arguments[3], strict=True):
        if not isinstance(told, tuple | list) or len(told) != 2:
            return told
        found += [_readable(numbers), torch.tensor([told[0] / scale, float(told[1])], dtype=torch.float64)]
    return torch.cat(found)


def _told(skip: bool, good: int, halve: bool, reset: bool, double: bool) -> list[float]:
    """The next scale over this one, and the next count."""
    if skip:
        return [0.5 if halve else 1.0, 0.0 if reset else float(good)]
    full = good + 1 == PATIENCE and double
    return [2.0 if full else 1.0, 0.0 if full else good + 1.0]


def _stepped(
    decide: str = "all",
    halve: bool = True,
    reset: bool = True,
    double: bool = True,
    mean: bool = True,
    unscaled: bool = True,
) -> Values:
    """What `_answer` finds on each rank, if it skips as told.

    "all": where the sum is not finite; "mine": where the rank's own gradient is not; "any": where some
    rank's own is not; "never"; "tensor": only the tensor that is not.
    """

    def values(arguments: Arguments) -> list[torch.Tensor]:
        size = len(arguments)
        states = [flat(masters) for _, masters, *_ in arguments]
        found: list[list[torch.Tensor]] = [[] for _ in arguments]
        for place in range(CASES):
            own = [flat(steps[place][0]) for *_, steps in arguments]
            total = torch.stack(own).sum(0).half().double()  # beyond 65,504 it is inf
            for rank, (_, _, rate, steps) in enumerate(arguments):
                scale, good = steps[place][1:]
                skip = {
                    "mine": not own[rank].isfinite().all(),
                    "any": not torch.stack(own).isfinite().all(),
                    "never": False,
                }.get(decide, not total.isfinite().all())
                update = rate * total / (scale if unscaled else 1) / (size if mean else 1)
                if decide == "tensor" and skip:
                    update[: NUMBERS - len(steps[place][0][-1])] = 0  # the inf is in the weights
                    states[rank] = states[rank] - update
                elif not skip:
                    states[rank] = states[rank] - update
                told = _told(bool(skip), good, halve, reset, double)
                found[rank] += [
                    _readable(torch.cat([states[rank], states[rank].half().double()])),
                    torch.tensor(told, dtype=torch.float64),
                ]
        return [torch.cat(one) for one in found]

    return values


SCALED_STEP = Exercise(
    task="In each `p.grad` is this rank's gradient of `scale` times the loss, in float16; `good` counts the "
    "steps since `scale` changed. Sum the gradients over the ranks. If a sum is inf or nan anywhere, no rank "
    "may change a weight: return `scale / 2` and 0. Else step as in the mended `scaled_update`, "
    "and return `scale` and `good + 1`; but twice the `scale` and 0 when that would be 20.",
    stub="""\
def my_scaled_step(model, masters, rate, scale, good):
    ...  # your code
    return scale, good
""",
    solution="""\
def my_scaled_step(model, masters, rate, scale, good):
    for p in model.parameters():
        dist.all_reduce(p.grad)  # an inf of one rank is now on all
    if not all(p.grad.isfinite().all() for p in model.parameters()):
        return scale / 2, 0
    for p, master in zip(model.parameters(), masters):
        master -= rate * p.grad.float() / (scale * dist.get_world_size())
        p.data.copy_(master)
    return (2 * scale, 0) if good + 1 == 20 else (scale, good + 1)
""",
    why="The sum tells everybody: inf plus anything is inf or nan, on every rank. So look after the "
    "all-reduce, and all decide alike, without a further message. Who looks before it, decides alone, and "
    "does not see that a sum of finite numbers overflowed. torch's GradScaler with DDP works in this way.",
    hints=(
        "First sum all gradients, then look at all of them, and only then change the first weight.",
        "Which rank knows of an inf before the sum, and which after it? x.isfinite().all() tells.",
    ),
    given=_given,
    use=_steps,
    answer=_answer,
    judge=compare(
        _stepped(),
        Mistake(
            "A step was taken with inf or nan in the gradients: skip it.",
            _stepped("never"),
        ),
        Mistake(
            "Each rank decides by its own gradients, and only the one with the inf skips. Look after the "
            "sum.",
            _stepped("mine"),
        ),
        Mistake(
            "You look before the sum: finite numbers of all ranks can add up to inf. Look after it.",
            _stepped("any"),
        ),
        Mistake(
            "Only the tensor with the inf is skipped: look at all before you change the first.",
            _stepped("tensor"),
        ),
        Mistake("After a skipped step the scale must be halved.", _stepped(halve=False)),
        Mistake("After a skipped step the count must begin again, at 0.", _stepped(reset=False)),
        Mistake("The scale never grows: double it after 20 good steps.", _stepped(double=False)),
        Mistake("This is an update by the sum. Divide it by the number of ranks.", _stepped(mean=False)),
        Mistake("The gradients are still `scale` times as large: divide.", _stepped(unscaled=False)),
        tolerance=5e-7,
    ),
    limits=(
        Limit(
            "collectives",
            lambda arguments: 3 * CASES,
            "One all-reduce for each parameter, and one more to agree if you want to.",
        ),
        Limit(
            "handed",
            lambda arguments: CASES * (2 * NUMBERS + 8),
            "Gradients travel as they are, in 16 bits.",
            least=lambda arguments: CASES * 2 * NUMBERS,
            too_little="Every gradient must be summed over the ranks.",
        ),
    ),
    becomes="scaled_step",
    changes=("model", "masters"),
)
