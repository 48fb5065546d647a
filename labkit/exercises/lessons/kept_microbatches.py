"""A planner that rejects what fits: an exercise of lesson 25."""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch


def _given(generator: torch.Generator, size: int) -> Arguments:
    """The same on all ranks; among three ranks there are fewer micro-batches than stages."""

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    pipeline, data, microbatch = draw(4, 9), draw(2, 5), draw(2, 5)
    microbatches = {2: pipeline * draw(2, 5), 3: pipeline - 2, 4: pipeline * draw(5, 9)}[size]
    layers, layer = pipeline * draw(2, 6), draw(100, 900)
    parameters = draw(1, 50) * layers * layer
    return [(parameters, layers, layer, data, pipeline, microbatches * data * microbatch, microbatch)] * size


def _bytes(under_way: Callable[[int, int], float], cut: bool = True, kept: bool = True) -> Values:
    """By how many micro-batches are under way, of so many stages and micro-batches."""

    def of(
        parameters: int, layers: int, layer: int, data: int, pipeline: int, batch: int, microbatch: int
    ) -> float:
        count = under_way(pipeline, batch // data // microbatch)
        state = 16 * parameters / (pipeline if cut else 1)
        return state + kept * count * microbatch * layer * layers / pipeline

    return lambda arguments: [of(*mine) for mine in arguments]


RANK_BYTES = Exercise(
    task="This planner says how many bytes the first of `pipeline` stages needs, with the schedule 1F1B of "
    "lesson 17. `layer` is what a layer stores of one sample. It rejects configurations that run well, the "
    "more so the larger the batch. **Find the bug and mend it.**",
    stub="""\
def rank_bytes(parameters, layers, layer, data, pipeline, batch, microbatch):
    state = 16 * parameters / pipeline
    under_way = batch // data // microbatch
    return state + under_way * microbatch * layer * layers / pipeline
""",
    solution="""\
def rank_bytes(parameters, layers, layer, data, pipeline, batch, microbatch):
    state = 16 * parameters / pipeline
    under_way = min(pipeline, batch // data // microbatch)
    return state + under_way * microbatch * layer * layers / pipeline
""",
    why="GPipe stores all micro-batches of a step. 1F1B goes backward as soon as it can: its first stage has "
    "as many under way as there are stages, and no more than there are. A planner that errs upward looks "
    "safe, and sends you to more devices than you need.",
    hints=(
        "Double the batch: which term grows? Does 1F1B store more then?",
        "With 1F1B stage s stores at most `pipeline` - s micro-batches; a step may have fewer.",
    ),
    given=_given,
    judge=compare(
        _bytes(min),
        Mistake(
            "That is GPipe's memory: all micro-batches of the step. 1F1B goes backward before.",
            _bytes(lambda stages, microbatches: microbatches),
        ),
        Mistake(
            "There are fewer micro-batches than stages, and no more than there are can be under way.",
            _bytes(lambda stages, microbatches: stages),
        ),
        Mistake(
            "The first stage has more than one micro-batch under way: they come back only from the last.",
            _bytes(lambda stages, microbatches: 1),
        ),
        Mistake("The activations are missing.", _bytes(min, kept=False)),
        Mistake("A stage has the state of its own layers only.", _bytes(min, cut=False)),
        Mistake("That is what the last stage but one stores.", _bytes(lambda s, m: min(s, m) - 1)),
        tolerance=1e-9,
    ),
    limits=(Limit("collectives", lambda arguments: 0, "Each rank can compute that alone."),),
)
