"""A state that is written later, while training goes on: the find-the-bug of lesson 22."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import linear

SAMPLES, PIXELS, CLASSES, RATE, MOMENTUM = 4, 5, 3, 0.2, 0.5
EVERY = 2


def _given(generator: torch.Generator, size: int) -> Arguments:
    """A network, the same on all ranks, and batches of each rank's own, one more than a save needs."""
    steps = 2 * EVERY + 1
    start, given = linear(generator, PIXELS, CLASSES), []
    for _ in range(size):
        model = torch.nn.Linear(PIXELS, CLASSES).double()
        model.load_state_dict(start.state_dict())
        x = torch.randn(steps, SAMPLES, PIXELS, generator=generator, dtype=torch.float64)
        y = torch.randn(steps, SAMPLES, CLASSES, generator=generator, dtype=torch.float64)
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
        given.append((model, optimizer, list(zip(x, y, strict=True)), EVERY, []))
    return given


def _written(arguments: tuple, result: Any) -> Any:
    """What the disk gets in the end, state after state: step, weights, momentum. Or a sentence."""
    queue, parts = arguments[4], []
    if not queue:
        return "nothing was put into `queue`"
    try:
        for state in queue:
            moments = state["optimizer"]["state"]
            momentum = [moments[place]["momentum_buffer"] for place in sorted(moments)]
            parts += [torch.tensor([float(state["step"])]), *state["model"].values(), *momentum]
    except (KeyError, TypeError, AttributeError, IndexError):
        return 'what is in `queue` has not "model", "optimizer" and "step", as state_dict() gives them'
    return torch.cat([part.detach().double().flatten() for part in parts])


def _states(kept: Callable[[int, list], list], summed: bool = True) -> Values:
    """What is written, per rank: `kept` picks from (save, all moments) what of step, weights, momentum."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        size, steps = len(arguments), len(arguments[0][2])
        model = arguments[0][0]
        weights = [p.detach().clone() for p in model.parameters()]
        momentum = [torch.zeros_like(w) for w in weights]
        moments = [[0, *weights, *momentum]]
        for step in range(steps):
            gradients = [torch.zeros_like(w) for w in weights]
            for _, _, batches, _, _ in arguments if summed else arguments[:1]:
                x, y = batches[step]
                leaves = [w.clone().requires_grad_() for w in weights]
                loss = (x @ leaves[0].T + leaves[1] - y).square().mean()
                for gradient, own in zip(gradients, torch.autograd.grad(loss, leaves), strict=True):
                    gradient += own / size
            momentum = [MOMENTUM * m + g for m, g in zip(momentum, gradients, strict=True)]
            weights = [w - RATE * m for w, m in zip(weights, momentum, strict=True)]
            moments.append([step + 1, *weights, *momentum])
        parts = [part for save in range(EVERY, steps + 1, EVERY) for part in kept(save, moments)]
        flat = [torch.as_tensor(part, dtype=torch.float64).flatten() for part in parts]
        return [torch.cat(flat)] * size

    return values


def _mixed(weights_late: bool, momentum_late: bool) -> Values:
    def kept(save: int, moments: list) -> list:
        weights = moments[-1 if weights_late else save][1:3]
        return [save, *weights, *moments[-1 if momentum_late else save][3:]]

    return _states(kept)


_LATE = (
    "What is written are the {} of the last step, under the number of an earlier one: state_dict() gives the "
    "tensors themselves, which training changes before they are on the disk."
)
_compared = compare(
    _states(lambda save, moments: moments[save]),
    Mistake(_LATE.format("weights and the momentum"), _mixed(True, True)),
    Mistake(_LATE.format("weights"), _mixed(True, False)),
    Mistake(_LATE.format("momenta"), _mixed(False, True)),
    Mistake(
        "This is the state before the step whose number it has: save after optimizer.step().",
        _states(lambda save, moments: [save, *moments[save - 1][1:]]),
    ),
    Mistake(
        "Only the last state is there: put one into `queue` after every `every` steps.",
        _states(lambda save, moments: moments[save] if save + EVERY >= len(moments) else []),
    ),
)


def _judge(answers: Answers) -> str:
    for rank, found in enumerate(answers.found):
        if isinstance(found, str):
            return f"rank {rank}: {found}"
    return _compared(answers)


LATE_WRITE = Exercise(
    task="`queue` is a list: what a rank appends to it, a thread writes to the disk later, while training "
    "goes on. The program runs without an error, the loss falls, and every save has all three parts. Yet who "
    "goes on from one leaves the curve. **Find the bug and mend it**, with no more communication.",
    stub="""\
def train_and_save(model, optimizer, batches, every, queue):
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        optimizer.step()
        if step % every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            queue.append({"step": step, **state})
""",
    solution="""\
def train_and_save(model, optimizer, batches, every, queue):
    import copy

    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        optimizer.step()
        if step % every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            queue.append({"step": step, **copy.deepcopy(state)})  # as it is now
""",
    why="A state_dict holds the training's own tensors, and optimizer.step() changes them in place. Who "
    "writes later must copy first. That copy is all that training waits for in an asynchronous save.",
    hints=(
        "Call state_dict(), make one more step, and look at what you got before: has it changed?",
        "copy.deepcopy(state) makes tensors that training does not touch.",
    ),
    given=_given,
    answer=_written,
    judge=_judge,
    limits=(
        Limit(
            "collectives",
            lambda arguments: 2 * len(arguments[0][2]),
            "Every rank copies its own state: nobody else is needed for that.",
        ),
    ),
    changes=("model", "optimizer", "queue"),
)
