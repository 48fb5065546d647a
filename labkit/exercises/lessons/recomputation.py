"""Steps of a pipeline that keep inputs, and one that keeps too few of them: lesson 17."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, close, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import gradient
from labkit.exercises.lessons.pipelines import gradients, pipeline

if TYPE_CHECKING:
    from labkit.exercises.lessons.pipelines import Pipeline

LAYERS, SAMPLES, MICROBATCHES = 10, 64, 7
"""Of a stage, of a micro-batch, and of a batch: the activations outweigh weights and gradients."""


def _deep(generator: torch.Generator, size: int) -> Arguments:
    """Per rank a stage of its own; micro-batches of which rank 0 uses x and the last rank y; their loss.

    As many in every draw, so that the same program always takes the same memory.
    """
    made, batches, loss = pipeline(generator, size, MICROBATCHES, LAYERS, SAMPLES)
    return [(stage, batches, loss, batches[0][0]) for stage in made]


def _parts(arguments: Arguments) -> Pipeline:
    return [stage for stage, *_ in arguments], *arguments[0][1:3]


def _own_input(arguments: Arguments) -> list[torch.Tensor]:
    """As if every stage went through x, the input of the first one."""
    made, batches, loss = _parts(copy.deepcopy(arguments))
    for x, y in batches:
        above = None
        for stage in reversed(made):
            own = x.clone().requires_grad_()
            output = stage(own)
            (loss(output, y) if stage is made[-1] else output).backward(above)
            above = own.grad
    return [gradient(stage) for stage in made]


def _three_stored(arguments: Arguments) -> int:
    """Bytes: a layer stores its input and what its linear part gives."""
    return 3 * (2 * LAYERS + 1) * arguments[0][3].nbytes


RECOMPUTING_STEP = Exercise(
    task="The authors of GPipe store less than our `gpipe`: of each micro-batch only what the stage "
    "receives. Before its backward pass they compute its forward pass once more (recomputation). Write such "
    "a step: all forwards, then all backwards. Leave the gradients in the stage's parameters. The arguments "
    "are those of `run_pipeline`. Budget: memory for the activations of three micro-batches, each activation "
    "and each gradient sent once, and no long chain of messages: a micro-batch must not wait until the one "
    "before it is back.",
    stub="""\
def recomputing_step(stage, batches, loss, like):
    inputs, sent = [], []
    ...  # your code: forward_pass and backward_pass may help
    for work in sent:
        work.wait()
""",
    solution="""\
def recomputing_step(stage, batches, loss, like):
    inputs, sent = [], []
    with torch.no_grad():
        for x, y in batches:
            inputs.append(forward_pass(stage, loss, x, y, like, sent)[0])
    for x, (_, y) in zip(inputs, batches):
        output = stage(x)
        if rank == world_size - 1:
            output = loss(output, y)
        backward_pass(x, output, sent)
    for work in sent:
        work.wait()
""",
    why="A stage keeps M inputs, and the activations of one micro-batch at a time. It pays with a second "
    "forward pass, for which it need not wait until the gradient comes. torch.utils.checkpoint does the same "
    "to any part of a network.",
    hints=(
        "The forwards need no graph: torch.no_grad(). What must be there when the gradient of micro-batch m "
        "comes?",
        "forward_pass returns the stage's input first: keep that, drop the output. In the second loop "
        "output = stage(x) builds the graph, and backward_pass(x, output, sent) goes back through it.",
        "On the last rank backward_pass wants the loss in place of the output: loss(output, y).",
    ),
    given=_deep,
    answer=lambda arguments, result: gradient(arguments[0]),
    judge=compare(
        lambda arguments: gradients(*_parts(arguments)),
        Mistake("Each stage used x from `batches`. That is the input of rank 0 alone.", _own_input),
        Mistake(
            "This is the gradient of the last micro-batch alone: they add up.",
            lambda arguments: gradients(_parts(arguments)[0], arguments[0][1][-1:], arguments[0][2]),
        ),
        tolerance=1e-9,
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Messages between neighbours are enough."),
        Limit(
            "messages",
            lambda arguments: 2 * len(arguments[0][1]) * (len(arguments) - 1),
            "Each activation is sent twice: forward_pass receives and sends. Recompute with `stage(x)`.",
        ),
        Limit("memory", _three_stored, "Of each micro-batch keep what the stage receives, and no graph."),
        Limit(
            "steps",
            lambda arguments: 4 * len(arguments[0][1]) + 2 * len(arguments),
            "A rank in the middle has 4M messages, and 2K more fill and drain the pipeline. Longer chains "
            "mean that a micro-batch waits until the one before it is back: all forwards first.",
        ),
    ),
    uses=("forward_pass", "backward_pass"),
)


_compare = compare(lambda arguments: gradients(*_parts(arguments)), tolerance=1e-9)


def _judge_of_buffers(answers: Answers) -> str:
    """What `compare` says; and where to look, if only what came by message is wrong."""
    said = _compare(answers)
    right = gradients(*_parts(answers.arguments))
    if said and close(answers.found[0], right[0], 1e-9):
        return (
            f"{said}\nRank 0, which receives no input, is right. What does `x` of micro-batch 0 hold when "
            "its backward pass comes? Each micro-batch needs a tensor of its own."
        )
    return said


ONE_BUFFER = Exercise(
    task="A step of GPipe. It runs without an error, the loss is right, and so is the gradient on rank 0; on "
    "the other ranks it is wrong. **Find the bug and mend it.**",
    stub="""\
def gpipe_step(stage, batches, loss, like):
    kept, sent, received = [], [], torch.empty_like(like)
    for x, y in batches:
        if rank > 0:
            dist.recv(received, rank - 1)
            x = received.detach().requires_grad_()
        output = stage(x)
        if rank < world_size - 1:
            sent.append(dist.isend(output.detach(), rank + 1))
        kept.append((x, output if rank < world_size - 1 else loss(output, y)))
    for x, output in kept:
        backward_pass(x, output, sent)
    for work in sent:
        work.wait()
""",
    solution="""\
def gpipe_step(stage, batches, loss, like):
    kept, sent = [], []
    for x, y in batches:
        if rank > 0:
            x = torch.empty_like(like)
            dist.recv(x, rank - 1)
            x.requires_grad_()
        output = stage(x)
        if rank < world_size - 1:
            sent.append(dist.isend(output.detach(), rank + 1))
        kept.append((x, output if rank < world_size - 1 else loss(output, y)))
    for x, output in kept:
        backward_pass(x, output, sent)
    for work in sent:
        work.wait()
""",
    why="detach() shares its memory, so all micro-batches have one input: the last that came. Forward that "
    "is right, each in its turn; backward the first layer multiplies with what is there now. Autograd sees "
    "what torch changes in place, but not what MPI writes.",
    hints=(
        "Forward is right. Which tensors does backward() need again, and are they still what they were?",
        "detach() makes no copy. How many inputs must a stage hold before its first backward pass?",
    ),
    given=_deep,
    answer=lambda arguments, result: gradient(arguments[0]),
    judge=_judge_of_buffers,
    limits=(Limit("collectives", lambda arguments: 0, "Messages between neighbours are enough."),),
    uses=("backward_pass",),
)
