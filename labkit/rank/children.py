"""What a cell defined, in the processes that it starts: those that are spawned have nothing of the cell.

multiprocessing names a function or class to such a process and leaves it to find it. One of a cell is
nowhere: a worker of a Pool dies of that, and another takes its place, for ever. So it goes along, with what
it uses, and is defined there under its name. A process that is forked has it, and is sent the name alone.
"""

import hashlib
import io
import multiprocessing
import pickle
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing import context, reduction
from multiprocessing.pool import CLOSE, TERMINATE, IMapIterator, Pool
from types import FunctionType
from typing import Any
from weakref import WeakValueDictionary

from labkit import LabError

_defined: dict[str, bytes] = {}
"""In such a process: what was sent last under each name, in short."""


def install() -> None:
    """Let what multiprocessing sends from here on have its definitions, and a Pool whose workers die end."""
    reduction.ForkingPickler.reducer_override = _reduced  # type: ignore[attr-defined,method-assign]
    begin, exited = Pool.__init__, getattr(Pool, "_join_exited_workers", None)
    pools: WeakValueDictionary[int, Any] = WeakValueDictionary()
    died: Counter[int] = Counter()

    def __init__(pool: Any, *args: Any, **options: Any) -> None:
        begin(pool, *args, **options)
        died.pop(id(pool._pool), None)
        pools[id(pool._pool)] = pool

    def joined(workers: list[Any]) -> bool:
        codes, pool = [w.exitcode for w in workers if w.exitcode], pools.get(id(workers))
        died[id(workers)] += len(codes)
        if codes and pool is not None and died[id(workers)] > 2 * len(workers):
            _end(pool, died[id(workers)], codes[-1])
            return False
        return bool(exited(workers))

    def dropped(queue: Any, handler: threading.Thread, size: int) -> None:
        """Take the tasks that are left out of the queue, and do not make them here, which may raise."""
        with queue._rlock:
            while handler.is_alive() and queue._reader.poll():
                queue._reader.recv_bytes()
                time.sleep(0)

    if hasattr(Pool, "_help_stuff_finish"):
        Pool._help_stuff_finish = staticmethod(dropped)  # type: ignore
    if exited is not None:  # another Python might do it by another name
        Pool.__init__, Pool._join_exited_workers = __init__, staticmethod(joined)  # type: ignore


def _end(pool: Any, count: int, code: int) -> None:
    """Start no more workers, and let whoever waits for results have the reason."""
    pool._state, pool._worker_handler._state = CLOSE, TERMINATE
    found = f"{count} of its workers have died one after the other, the last with exit code {code}"
    fix = "see what they wrote: an initializer that raises, or a task that cannot be made there, ends each"
    error = LabError("a Pool of processes", found, fix)
    for job in list(pool._cache.values()):
        if isinstance(job, IMapIterator):
            job._set(job._index, (False, error))  # type: ignore[attr-defined,method-assign]
        while not isinstance(job, IMapIterator) and not job.ready():
            job._set(0, (False, error))


def _reduced(pickler: pickle.Pickler, thing: Any) -> Any:
    if not isinstance(thing, (type, FunctionType)) or thing.__module__ != "__main__" or not _spawned():
        return NotImplemented
    import cloudpickle

    name = thing.__qualname__
    try:
        return defined, (name, cloudpickle.dumps(thing))
    except Exception as error:
        found = f"it uses what cannot be sent to another process: {type(error).__name__}: {error}"
        fix = 'give that to it as an argument, or have the processes forked: get_context("fork")'
        raise LabError(f"{name} in a process that is spawned", found, fix) from None


def _spawned() -> bool:
    """Whether a process that is spawned is being started, or runs: what is sent may be for it."""
    kinds = (context.SpawnProcess, context.ForkServerProcess)
    return context.get_spawning_popen() is not None or any(
        isinstance(child, kinds) for child in multiprocessing.active_children()
    )


def defined(name: str, definition: bytes) -> Any:
    """In a child: the function or class of that name, defined as `definition` says if it is not yet."""
    main, key = sys.modules["__main__"], hashlib.sha256(definition).digest()
    here = getattr(main, name, None)
    if here is None or _defined.get(name, key) != key:
        here = _Definition(io.BytesIO(definition)).load()
        _defined[name] = key
        if name.isidentifier():
            setattr(main, name, here)
    return here


class _Definition(pickle.Unpickler):
    """Has functions of cells find their names, and set them, where they find each other: in `__main__`."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        return _in_main(found) if name == "_make_function" else found


def _in_main(make: Callable[..., FunctionType]) -> Callable[..., FunctionType]:
    def made(code: Any, names: dict[str, Any], *more: Any) -> FunctionType:
        return make(code, vars(sys.modules["__main__"]), *more)

    return made
