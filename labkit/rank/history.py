"""What this rank has called in its cell, as plain data for the notebook."""

from dataclasses import replace
from typing import Any

from IPython import get_ipython

from labkit.mpi.call import Call, dtype_name
from labkit.mpi.record import history
from labkit.mpi.record.history import Passed
from labkit.mpi.record.position import Position
from labkit.mpi.watched.operation import Here, Operation
from labkit.rank import cells
from labkit.rank.protocol import Called, Remembered


def install() -> None:
    """Every cell begins with an empty history."""
    get_ipython().events.register("pre_run_cell", lambda info: history.forget())


def told() -> Remembered:
    """The calls of this cell. From any thread, at any time: MPI is not asked."""
    entries = [entry for entry in history.calls.copy() if _is_told(entry)]
    numbers = {id(entry): 0 for entry in entries}
    numbers = {key: number for number, key in enumerate(numbers)}
    calls = {id(entry): entry for entry in entries}
    return Remembered(
        tuple(_passed(*entry) if isinstance(entry, tuple) else _called(entry) for entry in calls.values()),
        tuple(numbers[id(entry)] for entry in entries for _ in range(1 + _is_waited_for_at_once(entry))),
        len(history.calls) == history.calls.maxlen,
    )


def _is_told(entry: Call | Passed) -> bool:
    return isinstance(entry, tuple) or entry.verb != "probe"  # which nobody has to answer


def _is_waited_for_at_once(entry: Call | Passed) -> bool:
    """Though nothing says so in the history: by a call of mpi4py's that blocks."""
    return isinstance(entry, tuple) or (isinstance(entry, Operation) and not entry.nonblocking)


def _called(call: Call) -> Called:
    file, line = call.place
    place = cells.place(file, line) if file else ""
    number, tag = call.sequence or 0, call.tag or 0
    told = Called(call.verb, tuple(call.ranks), call.group, number, tag, place, call.source)
    if isinstance(call, Operation):  # which would ask MPI for the rest
        return told
    return replace(told, bytes=call.bytes, dtype=dtype_name(call.dtype) if call.dtype else "")


def _passed(comm: Any, verb: str, peer: int | None, number: int, *here: Any) -> Called:
    place = cells.place(*Position(Here(*here)).place)
    if peer is None:
        return Called(verb, tuple(comm.ranks), comm.key, number, place=place)
    return Called(verb, tuple(comm.partners(peer)), comm.key, tag=number, place=place)
