"""What runs on a rank when an exercise is checked: the learner's function in a world of a given size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import numpy
import torch
import torch.distributed as dist
from IPython import get_ipython

from labkit import algorithms
from labkit.exercises.catalogue import exercise_named
from labkit.exercises.describe import Exercise
from labkit.exercises.held import Held
from labkit.exercises.measure import Run
from labkit.exercises.requests import followed
from labkit.rank.settings import as_at_start

REPEATS = 5
"""Calls of either function of which the fastest counts, where time is limited."""

_last = Run()
_groups: dict[tuple[int, int], dist.ProcessGroup] = {}  # by default group and size


def written(name: str) -> str:
    """What has become of the stub on this rank: "missing", "untouched" or "written"."""
    names = get_ipython().user_ns
    function = names.get(name)
    if not callable(function):
        return "missing"
    stub = dict(names)  # it may name a function as the default of a parameter
    exec(exercise_named(name).stub, stub)
    return "untouched" if _meaning(function) == _meaning(stub[name]) else "written"


def _meaning(written: Any) -> Any:
    """What a function or class does, to compare: its code, without the places that it was read from."""
    if isinstance(written, CodeType):
        names = written.co_names, written.co_varnames
        return written.co_code, names, [_meaning(constant) for constant in written.co_consts]
    if isinstance(written, type):
        return {name: _meaning(part) for name, part in vars(written).items() if hasattr(part, "__func__")}
    function = getattr(written, "__func__", written)
    return _meaning(function.__code__) if hasattr(function, "__code__") else written


def run(name: str, size: int, seed: int) -> None:
    """Call the learner's function as in a world of the first `size` ranks; the others have no part.

    In a cell, so that labkit can watch it, and tell its line. `last` gives what came of it. While it runs,
    labkit's own function that the exercise asks for is not to be had.
    """
    global _last
    _last = Run()
    with as_at_start(), world(size) as member:
        if not member:
            return
        exercise, names = exercise_named(name), get_ipython().user_ns
        measures = {limit.measure for limit in exercise.limits}
        arguments = draw(exercise, size, seed)
        memory = Held(arguments)
        with (
            shut(exercise, names),
            followed() as requests,
            memory if "memory" in measures else nullcontext(),
        ):
            result = exercise.use(names[name], arguments)
        before = draw(exercise, size, seed)
        kept = {i: name for i, name in exercise.untouched.items() if i < len(arguments)}
        changed = next((name for i, name in kept.items() if not same(arguments[i], before[i])), "")
        found = portable(exercise.answer(arguments, result))
        _last = Run(found, memory.peak, 0.0, requests.risky, requests.unsent, changed)


def run_known(name: str, size: int, seed: int, source: str) -> None:
    """Call a known answer, the solution or a wrong one, in the same world with the same arguments.

    `last` gives what came of it.
    """
    global _last
    _last = Run()
    exercise = exercise_named(name)
    names = dict(get_ipython().user_ns)
    for statement in exercise.imports:
        exec(statement, names)
    with as_at_start(), world(size) as member:
        if not member:
            return
        names.update(rank=dist.get_rank(), world_size=size)
        exec(compile(source, f"<a known answer to {name}>", "exec"), names)
        arguments = draw(exercise, size, seed)
        result = exercise.use(names[name], arguments)
        _last = Run(portable(exercise.answer(arguments, result)))


@contextmanager
def shut(exercise: Exercise, names: dict[str, Any]) -> Iterator[None]:
    """Keep labkit's ready-made function from the learner's while that is checked, under whatever name.

    The code of labkit's is exchanged and not its name, as a cell may have imported it under another one. In
    the cells' names it is the name: after an earlier check it may be the learner's function itself.
    """
    name = exercise.becomes
    if not name:
        yield
        return
    kept = {function: function.__code__ for function in _functions(getattr(algorithms, name, None))}
    there = names.get(name)
    refusing: dict[str, Any] = {}
    problem = f"{exercise.name} calls {name}", "that is what you shall write", f"write it in {exercise.name}"
    exec(f"def refused(*_, **__): raise __import__('labkit').LabError(*{problem!r})", refusing)
    try:
        for function in kept:
            function.__code__ = refusing["refused"].__code__
        if there is not None:
            names[name] = refusing["refused"]
        yield
    finally:
        for function, code in kept.items():
            function.__code__ = code
        if there is not None:
            names[name] = there


def _functions(ready: Any) -> list[FunctionType]:
    """The functions of labkit's answer, which is one, or a class: whose code can be exchanged."""
    parts = vars(ready).values() if isinstance(ready, type) else [ready]
    found = [getattr(part, "__func__", part) for part in parts]
    return [part for part in found if isinstance(part, FunctionType) and not part.__code__.co_freevars]


def compete(name: str, size: int, seed: int, solution: str) -> None:
    """Time the learner's function and the solution, a source, in turns; `last` then tells the ratio, too.

    Processor time: other programs on the machine would make a fair answer look slow.
    """
    global _last
    with as_at_start(), world(size) as member:
        if not member:
            return
        exercise, names = exercise_named(name), get_ipython().user_ns
        solved = dict(names)
        exec(solution, solved)
        best = [float("inf"), float("inf")]
        for _ in range(REPEATS):
            for i, function in enumerate((names[name], solved[name])):
                arguments = draw(exercise, size, seed)
                dist.barrier()
                start = time.thread_time()
                function(*arguments)
                best[i] = min(best[i], time.thread_time() - start)
        _last = replace(_last, time=best[0] / best[1])


def last() -> Run:
    """What the last `run` or `compete` on this rank gave, once: it is nobody else's to read."""
    global _last
    gave, _last = _last, Run()
    return gave


def go_on(name: str, solved: bool) -> None:
    """Give later cells the learner's function, or the solution, by the name under which they call it."""
    exercise, names = exercise_named(name), get_ipython().user_ns
    found = {name: names.get(name)}
    if not solved:
        exec(exercise.solution, names, found)
    names[exercise.becomes] = found[name]


def draw(exercise: Exercise, size: int, seed: int) -> tuple:
    """This rank's arguments."""
    return exercise.given(torch.Generator().manual_seed(seed), size)[dist.get_rank()]


def same(value: Any, before: Any) -> bool:
    """Whether an argument is as it was: its numbers, its type and its length; of a module the weights."""
    if torch.is_tensor(before):
        return torch.is_tensor(value) and value.dtype == before.dtype and torch.equal(value, before)
    if isinstance(before, torch.nn.Module):
        return same(dict(value.state_dict()), dict(before.state_dict()))
    if isinstance(before, dict):
        return value.keys() == before.keys() and all(same(value[key], before[key]) for key in before)
    if isinstance(before, (list, tuple)):
        return len(value) == len(before) and all(map(same, value, before))
    return value == before if isinstance(before, (int, float, str)) else True


@contextmanager
def world(size: int) -> Iterator[bool]:
    """Make the first `size` ranks the whole world: default group and `world_size`; who is in it gets True."""
    names, whole = get_ipython().user_ns, dist.group.WORLD
    key = id(whole), size
    if size != whole.size() and key not in _groups:
        _groups[key] = dist.new_group(range(size))
    before = {name: names[name] for name in ("rank", "world_size") if name in names}
    if dist.get_rank() >= size:
        yield False
        return
    dist.group.WORLD = _groups.get(key, whole)
    names.update(rank=dist.get_rank(), world_size=size)
    try:
        yield True
    finally:
        dist.group.WORLD = whole
        names.update(before)


def portable(value: Any, depth: int = 20) -> Any:
    """What can travel to the notebook and be judged there: plain numbers, tensors and lists of such.

    Anything else goes as its name, as does what lies too deep, or raises when it is asked for its numbers.
    """
    try:
        if depth == 0:
            return f"a {type(value).__name__}"
        if torch.is_tensor(value):
            ours = type(value).__module__.partition(".")[0] == "torch"
            return (value if ours else value.as_subclass(torch.Tensor)).detach().clone().cpu()
        if isinstance(value, dict):
            return {str(key): portable(item, depth - 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [portable(item, depth - 1) for item in value]
        if value is None or isinstance(value, bool):
            return value
        plain = next((kind for kind in (int, float, str) if isinstance(value, kind)), None)
        if plain is not None:
            return value if type(value) is plain else _MADE_PLAIN[plain](value)
        if isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
            return torch.as_tensor(value.copy())
        return portable(value.item(), depth - 1)
    except Exception:  # whatever a class of the learner's raises
        return f"a {type(value).__name__}"


_MADE_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
}
"""What makes a number or text of a subclass one of the class itself, whatever the subclass says of it."""
