"""Weights of 16 bits with masters of 32: the heart of lesson 21, and its find-the-bug."""

from __future__ import annotations

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch

INPUTS, OUTPUTS = 5, 4
NUMBERS = INPUTS * OUTPUTS + OUTPUTS
OFFSET, STEP = 0.4, 0.2
"""Of a spacing of 16-bit numbers: how far masters lie above one, and how far one update goes.

So what is rounded is never near the middle between two numbers, whatever the order of the arithmetic.
"""


def sixteen_bits(
    generator: torch.Generator, size: int, dtype: torch.dtype, scale: float = 1.0
) -> tuple[list[torch.nn.Linear], list[torch.Tensor], float]:
    """Per rank a model of 16 bits with gradients of its own, for all the masters, and a rate.

    Gradients are whole numbers, whose sum is exact. Half of the updates take a master beyond the middle to
    the next number of 16 bits; none would change a weight of 16 bits.
    """
    spacing = torch.finfo(dtype).eps  # between 1 and 2
    places = torch.randint(0, 100, (NUMBERS,), generator=generator)
    signs = 2 * torch.randint(0, 2, (NUMBERS,), generator=generator) - 1
    signs[:2] = torch.tensor([1, -1])
    masters, models = 1 + (places + OFFSET) * spacing, []
    for rank in range(size):
        model = torch.nn.utils.skip_init(torch.nn.Linear, INPUTS, OUTPUTS).to(dtype)
        set_all(model, masters)
        for p, part in zip(model.parameters(), parts(model, (rank + 1.0) * signs), strict=True):
            p.grad = part.to(dtype)
        models.append(model)
    mean = (size + 1) / 2
    return models, parts(models[0], masters), STEP * spacing * scale / mean


def parts(model: torch.nn.Module, numbers: torch.Tensor) -> list[torch.Tensor]:
    """A vector, cut and shaped like the parameters."""
    cut = numbers.split([p.numel() for p in model.parameters()])
    return [part.reshape(p.shape).clone() for part, p in zip(cut, model.parameters(), strict=True)]


def set_all(model: torch.nn.Module, numbers: torch.Tensor) -> None:
    """Round a vector into the parameters."""
    for p, part in zip(model.parameters(), parts(model, numbers), strict=True):
        p.data.copy_(part)


def flat(tensors: list[torch.Tensor]) -> torch.Tensor:
    """All numbers in one vector."""
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


def _masters(generator: torch.Generator, size: int) -> Arguments:
    models, masters, rate = sixteen_bits(generator, size, torch.bfloat16)
    return [(model, [m.clone() for m in masters], rate) for model in models]


def _scaled(generator: torch.Generator, size: int) -> Arguments:
    """Gradients of a loss that was multiplied by so much that without it float16 would have none."""
    scale = 2.0 ** int(torch.randint(28, 32, (), generator=generator))
    models, masters, rate = sixteen_bits(generator, size, torch.float16, scale)
    return [(model, [m.clone() for m in masters], rate, scale) for model in models]


def _updated(
    times: float = 1.0, share: bool = True, mean: bool = True, rounded: bool = False, copied: bool = True
) -> Values:
    """Per rank masters and weights after an update that is so many times the right one.

    Of its own gradient, of the sum, from the rounded weights, or not copied into the model, as told.
    """

    def values(arguments: Arguments) -> list[torch.Tensor]:
        size = len(arguments)
        gradients = [flat([p.grad for p in model.parameters()]) for model, *_ in arguments]
        found = []
        for own, (model, masters, rate, *scale) in zip(gradients, arguments, strict=True):
            step = (sum(gradients) if share else own) / (size if mean else 1)
            weights = flat(list(model.parameters()))
            moved = (weights if rounded else flat(masters)) - times * rate * step / (scale[0] if scale else 1)
            dtype = next(model.parameters()).dtype
            found.append(torch.cat([moved, moved.to(dtype).double() if copied else weights]))
        return found

    return values


def _answer(arguments: tuple, result: object) -> torch.Tensor:
    return torch.cat([flat(arguments[1]), flat(list(arguments[0].parameters()))])


_ROUNDED = Mistake(
    "You begin with the rounded weights, so all that 16 bits cannot show is lost in each step: subtract from "
    "`master`.",
    _updated(rounded=True),
)
_SUM = Mistake("This is an update by the sum. Divide it by the number of ranks.", _updated(mean=False))
_OWN = Mistake(
    "Each rank has stepped along its own gradient: sum it over the ranks, p.grad itself and no copy.",
    _updated(share=False, mean=False),
)
_OWN_MEAN = Mistake(
    "Each rank has stepped along its own gradient, divided: sum it over the ranks, p.grad itself and no "
    "copy.",
    _updated(share=False),
)
_NOT_COPIED = Mistake(
    "The masters are right, but the model still has its old weights: copy each master into p.data.",
    _updated(copied=False),
)
IN_16_BITS = Limit(
    "handed",
    lambda arguments: 2 * NUMBERS,
    "Gradients travel as they are, in 16 bits; convert them after the sum.",
    least=lambda arguments: 2 * NUMBERS,
    too_little="Every gradient must be summed over the ranks.",
)


MASTER_STEP = Exercise(
    task="`model` has weights of 16 bits, `masters` is a list of the same weights in float32, and in each "
    "`p.grad` is the gradient of this rank, in 16 bits. Sum the gradients over the ranks in 16 bits. Take "
    "one step of SGD along their mean, with `rate`, on the masters in float32. Then copy each master into "
    "its parameter's `p.data`.",
    stub="""\
def my_master_step(model, masters, rate):
    ...  # your code
""",
    solution="""\
def my_master_step(model, masters, rate):
    for p, master in zip(model.parameters(), masters):
        dist.all_reduce(p.grad)
        master -= rate * p.grad.float() / dist.get_world_size()
        p.data.copy_(master)
""",
    why="Only the sum travels, in half the bytes. A master keeps what 16 bits cannot show, until enough has "
    "come together for the next number of 16 bits. It never goes anywhere: every rank has the same.",
    hints=(
        "zip(model.parameters(), masters) gives each parameter with its master. Three lines for each: sum, "
        "step, copy.",
        "After dist.all_reduce(p.grad) take p.grad.float(): from there on all is float32. `master -= ...` "
        "works in place, and p.data.copy_(master) rounds.",
    ),
    given=_masters,
    answer=_answer,
    judge=compare(
        _updated(),
        Mistake(
            "Nothing has moved. An update of a weight of 16 bits vanishes: make it on the master, in place.",
            _updated(times=0.0),
        ),
        _NOT_COPIED,
        _ROUNDED,
        _SUM,
        _OWN,
        _OWN_MEAN,
        tolerance=1e-6,
    ),
    limits=(IN_16_BITS,),
    becomes="master_step",
    changes=("model", "masters"),
)


SCALED_UPDATE = Exercise(
    task="The loss was multiplied by `scale`, so its gradients in `p.grad` are in the range of float16. They "
    "shall be summed over the ranks in 16 bits, and the masters shall take a step along the mean gradient of "
    "the loss itself. The program runs without an error, and nothing is learnt. **Find the bug and mend "
    "it.**",
    stub="""\
def scaled_update(model, masters, rate, scale):
    for p, master in zip(model.parameters(), masters):
        dist.all_reduce(p.grad)
        mean = p.grad / (scale * dist.get_world_size())
        master -= rate * mean.float()
        p.data.copy_(master)
""",
    solution="""\
def scaled_update(model, masters, rate, scale):
    for p, master in zip(model.parameters(), masters):
        dist.all_reduce(p.grad)
        mean = p.grad.float() / (scale * dist.get_world_size())
        master -= rate * mean
        p.data.copy_(master)
""",
    why="The division was made in float16, and its result has the size that the scale was to avoid: it is 0 "
    "once more, and .float() comes too late. Convert first, unscale then. torch's GradScaler refuses to "
    "unscale gradients in float16 for that reason.",
    hints=(
        "Print one number of p.grad, of mean and of rate * mean. Where does it become 0?",
        "In which dtype is the division made? What is the smallest number there?",
    ),
    given=_scaled,
    answer=_answer,
    judge=compare(
        _updated(),
        Mistake(
            "Nothing has moved: unscaled in float16, the gradient is 0 again.",
            _updated(times=0.0),
        ),
        _NOT_COPIED,
        _ROUNDED,
        _SUM,
        _OWN,
        _OWN_MEAN,
        tolerance=1e-6,
    ),
    limits=(IN_16_BITS,),
    changes=("model", "masters"),
)
