"""One rank's part of a trace: what its process records from `start` to `stop`, as plain data."""

import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from labkit import LabError
from labkit.mpi.call import Call, dtype_name
from labkit.mpi.record import record
from labkit.rank import cells
from labkit.rank import other_backends as other_groups
from labkit.rank.clocks import measure
from labkit.rank.wording import THE_CELL
from labkit.trace.records import Moment, Offset, Operation, Place, Recording


@dataclass
class _Started:
    offset: Offset
    cell: int  # IPython's number of the first cell to come
    spans: dict[int, tuple[Moment, Moment]] = field(default_factory=dict)  # when each cell ran, by number
    run_code: Callable | None = None  # what is there when nothing is recorded


_started: _Started | None = None


def start() -> None:
    """Record from now on. Collective over all ranks, whose clocks are compared."""
    global _started
    off()
    shell = get_ipython()
    _started = _Started(measure(), shell.execution_count if shell else 1)
    if shell:
        _started.run_code = shell.run_code
        shell.run_code = _timed(shell)  # its events for cells have milliseconds of its own work between them
    other_groups.watch()
    record.start()


def off() -> list[Call]:
    """Stop recording, whatever state it is in; what was recorded. On this rank alone."""
    global _started
    if _started is not None and _started.run_code is not None:
        get_ipython().run_code = _started.run_code
    calls, record.records, _started = record.records or [], None, None
    other_groups.unwatch()
    return calls


def stop() -> Recording | None:
    """Stop, and tell what was recorded; None if `start` was not called. Collective over all ranks."""
    started, now = _started, _moment()
    calls = off()
    if started is None:
        return None
    offsets = [started.offset]
    try:
        offsets.append(measure())
    except LabError:  # some rank is no more, or still busy: then the first measurement has to do
        pass
    rank = _rank()
    operations = tuple(_operation(rank, call, now, started.cell) for call in calls)
    return Recording(rank, operations, tuple(started.spans.values()), tuple(offsets))


def _rank() -> int:
    import torch.distributed as dist

    return dist.get_rank()


def _timed(shell: InteractiveShell) -> Callable:
    """IPython's method that runs one statement of a cell, noting when."""
    run_code, spans = shell.run_code, _started.spans

    async def timed(*args: Any, **kwargs: Any) -> Any:
        begin = _moment()
        try:
            return await run_code(*args, **kwargs)
        finally:
            first = spans.get(shell.execution_count, (begin,))[0]
            spans[shell.execution_count] = first, _moment()

    return timed


def _moment() -> Moment:
    record.look(record.clock())
    return Moment(*record.looks[-1])


def _at(moment: int | None) -> Moment | None:
    return None if moment is None else Moment(moment, record.cpu(moment))


def _operation(rank: int, call: Call, stop: Moment, first_cell: int) -> Operation:
    return Operation(
        rank=rank, verb=call.verb, ranks=tuple(call.ranks), start=_at(call.start), end=_at(call.end) or stop,
        ended=call.end is not None, failed=call.failed, waited=_at(call.waited), source=call.source,
        group=call.group, sequence=call.sequence or 0, tag=call.tag or 0, root=call.root, op=call.op or "",
        bytes=call.bytes, dtype=dtype_name(call.dtype) if call.dtype else "",
        place=_place(call.place, first_cell),
    )  # fmt: skip


def _place(place: tuple[str | None, int], first_cell: int) -> Place | None:
    file, line = place
    if file is None:
        return None
    shell = get_ipython()
    number = shell.compile._filename_map.get(file) if shell else None  # the only place where IPython keeps it
    text = linecache.getline(file, line).strip()
    cell = None if number is None else max(0, number - first_cell + 1)
    return Place(text, line, cell, "" if cells.name(file) == THE_CELL else cells.name(file))
