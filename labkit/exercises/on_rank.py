"""What runs on a rank when an exercise is checked: the learner's function in a world of a given size."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import CodeType
from typing import Any

import torch
import torch.distributed as dist
from IPython import get_ipython
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from labkit.exercises.catalogue import exercise_named
from labkit.exercises.describe import Exercise
from labkit.exercises.measure import Run

REPEATS = 5
"""Calls of either function of which the fastest counts, where time is limited."""

_last = Run()
_groups: dict[tuple[int, int], dist.ProcessGroup] = {}  # by default group and size


def written(name: str) -> str:
    """What has become of the stub on this rank: "missing", "untouched" or "written"."""
    function = get_ipython().user_ns.get(name)
    if not callable(function):
        return "missing"
    stub: dict = {}
    exec(exercise_named(name).stub, stub)
    code = getattr(function, "__code__", None)
    return "untouched" if code and _meaning(code) == _meaning(stub[name].__code__) else "written"


def _meaning(code: CodeType) -> tuple:
    constants = [c for c in code.co_consts if not hasattr(c, "co_code")]
    return code.co_code, code.co_names, code.co_varnames, constants


def run(name: str, size: int, seed: int) -> None:
    """Call the learner's function as in a world of the first `size` ranks; the others have no part.

    In a cell, so that labkit can watch it, and tell its line. `last` gives what came of it.
    """
    global _last
    _last = Run()
    with world(size) as member:
        if not member:
            return
        exercise, names = exercise_named(name), get_ipython().user_ns
        measures = {limit.measure for limit in exercise.limits}
        arguments = draw(exercise, size, seed)
        memory = Memory(arguments)
        with memory if "memory" in measures else nullcontext():
            result = names[name](*arguments)
        _last = Run(_portable(exercise.answer(arguments, result)), memory.peak)


def compete(name: str, size: int, seed: int) -> None:
    """Time the learner's function and the solution in turns; `last` then tells the ratio, too.

    Processor time: other programs on the machine would make a fair answer look slow.
    """
    global _last
    with world(size) as member:
        if not member:
            return
        exercise, names = exercise_named(name), get_ipython().user_ns
        solved = dict(names)
        exec(exercise.solution, solved)
        best = [float("inf"), float("inf")]
        for _ in range(REPEATS):
            for i, function in enumerate((names[name], solved[name])):
                arguments = draw(exercise, size, seed)
                dist.barrier()
                start = time.thread_time()
                function(*arguments)
                best[i] = min(best[i], time.thread_time() - start)
        _last = Run(_last.found, _last.memory, best[0] / best[1])


def last() -> Run:
    """What the last `run` or `compete` on this rank gave."""
    return _last


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


class Memory(TorchDispatchMode):
    """Counts the bytes of tensors that operations make, while they live; those of `given` are not new."""

    def __init__(self, given: Iterable[object] = ()) -> None:
        super().__init__()
        self.peak = self._now = 0
        self._known = {t.untyped_storage()._cdata for t in tree_iter(given) if torch.is_tensor(t)}

    def __torch_dispatch__(
        self, function: Callable[..., Any], types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if torch.is_tensor(tensor):
                self._note(tensor.untyped_storage())
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self._now += size
        self.peak = max(self.peak, self._now)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._now -= size


def _portable(value: Any) -> Any:
    """What can travel to the notebook and be judged there; anything else goes as its name."""
    if torch.is_tensor(value):
        return value.detach().clone().cpu()
    if isinstance(value, dict):
        return {str(key): _portable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_portable(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.item() if hasattr(value, "item") else f"a {type(value).__name__}"
