"""Check an exercise: run the learner's function on every rank, in worlds of several sizes."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from labkit import LabError
from labkit.exercises import sharing
from labkit.exercises.answer import in_notebook
from labkit.exercises.catalogue import exercise_named
from labkit.exercises.describe import Answers, Arguments, Exercise
from labkit.exercises.judge import LikeSolution
from labkit.exercises.lazy_torch import torch
from labkit.exercises.measure import Run, lost, over, risky, under, unsent, used
from labkit.exercises.measure import changed as changed_argument
from labkit.exercises.newest import defined_by, not_on_the_ranks
from labkit.exercises.progress_file import changed
from labkit.lab import cell, remote
from labkit.lab.outcome import CellError
from labkit.launch.interrupts import interrupts_noted
from labkit.rank.wording import ranks
from labkit.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from labkit.lab.lab import Lab  # which takes a while, and most of what is here needs no lab

DEADLINE = 10.0
"""Seconds for one call of the learner's function. A deadlock is seen earlier."""

_runs: dict[str, Trace] = {}
"""What the ranks did in the last world in which each function was checked."""


@dataclass(frozen=True)
class Verdict:
    """The result of a check: the text that the learner reads, and whether the exercise is solved."""

    text: str
    solved: bool = False
    seed: int | None = None
    """What drew the arguments; None: there was nothing to call."""


def check(name: str) -> None:
    """Run the learner's function on every rank, with fresh random data, and print the verdict.

    As many ranks of the running lab as each world needs take part: sizes 2, 3 and 4 as a rule. A
    wrong rank is named, with what it should have; a deadlock, an error, and a budget that is not kept
    are told. The lab is usable afterwards, and `labkit.show` draws what the ranks did. The heart of a
    lesson then has the name by which later cells call it: theirs is the learner's function once it is
    right, labkit's until then. LabError if there is no such exercise, or no lab.

    >>> labkit.check("swap")
    not solved yet: there is no function swap on ranks 0-3; run the cell that defines it, on all ranks
    """
    lab, exercise, verdict = _judged(name, f"check({name!r})")
    if exercise.becomes:
        remote.call(lab, "exercises.on_rank.go_on", name, verdict.solved, asked=f"to go on after {name}")
    _keep(name, verdict)
    print(verdict.text + defined_by(verdict.text))
    try:
        sharing.renew()
    except LabError as error:  # of no matter for the answer
        print(error)


def require(name: str) -> None:
    """Check an exercise for another grader: raise AssertionError with the verdict if it is not solved.

    Nothing is printed or noted, and no later cell goes on with another function.

    >>> require("swap")
    Traceback (most recent call last):
        ...
    AssertionError: not solved yet: there is no function swap on ranks 0-3; run ...
    """
    _, _, verdict = _judged(name, f"require({name!r})")
    if not verdict.solved:
        raise AssertionError(verdict.text + defined_by(verdict.text))


def _judged(name: str, asked: str) -> tuple[Lab, Exercise, Verdict]:
    """The verdict on what the running lab's ranks have under that name."""
    from labkit.lab.session import running

    lab, exercise = running(asked), exercise_named(name)
    elsewhere = not_on_the_ranks(name)
    return lab, exercise, Verdict(f"not solved yet: {elsewhere}") if elsewhere else grade(lab, exercise)


def _keep(name: str, verdict: Verdict) -> None:
    """Note the verdict with the answer that got it, to be handed in; a right one is not given up again."""
    source = in_notebook(name)
    with changed() as progress:
        if verdict.solved:
            progress["exercises"][name] = True
        before = progress["answers"].get(name, {})
        if source and (verdict.solved or not before.get("solved")) or verdict.solved and not before:
            progress["answers"][name] = {
                "source": source,
                "solved": verdict.solved,
                "told": verdict.text,
            }


def show(name: str) -> Figure:
    """Draw what the ranks did when the learner's function was checked last, in the last world of that check.

    >>> labkit.show("swap")                     # a lane for each rank, an arrow for each message
    Traceback (most recent call last):
        ...
    labkit.LabError: asked: to show what swap did
    found: it has not run here yet
    fix:   labkit.check("swap") first

    LabError if there is no such exercise, or it was not checked in this kernel.
    """
    exercise_named(name)
    if name not in _runs:
        raise LabError(f"to show what {name} did", "it has not run here yet", f'labkit.check("{name}") first')
    trace = _runs[name]
    return trace.plot(f"{name} in a world of {trace.world_size}")


def expected(lab: Lab, exercise: Exercise, seed: int) -> dict[int, list]:
    """What the solution gives in each world, where that is compared: for `grade` with the same seed.

    Asked before an answer that is not to be trusted has been on the ranks, which would have a say in it. No
    cell has the solution, and the ranks' names and history are as after a start.
    """
    found, asked = {}, f"to judge {exercise.name}"
    deadline = remote.CALL_DEADLINE + DEADLINE  # the first call reads the lessons, too
    for size in exercise.sizes if isinstance(exercise.judge, LikeSolution) else ():
        given = exercise.name, size, seed + size, exercise.solution
        remote.call(lab, "exercises.on_rank.run_known", *given, asked=asked, deadline=deadline)
        found[size] = [run.found for run in _came_of_it(lab, exercise, size)]
    if found:
        remote.call(lab, "clean", asked=asked)
    return found


def grade(
    lab: Lab, exercise: Exercise, seed: int | None = None, known: dict[int, list] | None = None
) -> Verdict:
    """The verdict on what the ranks of `lab` have under the exercise's name.

    `seed` draws the arguments of an earlier verdict once more; without it they are new. `known` is what
    `expected` has said for them.
    """
    lab.require_running()
    undone = _undone(lab, exercise)
    if undone:
        return Verdict(f"not solved yet: {undone}")
    seed = secrets.randbelow(2**31) if seed is None else seed
    sizes, spent = [size for size in exercise.sizes if size <= len(lab)], ""
    for size in sizes:
        problem, spent = _try(lab, exercise, size, seed + size, (known or {}).get(size))
        if problem:
            if lab.is_running():
                lab.recover()  # half a conversation must not reach the next cell
            return Verdict(f"not solved yet: in a world of {size}, {problem}", seed=seed)
    if too_large := exercise.sizes[len(sizes) :]:
        so_far = f"right {_worlds(sizes)}, and " if sizes else ""
        wanted = f"{so_far}to be tried {_worlds(too_large)}"
        few = f"this lab has {len(lab)} rank{'s' * (len(lab) > 1)}: labkit.start({too_large[-1]})"
        return Verdict(f"not solved yet: {wanted}; {few}", seed=seed)
    spent = f"\nin the world of {sizes[-1]}: {spent}" if spent else ""
    where = _worlds(sizes)
    return Verdict(f"solved: {exercise.name} is right on every rank, {where}{spent}", True, seed)


def _worlds(sizes: Sequence[int]) -> str:
    *most, last = map(str, sizes)
    return f"in worlds of {', '.join(most)} and {last}" if most else f"in a world of {last}"


def _undone(lab: Lab, exercise: Exercise) -> str:
    """The next step, if the function is not there on every rank or is still the stub."""
    told = remote.call(lab, "exercises.on_rank.written", exercise.name, asked=f"to check {exercise.name}")
    if "missing" in told:
        where = ranks([r for r, state in enumerate(told) if state == "missing"])
        return f"there is no function {exercise.name} on {where}; run the cell that defines it, on all ranks"
    if "untouched" in told:
        first = (
            f"{exercise.name} is still as the lesson gave it: find the bug, change that cell"
            if exercise.whole
            else f"write {exercise.call} in the cell above"
        )
        return f'{first}, run that cell and then this one\nlabkit.hint("{exercise.name}") gives a hint'
    return ""


def _try(lab: Lab, exercise: Exercise, size: int, seed: int, known: list | None) -> tuple[str, str]:
    """In one world: the problem and what was used of the limits; the first is "" if all is well."""
    with lab.trace() as trace:
        problem, left = _execute(lab, "run", exercise, size, seed)
    _runs[exercise.name] = Trace(size, tuple(e for e in trace.events if e.rank < size))
    if not problem and any(limit.measure == "time" for limit in exercise.limits):
        problem, left = _execute(lab, "compete", exercise, size, seed, exercise.solution)
    if problem:
        return problem, ""
    from labkit.rank.settings import as_at_start  # which needs torch, as what is judged does

    runs = _came_of_it(lab, exercise, size)
    with as_at_start():
        arguments, expected = _arguments(exercise, size, seed), []
        if isinstance(exercise.judge, LikeSolution):
            expected = known or _known(lab, exercise, size, seed, exercise.solution)
            assert expected, f"the solution of {exercise.name} fails"
        answers = Answers(arguments, [run.found for run in runs], expected, _runs[exercise.name])
        problem = risky(runs) or _wrong(lab, exercise, answers, seed) or lost(trace) or unsent(runs)
        problem = problem or changed_argument(runs) or left
        if not problem and (too_much := over(exercise, answers, trace, runs)):
            problem = f"every rank is right, but over budget: {too_much}"
        if not problem:
            problem = next(filter(None, (demand(answers) for demand in exercise.demands)), "")
        if not problem and (too_little := under(exercise, answers, trace, runs)):
            problem = f"the values are right, but not by the way that was asked for: {too_little}"
        return problem, used(exercise, answers, trace, runs)


def _came_of_it(lab: Lab, exercise: Exercise, size: int) -> list[Run]:
    """What the last function that was run on the ranks gave and used."""
    asked = f"to check {exercise.name}"
    return remote.call(lab, "exercises.on_rank.last", asked=asked, targets=range(size))


def _known(lab: Lab, exercise: Exercise, size: int, seed: int, source: str) -> list:
    """What the solution, or a known wrong answer, gives on each rank; empty if that fails."""
    problem, _ = _execute(lab, "run_known", exercise, size, seed, source)
    return [] if problem else [run.found for run in _came_of_it(lab, exercise, size)]


def _wrong(lab: Lab, exercise: Exercise, answers: Answers, seed: int) -> str:
    """What the judge says; where values differ from the solution's, also which known mistake gives them."""
    problem = exercise.judge(answers)
    if not problem or not isinstance(exercise.judge, LikeSolution):
        return problem
    return "\n".join(filter(None, [problem, _diagnosis(lab, exercise, exercise.judge, answers, seed)]))


def _diagnosis(lab: Lab, exercise: Exercise, judge: LikeSolution, answers: Answers, seed: int) -> str:
    """What is said of the known wrong answers that give what the ranks gave; "" if they are not of one kind.

    In a small world different mistakes may give the same values: then larger ones decide.
    """
    fits = [n for n, wrong in enumerate(exercise.wrong) if wrong.explains]
    for size in (size for size in exercise.sizes if answers.size <= size <= len(lab)):
        again = seed - answers.size + size
        if size != answers.size:
            problem, _ = _execute(lab, "run", exercise, size, again)
            if problem:
                return ""
            answers = replace(answers, found=[run.found for run in _came_of_it(lab, exercise, size)])
        sources = {n: exercise.answer_of(exercise.wrong[n]) for n in fits}
        gave = {n: _known(lab, exercise, size, again, source) for n, source in sources.items()}
        fits = [n for n in fits if gave[n] and not judge.wrong(replace(answers, expected=gave[n]))]
        if len({exercise.wrong[n].says for n in fits}) < 2:
            break
        seed, answers = again, replace(answers, arguments=_arguments(exercise, size, again))
    said = {exercise.wrong[n].says for n in fits}
    return said.pop() if len(said) == 1 else ""


def _execute(
    lab: Lab, function: str, exercise: Exercise, size: int, seed: int, *more: str
) -> tuple[str, str]:
    """Run it as a cell, under a deadline: how it failed, and what it left under way; "" if not."""
    source = remote.as_cell(f"exercises.on_rank.{function}", exercise.name, size, seed, *more)
    with interrupts_noted() as interrupted:
        result = remote.send_cell(lab[:], source)
        outcome = cell.follow(lab, result, DEADLINE, interrupted=interrupted)
    try:
        replace(outcome, left="").raise_for_failure()
    except CellError as error:
        # Where what the check gave to the function waits, there is no line of the learner's.
        return str(error).replace(f"line 1: {source}", f"inside labkit.check({exercise.name!r})"), ""
    return "", outcome.left


def _arguments(exercise: Exercise, size: int, seed: int) -> Arguments:
    return exercise.given(torch.Generator().manual_seed(seed), size)
