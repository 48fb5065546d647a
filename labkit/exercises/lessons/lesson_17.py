"""Lesson 17, Fill the pipeline: its prediction, exercises and questions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Choice,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    Question,
)
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons.networks import gradient, linear
from labkit.exercises.lessons.slots import wrong_slots

if TYPE_CHECKING:
    Batches = list[tuple[torch.Tensor, torch.Tensor]]
    Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    Pipeline = tuple[list[torch.nn.Sequential], Batches, Loss]

WIDTH = 5
"""Numbers in an activation of one sample."""


def _network(
    generator: torch.Generator, stages: int, microbatches: int, layers: int = 1, samples: int = 3
) -> Pipeline:
    """Stages, micro-batches and their loss, the same on every rank."""

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    def layer() -> tuple[torch.nn.Module, ...]:
        made = linear(generator, WIDTH, WIDTH, bias=False, dtype=torch.float64)
        # Orthogonal: what goes in is still felt behind many layers.
        made.weight.data = torch.linalg.qr(made.weight.data).Q
        return made, torch.nn.LeakyReLU(0.8)

    def loss(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (output - y).square().mean() / microbatches

    made = [torch.nn.Sequential(*sum((layer() for _ in range(layers)), ())) for _ in range(stages)]
    return made, list(zip(*draw(2, microbatches, samples, WIDTH), strict=True)), loss


def _gradients(made: list[torch.nn.Sequential], batches: Batches, loss: Loss) -> list[torch.Tensor]:
    """Of the whole network, stage by stage."""
    made = copy.deepcopy(made)
    for x, y in batches:
        loss(torch.nn.Sequential(*made)(x), y).backward()
    return [gradient(stage) for stage in made]


def _room(generator: torch.Generator, size: int) -> Arguments:
    """Room for one micro-batch less than there are stages, and the last group of `room` has one."""
    room = max(1, size - 1)
    return [(size, 1 + room * int(torch.randint(2, 4, (), generator=generator)), room)] * size


def _network_for(stages: int, microbatches: int, room: int) -> Pipeline:
    return _network(torch.Generator().manual_seed(microbatches), stages, microbatches)


def _executed(arguments: tuple[int, int, int], result: Any) -> torch.Tensor | str:
    """The gradient that the slots leave on this rank; or what is wrong with them, and then nothing is run."""
    from labkit.algorithms.pipeline import run_pipeline

    stages, microbatches, room = arguments
    if wrong := wrong_slots(result, *arguments, most=2 * stages * -(-microbatches // room)):
        return wrong
    made, batches, loss = _network_for(*arguments)
    own = dist.get_rank()
    run_pipeline(result[own], made[own], batches, loss, batches[0][0])
    return gradient(made[own])


def _judged(answers: Answers) -> str:
    told = [found for found in answers.found if isinstance(found, str)]
    if not told:
        return compare(lambda arguments: _gradients(*_network_for(*arguments[0])))(answers)
    others = len(set(told)) > 1 or len(told) < answers.size
    more = "\nThe ranks differ: every rank must return the slots of all stages." if others else ""
    return f"the schedule is not what was asked for\n  {told[0]}{more}"


PIPELINE_IN_ROOM = Exercise(
    task="Each rank has room for the activations of `room` micro-batches, fewer than there are stages. "
    "Return the slots of all stages. Budget, if each pass takes one slot: $2K$ slots for each group of "
    "`room` micro-batches; the last group may be smaller.",
    stub="""\
def pipeline_in_room(stages, microbatches, room):
    slots = [[] for _ in range(stages)]
    ...  # your code: slots[stage].append(Forward(m)) or Backward(m)
    return slots
""",
    solution="""\
from labkit.schedule import Backward, Forward

def pipeline_in_room(stages, microbatches, room):
    slots = []
    for stage in range(stages):
        time = {}
        for m in range(microbatches):
            start = 2 * stages * (m // room) + 2 * (m % room)
            time[Forward(m)] = start + stage
            time[Backward(m)] = start + 2 * stages - 1 - stage
        slots.append(sorted(time, key=time.get))
    return slots
""",
    why="It is a timetable. A micro-batch is under way for 2K slots: through all stages and back. One "
    "follows the other after 2 slots, so a stage has its forwards in even slots and its backwards in odd "
    "ones, or the other way round: they never meet. When `room` of them are under way, the next must wait "
    "until the first has ended. With room for K nobody waits for room, and stages store what 1F1B stores.",
    hints=(
        "Draw three stages and room for two micro-batches. When is the first one back at stage 0? Only then "
        "may the third begin.",
        "Give every pass a time, then sort each stage's passes by it. Micro-batch m starts 2 slots after the "
        "one before it, or 2K slots after micro-batch m - room.",
        "Forward at start + stage, backward at start + 2K - 1 - stage, with start = 2K (m // room) + "
        "2 (m % room).",
    ),
    given=_room,
    answer=_executed,
    judge=_judged,
    limits=(Limit("collectives", lambda arguments: 0, "Only return your answer; the check does the rest."),),
)


LAYERS, SAMPLES = 10, 64
"""Of a stage, and of a micro-batch: the activations outweigh weights and gradients."""


def _deep(generator: torch.Generator, size: int) -> Arguments:
    """Per rank a stage of its own; micro-batches of which rank 0 uses x and the last rank y; their loss."""
    microbatches = int(torch.randint(6, 9, (), generator=generator))
    made, batches, loss = _network(generator, size, microbatches, LAYERS, SAMPLES)
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
    "are those of `run_pipeline`. Budget: memory for the activations of three micro-batches, and no chain of "
    "more than $4M + 2K$ messages in which each waits for the one before.",
    stub="""\
def recomputing_step(stage, batches, loss, like):
    ...  # your code: forward_pass and backward_pass may help
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
        lambda arguments: _gradients(*_parts(arguments)),
        Mistake("Each stage used x from `batches`. That is the input of rank 0 alone.", _own_input),
        Mistake(
            "This is the gradient of the last micro-batch alone: they add up.",
            lambda arguments: _gradients(_parts(arguments)[0], arguments[0][1][-1:], arguments[0][2]),
        ),
        tolerance=1e-9,
    ),
    limits=(
        Limit("collectives", lambda arguments: 0, "Messages between neighbours are enough."),
        Limit("memory", _three_stored, "Of each micro-batch keep what the stage receives, and no graph."),
        Limit(
            "steps",
            lambda arguments: 4 * len(arguments[0][1]) + 2 * len(arguments),
            "A rank in the middle has 4M messages, and 2K more fill and drain the pipeline. Longer chains "
            "mean that stages wait for each other: all forwards first.",
        ),
    ),
    uses=("forward_pass", "backward_pass"),
)

LESSON = Lesson(
    number="17",
    title="Fill the pipeline",
    predictions=(Prediction("idle_percent", "%"),),
    exercises=(PIPELINE_IN_ROOM, RECOMPUTING_STEP),
    questions=(
        Question(
            "You take 1F1B in place of GPipe, with as many micro-batches. What gets smaller?",
            (
                Choice("the bubble", "It stays: both wait for the first micro-batch and for the last one."),
                Choice("the memory", "A stage stores at most K micro-batches, however many there are."),
                Choice("the gradient's error", "Both give the gradient of the whole batch."),
            ),
            right="b",
        ),
        Question(
            "Four stages. You cut the batch into 16 micro-batches in place of 8. The idle share",
            (
                Choice("falls from 27 % to 16 %", "3/11 becomes 3/19."),
                Choice("halves", "3/11 becomes 3/19: K - 1 is also in the denominator."),
                Choice(
                    "stays", "The time to fill and to drain is now a smaller part: passes are half as long."
                ),
            ),
            right="a",
        ),
        Question(
            "One of four stages takes twice as long as each other one. With very many micro-batches the idle "
            "share goes to",
            (
                Choice("0", "So says the formula, which takes stages as equal."),
                Choice("1/4", "That is one stage in four; but three of them idle for half of the time."),
                Choice("3/8", "Three stages work half of the time, one all of it: 2.5 of 4 are busy."),
            ),
            right="c",
        ),
    ),
)
