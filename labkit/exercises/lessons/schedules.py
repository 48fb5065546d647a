"""1F1B, written by the learner: the heart of lesson 17."""

from __future__ import annotations

from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.slots import told, wrong_slots


def _sizes(generator: torch.Generator, size: int) -> Arguments:
    """Stages and micro-batches; more of these than of those, so that what is stored can be too much."""
    return [(size, size + int(torch.randint(2, 6, (), generator=generator)))] * size


def _wrong(arguments: tuple[int, int], slots: Any) -> str:
    """The first thing that is wrong with the slots, in a sentence, or ""."""
    from labkit.schedule import stored

    stages, microbatches = arguments
    if wrong := wrong_slots(slots, stages, microbatches, microbatches, most=2 * (microbatches + stages - 1)):
        return wrong
    for stage, held in enumerate(stored(slots)):
        if max(held) > stages - stage:
            return (
                f"Stage {stage} stores {max(held)} micro-batches at once, and {stages - stage} are enough: "
                "after K - s forwards, each further one waits for a backward."
            )
    return ""


def _judge(answers: Answers) -> str:
    stages, microbatches = answers.arguments[0]
    return told(answers, f"{stages} stages and {microbatches} micro-batches")


MY_1F1B = Exercise(
    task="**1F1B**, one forward, one backward: stage $s$ does $K - s$ forwards, and from then on a backward "
    "before each further forward; the backwards that are left come last. Return the slots of all stages.",
    stub="""\
def my_one_forward_one_backward(stages, microbatches):
    slots: list[list] = []
    for stage in range(stages):
        ahead = min(stages - stage, microbatches)
        ...  # your code: append the stage's list of Forward(m) and Backward(m)
    return slots
""",
    solution="""\
from labkit.schedule import Backward, Forward

def my_one_forward_one_backward(stages, microbatches):
    slots: list[list] = []
    for stage in range(stages):
        ahead = min(stages - stage, microbatches)
        slots.append([Forward(m) for m in range(ahead)])
        for m in range(microbatches):
            slots[stage].append(Backward(m))
            if m + ahead < microbatches:
                slots[stage].append(Forward(m + ahead))
    return slots
""",
    why="The last stage goes back with a micro-batch as soon as it has it. The stage before needs one more "
    "under way to have something to do meanwhile, and so on: stage s needs K - s.",
    hints=(
        "Write the lists for two stages and four micro-batches on paper: F0 F1 B0 F2 B1 ... and F0 B0 F1 ...",
        "First `ahead` forwards. Then for each m a Backward(m), and Forward(m + ahead) if there is one.",
    ),
    given=_sizes,
    answer=_wrong,
    judge=_judge,
    limits=(Limit("collectives", lambda arguments: 0, "Only return your answer; the check does the rest."),),
    becomes="one_forward_one_backward",
)
