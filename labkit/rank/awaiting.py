"""`await` in a cell: the event loop of cells, which runs inside a request of the engine's own loop.

A cell that awaits is a task there. A plain cell runs beside every loop, as a script does, so it may call
`asyncio.run`. Tasks that a cell leaves go on while the rank is idle, as they do in a notebook. The loop is
not the engine's: an interrupt that is raised in a task goes through the loop that runs it.
"""

import asyncio
import os
import selectors
import signal
import sys
import threading
import types
from collections.abc import Awaitable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from labkit.rank.cells import in_cell
from labkit.rank.tracebacks import short

TURN, PAUSE = 0.005, 0.02
"""Seconds for which tasks go on while the rank is idle, and seconds between two such turns."""
LONGEST = 10.0
"""Seconds after which a task that holds an idle rank, as a receive does that nobody meets, is interrupted."""
LAST = 1.0
"""Seconds that tasks have to end after they were cancelled."""


class _Selector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]  # it depends on the system
    """Knows whether the loop waits for a file or another thread only, and not until some time."""

    without_end = False

    def select(self, timeout: float | None = None) -> Any:
        self.without_end = timeout is None
        try:
            return super().select(timeout)
        finally:
            self.without_end = False


class _Loop(asyncio.SelectorEventLoop):
    """Knows whether anything can wake it up."""

    def __init__(self) -> None:
        self.waits, self.in_threads, self._threads = _Selector(), 0, set(threading.enumerate())
        super().__init__(self.waits)
        self.files = len(self.waits.get_map())  # its own, by which other threads wake it
        self.set_exception_handler(_tell)

    def run_in_executor(self, executor: Any, func: Any, *given: Any) -> Any:  # type: ignore[override]
        """Counts what runs in threads, for which the loop is woken."""
        future = super().run_in_executor(executor, func, *given)
        self.in_threads += 1
        future.add_done_callback(self._back)
        return future

    def _back(self, future: asyncio.Future) -> None:
        self.in_threads -= 1

    def has_files(self) -> bool:
        """Whether it waits for any file, as a server does for its socket."""
        return len(self.waits.get_map()) > self.files

    def woken_by(self) -> set[str]:
        """What may still wake it up, while it waits: "time", "file", "thread"."""
        others = {t for t in threading.enumerate() if t not in self._threads and not _of_executor(t)}
        may = {"time": not self.waits.without_end, "file": self.has_files()}
        return {name for name, so in {**may, "thread": self.in_threads or others}.items() if so}


def _of_executor(thread: threading.Thread) -> bool:
    return thread.name.startswith("asyncio_")


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say what happened in a task for which nobody waits, as short as a cell's own error."""
    error = context.get("exception")
    if isinstance(error, KeyboardInterrupt):  # of which is told where it was asked for
        return
    lines = short(type(error), error, error.__traceback__) if error else []
    print(context["message"], *lines, sep="\n", file=sys.stderr)


_kernel: Any = None
_host: asyncio.AbstractEventLoop
_loops: dict[int, _Loop] = {}  # by the process, for a copy of this one must not use the same
_cell: Coroutine | None = None
"""What runs the cell that awaits, if one does."""
_ended_by: BaseException | None = None
"""What ends the cell where it awaits, though it comes from elsewhere."""
_turns = False  # whether tasks have their turns while the rank is idle


def install(kernel: Any) -> None:
    """Run what awaits in the loop of cells from now on, and the rest beside any loop."""
    global _kernel, _host
    _kernel, _host = kernel, asyncio.get_running_loop()
    shell: InteractiveShell = kernel.shell
    run_cell, do_apply, create_task = shell.run_cell, kernel.do_apply, asyncio.create_task

    def beside(*given: Any, **named: Any) -> Any:
        with _beside_loops():
            return run_cell(*given, **named)

    def apply_beside(*given: Any) -> Any:
        with _beside_loops():
            return do_apply(*given)

    def create(task: Coroutine, **named: Any) -> asyncio.Task:
        """Outside of any loop, as in a notebook's cell: for the loop of cells."""
        outside = (
            asyncio._get_running_loop() is None and threading.current_thread() is threading.main_thread()
        )
        return loop().create_task(task, **named) if outside else create_task(task, **named)

    shell.run_cell, kernel.do_apply = beside, apply_beside  # type: ignore[method-assign]
    asyncio.create_task = create  # type: ignore[assignment]
    shell.loop_runner = run


def loop() -> _Loop:
    """The loop of cells in this process."""
    found = _loops.get(os.getpid())
    if found is None or found.is_closed():
        found = _loops[os.getpid()] = _Loop()
    return found


@contextmanager
def _beside_loops() -> Iterator[None]:
    """Inside, no loop runs, and the one that is found is that of cells. Then tasks have their turns."""
    host, task = asyncio._get_running_loop(), asyncio.current_task() if asyncio._get_running_loop() else None
    if task is not None and host is not None:
        asyncio._leave_task(host, task)  # type: ignore[attr-defined]  # documented, for others
    asyncio._set_running_loop(None)
    asyncio.set_event_loop(loop())
    try:
        yield
    finally:
        asyncio.set_event_loop(host)
        asyncio._set_running_loop(host)
        if task is not None and host is not None:
            asyncio._enter_task(host, task)  # type: ignore[attr-defined]
        _go_on()


def run(cell: Coroutine) -> Any:
    """Run a cell that awaits, to its end; what IPython's runners do."""
    global _cell, _ended_by
    mine = loop()
    _cell, _ended_by = cell, None
    task = mine.create_task(_as_coroutine(_interruptible(cell)))
    try:
        while not task.done():
            try:
                mine.run_until_complete(task)
            except (KeyboardInterrupt, SystemExit) as error:  # of another task
                interrupt(error)
        return task.result()
    finally:
        _cell = None
        if _ended_by is not None:
            _end_tasks(mine)


async def _as_coroutine(awaited: Awaitable) -> Any:
    return await awaited


@types.coroutine
def _interruptible(cell: Coroutine) -> Generator[Any, Any, Any]:
    """The cell, in which an interrupt is the same as in a plain one, and not that a task was cancelled."""
    step, given = cell.send, None
    while True:
        try:
            wanted = step(given)
        except StopIteration as end:
            return end.value
        try:
            step, given = cell.send, (yield wanted)
        except asyncio.CancelledError as error:
            step, given = cell.throw, error if _ended_by is None else _ended_by
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the cell's
            step, given = cell.throw, error


def interrupt(error: BaseException | None = None) -> None:
    """End the cell where it awaits, if one does, and all tasks with it."""
    global _ended_by
    if _cell is not None:
        _ended_by = error or KeyboardInterrupt()
        loop().call_soon_threadsafe(_cancel, loop())


def _cancel(of: _Loop) -> None:
    for task in asyncio.all_tasks(of):
        task.cancel()


def _end_tasks(of: _Loop) -> None:
    """Cancel all tasks, and let them end. What they raise then is nobody's affair."""
    _cancel(of)
    if tasks := asyncio.all_tasks(of):
        with suppress(KeyboardInterrupt):
            of.run_until_complete(asyncio.wait(tasks, timeout=LAST))


def forget() -> None:
    """End what cells have left in their loop; the next cell has another."""
    mine = _loops.pop(os.getpid(), None)
    if mine is not None and not mine.is_closed():
        _end_tasks(mine)
        mine.close()


def _go_on() -> None:
    """Let tasks that cells have left go on, as long as there are any, whenever the rank is idle."""
    global _turns
    mine = _loops.get(os.getpid())
    if mine is not None and not _turns and _cell is None and (asyncio.all_tasks(mine) or mine.has_files()):
        _turns = True
        _host.call_later(PAUSE, _turn)


def _turn() -> None:
    global _turns
    _turns = False
    mine, watchdog = loop(), threading.Timer(LONGEST, os.kill, (os.getpid(), signal.SIGINT))
    _kernel.pre_handler_hook()
    end = mine.call_later(TURN, mine.stop)
    watchdog.start()
    try:
        with suppress(KeyboardInterrupt, SystemExit), _beside_loops():
            mine.run_forever()
    finally:
        watchdog.cancel()
        end.cancel()
        _kernel.post_handler_hook()


def awaits() -> tuple[FrameType, set[str]] | None:
    """Where a cell awaits at this moment, and what may wake it: "time", "file", "thread"; else None."""
    inner, innermost = _cell, None
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        if frame is not None and in_cell(frame):
            innermost = frame
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
    return (innermost, loop().woken_by()) if innermost is not None else None
