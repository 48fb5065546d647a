"""A schedule for stages with room for fewer micro-batches than there are stages: lesson 17."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import compare
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons.networks import gradient
from labkit.exercises.lessons.pipelines import gradients, pipeline
from labkit.exercises.lessons.slots import told, wrong_slots

if TYPE_CHECKING:
    from labkit.exercises.lessons.pipelines import Pipeline


def _room(generator: torch.Generator, size: int) -> Arguments:
    """Room for one micro-batch less than there are stages; two or three groups of `room`, and a last one."""
    room = max(1, size - 1)
    groups = int(torch.randint(2, 4, (), generator=generator))
    last = int(torch.randint(1, room + 1, (), generator=generator))
    return [(size, room * groups + last, room)] * size


def fewest_slots(stages: int, microbatches: int, room: int) -> int:
    """No schedule takes fewer, if each pass takes one slot and `room` is less than `stages`."""
    groups = -(-microbatches // room)
    return 2 * stages * groups + 2 * ((microbatches - 1) % room)


def _network_for(stages: int, microbatches: int, room: int) -> Pipeline:
    return pipeline(torch.Generator().manual_seed(microbatches), stages, microbatches)


def _executed(arguments: tuple[int, int, int], result: Any) -> torch.Tensor | str:
    """The gradient that the slots leave on this rank; or what is wrong with them, and then nothing is run."""
    from labkit.algorithms.pipeline import run_pipeline

    stages, microbatches, room = arguments
    if wrong := wrong_slots(result, *arguments, most=fewest_slots(*arguments)):
        return wrong
    made, batches, loss = _network_for(*arguments)
    own = dist.get_rank()
    run_pipeline(result[own], made[own], batches, loss, batches[0][0])
    return gradient(made[own])


def _judged(answers: Answers) -> str:
    stages, microbatches, room = answers.arguments[0]
    wrong = told(answers, f"{stages} stages, {microbatches} micro-batches and room for {room}")
    return wrong or compare(lambda arguments: gradients(*_network_for(*arguments[0])))(answers)


PIPELINE_IN_ROOM = Exercise(
    task="Each rank has room for the activations of `room` micro-batches, fewer than there are stages. "
    "Return the slots of all stages. Budget, if each pass takes one slot: $2K$ slots for each group of "
    "`room` micro-batches, of which the last may be smaller, and 2 more for each micro-batch of that last "
    "group but its first.",
    stub="""\
def pipeline_in_room(stages, microbatches, room):
    slots = []
    for stage in range(stages):
        time = {}  # of each Forward(m) and Backward(m) the slot in which it runs
        ...  # your code: fill it
        slots.append(sorted(time, key=time.get))
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
        "When does micro-batch m start at stage 0? 2 slots after the one before it, and 2K slots after "
        "micro-batch m - room, whichever is later.",
        "Forward at start + stage, backward at start + 2K - 1 - stage, with start = 2K (m // room) + "
        "2 (m % room).",
    ),
    given=_room,
    answer=_executed,
    judge=_judged,
    limits=(Limit("collectives", lambda arguments: 0, "Only return your answer; the check does the rest."),),
)
