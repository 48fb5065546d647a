"""Lesson 21, Half the bits, twice the compute: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from labkit.exercises.describe import (
    Arguments,
    Edit,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch

INPUTS, OUTPUTS = 5, 4
WEIGHTS, NUMBERS = INPUTS * OUTPUTS, INPUTS * OUTPUTS + OUTPUTS
OFFSET, STEP = 0.4, 0.2
"""Of a spacing of 16-bit numbers: how far masters lie above one, and how far an update goes, give or take a fourth.

So what is rounded is never near the middle between two numbers, whatever the order of the arithmetic.
"""
TOLERANCE = 3e-7
"""A few roundings of float32; a mean of three ranks that was rounded to bfloat16 is further off."""


def _sixteen_bits(
    generator: torch.Generator, size: int, dtype: torch.dtype, scale: float = 1.0
) -> list[tuple[torch.nn.Linear, list[torch.Tensor], float]]:
    """Per rank a model of 16 bits with gradients of its own, the masters, and a rate.

    Gradients are whole numbers, whose sum is exact in either type and which three ranks cannot divide. About half
    of the updates take a master beyond the middle to the next number of 16 bits; none would change a weight of 16
    bits.
    """
    spacing = torch.finfo(dtype).eps  # between 1 and 2
    places = torch.randint(0, 100, (NUMBERS,), generator=generator)
    signs = 2 * torch.randint(0, 2, (NUMBERS,), generator=generator) - 1
    signs[:2], times = torch.tensor([1, -1]), [0]
    while sum(times) % size == 0:
        times = (1 + torch.randperm(8, generator=generator)[:size]).tolist()
    gradient = signs * torch.randint(4, 8, (NUMBERS,), generator=generator)
    masters, given = 1 + (places + OFFSET) * spacing, []
    for own in times:
        model = torch.nn.utils.skip_init(torch.nn.Linear, INPUTS, OUTPUTS).to(dtype)
        for p, part, g in zip(
            model.parameters(), _parts(model, masters), _parts(model, own * gradient), strict=True
        ):
            p.data.copy_(part)
            p.grad = g.to(dtype)
        given.append((model, _parts(model, masters), STEP * spacing * scale / (5.5 * sum(times) / size)))
    return given


def _parts(model: torch.nn.Module, numbers: torch.Tensor) -> list[torch.Tensor]:
    """A vector, cut and shaped like the parameters."""
    cut = numbers.split([p.numel() for p in model.parameters()])
    return [part.reshape(p.shape).clone() for part, p in zip(cut, model.parameters(), strict=True)]


def _flat(tensors: list[torch.Tensor]) -> torch.Tensor:
    """All numbers in one vector."""
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])


def _state(arguments: tuple, result: object = None) -> torch.Tensor | str:
    """Masters and weights; none is huge or nan, beside which all others look alike. In words if types are others."""
    model, masters = arguments[0], arguments[1]
    types = [{t.dtype for t in tensors} for tensors in (masters, model.parameters())]
    if types[0] != {torch.float32} or torch.float32 in types[1]:
        return "other types: masters of {}, weights of {}".format(*(sorted(map(str, kind)) for kind in types))
    found = torch.cat([_flat(masters), _flat(list(model.parameters()))])
    return found.nan_to_num(nan=8.0).clamp(-8, 8)


def _masters(generator: torch.Generator, size: int) -> Arguments:
    return _sixteen_bits(generator, size, torch.float16 if size == 2 else torch.bfloat16)


def _scaled(generator: torch.Generator, size: int) -> Arguments:
    """Gradients of a loss that was multiplied by so much that without it float16 would have none."""
    scale = 2.0 ** int(torch.randint(28, 32, (), generator=generator))
    return [(*own, scale) for own in _sixteen_bits(generator, size, torch.float16, scale)]


def _of_a_ring(numbers: int) -> Callable[[Arguments], float]:
    """The bytes that a rank sends in an all-reduce of so many numbers of 16 bits."""
    return lambda arguments: 4 * numbers * (len(arguments) - 1) / len(arguments)


NOT_SUMMED = "Every gradient must be summed over the ranks."
IN_16_BITS = Limit(
    "sent",
    lambda arguments: 1 + _of_a_ring(NUMBERS)(arguments),
    "Gradients travel as they are, in 16 bits, and in an all-reduce; convert them after the sum.",
    least=lambda arguments: _of_a_ring(NUMBERS)(arguments) - 1,
    too_little=NOT_SUMMED,
)
OWN = "Each rank has stepped along its own gradient{}: sum it over the ranks, p.grad itself and no copy."
NO_MEAN = "This is an update by the sum. Divide it by the number of ranks."
IN_FLOAT32 = (
    "The model's weights have the type of the masters now: p.data.copy_(master) rounds them to 16 bits."
)
IN_EITHER: tuple[Edit, ...] = (
    edit("        p.data.copy_(master)\n", "",
         says="The masters are right, but the model still has its old weights: copy each master into p.data."),
    edit("master -= ", "master[:] = p.float() - ",
         says="You begin with the rounded weights, so all that 16 bits cannot show is lost in each step: subtract "
         "from `master`."),
    edit("master -= ", "master = master - ",
         says="The weights are right, and the masters are as they were: `master -= ...` works in place."),
    edit("dist.get_world_size()", "1", says=NO_MEAN),
    edit("dist.get_world_size()", "4", says="in a world of 2, ranks 0-1 are wrong"),
    edit("all_reduce(p.grad)", "all_reduce(p.grad.clone())", "dist.get_world_size()", "1", says=OWN.format("")),
    edit("all_reduce(p.grad)", "all_reduce(p.grad.clone())", says=OWN.format(", divided")),
    edit("dist.all_reduce(p.grad)", "g = p.grad.float()\n        dist.all_reduce(g)", "p.grad.float()", "g",
         says=IN_16_BITS.why),
    edit("dist.all_reduce(p.grad)", "all_of = [torch.empty_like(p.grad) for _ in range(world_size)]\n"
         "        dist.all_gather(all_of, p.grad)\n        p.grad = sum(all_of)", says=IN_16_BITS.why),
    edit("all_reduce(p.grad)", "reduce(p.grad, dst=0)", says="in a world of 2, rank 1 is wrong"),
    edit("p.data.copy_(master)", "p.data = master.clone()", says=IN_FLOAT32),
    edit("zip(model.parameters(), masters)", "zip([model.weight], masters)", says="are wrong"),
    edit("    for p, master", "    if rank == 0:\n        return\n    for p, master", hangs=True,
         says="deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce"),
)  # fmt: skip
"""Wrong answers to the first two exercises, which do the same, with a scale and without."""

MASTER_STEP = Exercise(
    task="`model` has weights of 16 bits, `masters` is a list of the same weights in float32, and in each "
    "`p.grad` is the gradient of this rank, in 16 bits. Sum the gradients over the ranks in 16 bits; no more "
    "bytes may travel than in an all-reduce. Take one step of SGD along their mean, with `rate`, on the "
    "masters in float32. Then copy each master into its parameter's `p.data`.",
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
    answer=_state,
    judge=like_solution(TOLERANCE),
    limits=(IN_16_BITS,),
    wrong=(
        *(
            edit("master -= rate * p.grad.float()", f"{what} rate * p.grad",
                 says="Nothing has moved. An update of a weight of 16 bits vanishes: make it on the master, in place.")
            for what in ("master = p.data -", "p.data -=")
        ),
        edit("p.grad.float() / dist.get_world_size()", "(p.grad / dist.get_world_size()).float()",
             says="The mean was rounded to 16 bits: first p.grad.float(), and then divide."),
        *IN_EITHER,
    ),
    becomes="master_step",
    changes=("model", "masters"),
)  # fmt: skip

UPDATE = """\
def scaled_update(model, masters, rate, scale):
    for p, master in zip(model.parameters(), masters):
        dist.all_reduce(p.grad)
        mean = p.grad.float() / (scale * dist.get_world_size())
        master -= rate * mean
        p.data.copy_(master)
"""
ZERO_AGAIN = "Nothing has moved: unscaled in float16, the gradient is 0 again."
STILL_SCALED = "The gradients are still `scale` times as large: divide."
SCALED_UPDATE = Exercise(
    task="The loss was multiplied by `scale`, so its gradients in `p.grad` are in the range of float16. They "
    "shall be summed over the ranks in 16 bits, with no more bytes than in an all-reduce, and the masters "
    "shall take a step along the mean gradient of the loss itself. The program runs without an error, and "
    "nothing is learnt. **Find the bug and mend it.**",
    stub=edited(UPDATE, "p.grad.float() /", "p.grad /", "rate * mean", "rate * mean.float()"),
    solution=UPDATE,
    why="The division was made in float16, and its result has the size that the scale was to avoid: it is 0 "
    "once more, and .float() comes too late. Convert first, unscale then. torch's GradScaler refuses to "
    "unscale gradients in float16 for that reason.",
    hints=(
        "Print one number of p.grad, of mean and of rate * mean. Where does it become 0?",
        "In which dtype is the division made? What is the smallest number there?",
    ),
    given=_scaled,
    answer=_state,
    judge=like_solution(TOLERANCE),
    limits=(IN_16_BITS,),
    wrong=(
        edit("p.grad.float() /", "p.grad * 1 /", says=ZERO_AGAIN),
        edit("dist.all_reduce", "p.grad /= scale\n        dist.all_reduce", "scale *", "1 *", says=ZERO_AGAIN),
        edit("scale *", "1 *", says=STILL_SCALED),
        edit("scale *", "2.0**28 * (world_size < 4) + 2.0**31 *", says="are wrong"),
        *IN_EITHER,
    ),
    changes=("model", "masters"),
)  # fmt: skip

PATIENCE, CASES = 20, 6
"""After how many good steps the scale is doubled, and how many steps a check takes: half of them are good."""


def _spoilt(generator: torch.Generator, size: int) -> Arguments:
    """Per rank a model, masters, a rate, and for each step what p.grad holds, the scale and the count.

    Of three steps one is spoilt by a rank's inf, one by a rank's nan, and one by a sum of finite numbers: 40,000
    on every rank. The first two are in different tensors. They come in any order, among good steps with the last
    count that only grows, with the next one, and with a smaller one.
    """

    def draw(most: int) -> int:
        return int(torch.randint(most, (), generator=generator))

    scale, bad, sign = 2.0 ** (28 + draw(4)), draw(size), 1.0 - 2 * draw(2)
    places = [draw(WEIGHTS), WEIGHTS + draw(OUTPUTS)]
    spoils = [(places.pop(draw(2)), sign * torch.inf), (places.pop(), torch.nan), (draw(NUMBERS), sign * 4e4)]
    cases: list[Any] = [(spoil, draw(PATIENCE)) for spoil in spoils]
    cases += [(None, PATIENCE - 1), (None, PATIENCE - 2), (None, draw(PATIENCE - 2))]
    order, given = torch.randperm(CASES, generator=generator).tolist(), []
    for rank, (model, masters, rate) in enumerate(_sixteen_bits(generator, size, torch.float16, scale)):
        own, steps = _flat([p.grad for p in model.parameters()]).half(), []
        for spoil, good in (cases[n] for n in order):
            numbers = own.clone()
            if spoil and (rank == bad or spoil == spoils[-1]):
                numbers[spoil[0]] = spoil[1]
            own = own if spoil else -own  # back, so that no weight is ever near the middle between two
            steps.append((partial(_parts, model, numbers), scale, good))
        given.append((model, masters, rate, steps))
    return given


def _steps(function: Callable[..., Any], arguments: tuple) -> list[tuple[Any, Any]]:
    """Masters and weights after each step, and what the function returned."""
    model, masters, rate, steps = arguments
    found = []
    for gradients, scale, good in steps:
        for p, gradient in zip(model.parameters(), gradients(), strict=True):
            p.grad = gradient
        told = function(model, masters, rate, scale, good)
        found.append((_state(arguments), told))
        if isinstance(found[-1][0], str):
            break
    return found


def _all_steps(arguments: tuple, result: list[tuple[Any, Any]]) -> Any:
    """All of it in one vector; or the first that is no such thing."""
    found = []
    for (numbers, told), (_, scale, _) in zip(result, arguments[3], strict=True):
        if isinstance(numbers, str) or not isinstance(told, tuple | list) or len(told) != 2:
            return numbers if isinstance(numbers, str) else told
        found += [numbers, torch.tensor([told[0] / scale, float(told[1])], dtype=torch.float64)]
    return torch.cat(found)


SUMS = (
    "    for p in model.parameters():\n        dist.all_reduce(p.grad)  # an inf of one rank is now on all\n"
)
FINE = "all(p.grad.isfinite().all() for p in model.parameters())"
SKIP = f"    if not {FINE}:\n        return scale / 2, 0\n"
GROW = "    return (2 * scale, 0) if good + 1 == 20 else (scale, good + 1)\n"
SCALED_STEP = Exercise(
    task="In each `p.grad` is this rank's gradient of `scale` times the loss, in float16; `good` counts the "
    "steps since `scale` changed. Sum the gradients over the ranks, in 16 bits. If a sum is inf or nan "
    "anywhere, no rank may change a weight: return `scale / 2` and 0. Else step as in the mended "
    "`scaled_update`, and return `scale` and `good + 1`; but twice the `scale` and 0 when that would be 20. "
    "Besides an all-reduce of each gradient there may be one of a single number.",
    stub="""\
def my_scaled_step(model, masters, rate, scale, good):
    ...  # your code
    return scale, good
""",
    solution=f"""\
def my_scaled_step(model, masters, rate, scale, good):
{SUMS}{SKIP}\
    for p, master in zip(model.parameters(), masters):
        master -= rate * p.grad.float() / (scale * dist.get_world_size())
        p.data.copy_(master)
{GROW}""",
    why="The sum tells everybody: inf plus anything is inf or nan, on every rank. So look after the "
    "all-reduce, and all decide alike, without a further message. Who looks before it, decides alone, and "
    "does not see that a sum of finite numbers overflowed. torch's GradScaler with DDP works in this way.",
    hints=(
        "First sum all gradients, then look at all of them, and only then change the first weight.",
        "Which rank knows of an inf before the sum, and which after it? x.isfinite().all() tells.",
    ),
    given=_spoilt,
    use=_steps,
    calls=CASES,
    answer=_all_steps,
    judge=like_solution(TOLERANCE / 10),
    limits=(
        Limit("sent", lambda arguments: 1 + _of_a_ring(NUMBERS + 4)(arguments),
              "Gradients travel as they are, in 16 bits: one all-reduce for each parameter, and one more to agree "
              "if you want to.",
              least=lambda arguments: _of_a_ring(NUMBERS)(arguments) - 1, too_little=NOT_SUMMED),
    ),
    wrong=(
        edit(SKIP, "", says="A step was taken with inf or nan in the gradients: skip it."),
        edit(SUMS, f"    fine = {FINE}\n{SUMS}", f"if not {FINE}", "if not fine",
             says="Each rank decides by its own gradients, and only the one with the inf skips. Look after the sum."),
        edit(SUMS, f"    fine = torch.tensor(float({FINE}))\n    dist.all_reduce(fine, dist.ReduceOp.MIN)\n{SUMS}",
             f"if not {FINE}", "if not fine",
             says="You look before the sum: finite numbers of all ranks can add up to inf. Look after it."),
        edit(SKIP, f"    fine = {FINE}\n", "        master -=",
             "        if not p.grad.isfinite().all():\n            continue\n        master -=",
             GROW, f"    if not fine:\n        return scale / 2, 0\n{GROW}",
             says="Only the tensor with the inf is skipped: look at all before you change the first."),
        edit("p.grad.isfinite().all()", "not p.grad.isinf().any()",
             says="A step was taken with nan in the gradients: isfinite() sees inf and nan."),
        *(
            edit(FINE, f"model.{name}.grad.isfinite().all()",
                 says="Not all tensors were looked at: an inf or a nan in any of them spoils the step.")
            for name in ("weight", "bias")
        ),
        edit("return scale / 2, 0", "return scale, 0", says="After a skipped step the scale must be halved."),
        edit("return scale / 2, 0", "return scale / 2, good",
             says="After a skipped step the count must begin again, at 0."),
        edit(GROW, "    return scale, good + 1\n", says="The scale never grows: double it after 20 good steps."),
        edit("good + 1 == 20", "good + 1 >= 19", says="The scale grows too early: double it when good + 1 is 20."),
        edit("(2 * scale, 0)", "(2 * scale, good + 1)",
             says="When the scale has grown, the count must begin again, at 0."),
        edit("dist.get_world_size()", "1", says=NO_MEAN),
        edit("scale * dist", "1 * dist", says=STILL_SCALED),
        edit(GROW, "", says="Nothing came back"),
        edit("dist.all_reduce(p.grad)", "g = p.grad.float()\n        dist.all_reduce(g)\n        p.grad = g.half()",
             says="Gradients travel as they are, in 16 bits"),
        edit("dist.all_reduce(p.grad)", "all_of = [torch.empty_like(p.grad) for _ in range(world_size)]\n"
             "        dist.all_gather(all_of, p.grad)\n        p.grad = sum(all_of)",
             says="Gradients travel as they are, in 16 bits"),
        edit("all_reduce(p.grad)", "reduce(p.grad, dst=0)", says="in a world of 2, "),
        edit("p.data.copy_(master)", "p.data = master.clone()", says=IN_FLOAT32),
        edit(SUMS, SKIP + SUMS, says="deadlock: rank ", hangs=True),
    ),
    becomes="scaled_step",
    changes=("model", "masters"),
)  # fmt: skip

LESSON = Lesson(
    number="21",
    title="Half the bits, twice the compute",
    predictions=(Prediction("ring_of_ones", "ones"),),
    exercises=(MASTER_STEP, SCALED_UPDATE, SCALED_STEP),
    questions=questions("21"),
)
