"""Wrong answers that every exercise must refuse: its solution, with something around it that spoils it.

Each is the source of the solution, and below it a function of the same name that calls it. A cheat is for the
exercises for which `fits` says so; what a learner is told holds one of its `says`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from labkit.exercises.cases import each
from labkit.exercises.describe import Exercise, in_place, returned


@dataclass(frozen=True)
class Cheat:
    """What stands around the call: `before`, and `after`, in which `result` is what the solution returned."""

    fits: Callable[[Exercise], bool]
    says: tuple[str, ...]
    before: str = ""
    after: str = ""

    def of(self, exercise: Exercise) -> str:
        """The source of the wrong answer. Only rank 0 and rank 1 do more than the solution, if any."""
        lines = [*self.before.splitlines(), "result = solution_of_it(*given)", *self.after.splitlines()]
        body = "\n".join(f"    {line}" for line in [*lines, "return result"])
        source = (
            f"{exercise.solution}\nsolution_of_it = {exercise.name}\n\ndef {exercise.name}(*given):\n{body}\n"
        )
        return source.replace("THE_EXERCISE", exercise.name)


def _is_function(exercise: Exercise) -> bool:
    # A solution that calls itself would call what stands around it.
    return exercise.solution.lstrip().startswith("def ") and exercise.solution.count(f"{exercise.name}(") == 1


def _returns(exercise: Exercise) -> bool:
    return _is_function(exercise) and exercise.answer is returned


def _in_place(exercise: Exercise) -> bool:
    return _is_function(exercise) and exercise.answer is in_place


def _tensors_to_leave(exercise: Exercise) -> list[int]:
    """The places of the tensors that the function must leave as they were."""
    drawn = exercise.given(torch.Generator().manual_seed(0), exercise.sizes[0])[0]
    return [
        i for i in exercise.untouched if i < len(drawn) and torch.is_tensor(drawn[i]) and drawn[i].numel()
    ]


def _has_input(exercise: Exercise) -> bool:
    return _is_function(exercise) and bool(_tensors_to_leave(exercise))


def _limited(*measures: str) -> Callable[[Exercise], bool]:
    """Whether each of these has a limit that one more of it breaks."""
    return lambda exercise: (
        _is_function(exercise) and set(measures) <= {limit.measure for limit in exercise.limits}
    )


CHEATS = {
    "only rank 0 right": Cheat(_returns, ("wrong", "differ"), after="if dist.get_rank():\n    result = None"),
    "only rank 0 right, in place": Cheat(
        _in_place, ("wrong",), after="if dist.get_rank():\n    given[0].zero_()"
    ),
    "nothing returned": Cheat(
        _returns,
        # Where a judge has words of its own, that None came stands in what is shown.
        ("othing came back", "got None, which", "got      None", "got      list [None"),
        after="result = None",
    ),
    "nothing done": Cheat(
        _in_place, ("wrong",), before="import copy\ngiven = (copy.deepcopy(given[0]), *given[1:])"
    ),
    "a barrier besides": Cheat(
        # Two of them: where ranks may agree on something by a call, the solution leaves one unused.
        _limited("collectives"),
        ("over budget: collective calls", "deadlock"),
        before="dist.barrier()\ndist.barrier()",
    ),
    "a message that nobody receives": Cheat(
        _limited("messages"),
        ("a message that nobody received", "over budget", "MismatchError"),
        after="if dist.get_rank() == 0:\n    dist.isend(torch.zeros(1), 1)",
    ),
    "a message that nobody sends": Cheat(
        _is_function,
        ("deadlock", "MismatchError"),
        after="if dist.get_rank() == 0:\n    dist.recv(torch.zeros(1), 1)",
    ),
    "input changed": Cheat(
        _has_input,
        ("which its caller goes on using",),
        after="from labkit.exercises.catalogue import exercise_named\n"
        'kept = exercise_named("THE_EXERCISE").untouched\n'
        "with torch.no_grad():\n    for place, one in enumerate(given):\n"
        "        if place in kept and torch.is_tensor(one) and one is not result:\n"
        "            one.mul_(2).add_(1)",
    ),
    "another draw's answer": Cheat(
        lambda exercise: _returns(exercise) and exercise.use is not each,
        ("wrong", "differ", "nobody took"),
        before="from labkit.exercises.catalogue import exercise_named\n"
        "drawn = torch.Generator().manual_seed(1)\n"
        'given = exercise_named("THE_EXERCISE").given(drawn, dist.get_world_size())[dist.get_rank()]',
    ),
}
