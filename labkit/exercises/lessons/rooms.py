"""A schedule for stages with room for fewer micro-batches than there are stages: lesson 17."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import compare
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons.networks import gradient
from labkit.exercises.lessons.pipelines import gradients, pipeline
from labkit.exercises.lessons.slots import wrong_slots

if TYPE_CHECKING:
    from labkit.exercises.lessons.pipelines import Pipeline


def _room(generator: torch.Generator, size: int) -> Arguments:
    """Room for one micro-batch less than there are stages, and the last group of `room` has one."""
    room = max(1, size - 1)
    return [(size, 1 + room * int(torch.randint(2, 4, (), generator=generator)), room)] * size


def _network_for(stages: int, microbatches: int, room: int) -> Pipeline:
    return pipeline(torch.Generator().manual_seed(microbatches), stages, microbatches)


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
        return compare(lambda arguments: gradients(*_network_for(*arguments[0])))(answers)
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
