"""The one loop in which this backend waits, and what it tells others; and how interrupts are held back.

It polls. That is the only way in which a wait can be interrupted, can end at a deadline and can
be looked at; with more ranks than cores it is also faster than MPI's own blocking calls, because
it gives the core away.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labkit.mpi.record import record

if TYPE_CHECKING:
    from labkit.mpi.call import Call
    from labkit.mpi.work import Work

SPINS = 4  # without these a message of 8 bytes pays for a system call; more cost ranks that share a core
QUIET = 100  # yields before others are told: finding the user's line takes 10 us
YIELDS = 2000  # about 1 ms: a partner on the same core runs between two of them
BYTES_PER_YIELD = 512  # MPI moves a large message a piece per poll; with naps between 16 MB took a second
FIRST_SLEEP, LONGEST_SLEEP = 20e-6, 500e-6

waits: dict[int, _Wait] = {}  # by the id of the thread


@dataclass(frozen=True)
class Status:
    """What this process waits for. Ranks are world ranks; `since` is a time.time()."""

    verb: str
    group: str
    ranks: tuple[int, ...]
    root: int | None
    tag: int | None
    sequence: int | None
    bytes: int
    dtype: str | None
    file: str | None
    line: int
    since: float
    checking: bool


class _Wait:
    __slots__ = ("call", "since", "work")

    def __init__(self, call: Call, work: Work | None) -> None:
        self.call, self.since, self.work = call, time.time(), work


def status() -> Status | None:
    """What this process waits for now, or None. Callable from any thread at any time.

    >>> labkit.mpi.status()                                             # doctest: +SKIP
    Status(verb='recv', group='0', ranks=(2,), root=None, tag=0, sequence=None, bytes=32, ...)

    A wait shows after 120 polls, a fraction of a millisecond: shorter ones never pay for it.
    """
    now = waits.copy()
    wait = now.get(threading.main_thread().ident) or next(iter(now.values()), None)
    if wait is None:
        return None
    call, (file, line) = wait.call, wait.call.place
    return Status(
        verb=call.verb, group=call.group, ranks=tuple(call.ranks), root=call.root, tag=call.tag,
        sequence=call.sequence, bytes=call.bytes,
        dtype=None if call.dtype is None else str(call.dtype).removeprefix("torch."),
        file=file, line=line, since=wait.since, checking=getattr(wait.work, "agreement", None) is not None,
    )  # fmt: skip


def wait_until(poll: Callable[[], bool | None], seconds: float, call: Call, work: Work | None = None) -> bool:
    """Poll until it is true (True) or until the deadline (False). Lets KeyboardInterrupt through.

    A poll that returns None has moved on and expects more soon: the naps start again from none.
    """
    for _ in range(SPINS):
        if poll():
            return True
    for _ in range(QUIET):
        os.sched_yield()
        if poll():
            return True
    thread = threading.get_ident()
    outer = waits.get(thread)
    call.locate()
    try:
        waits[thread] = _Wait(call, work)
        deadline, turns, idle, nap = time.monotonic() + seconds, 0, 0, FIRST_SLEEP
        yields = YIELDS + call.bytes // BYTES_PER_YIELD
        while not (done := poll()):
            turns += 1
            if done is None:
                idle, nap = 0, FIRST_SLEEP
            idle += 1
            if idle < yields:
                os.sched_yield()
            else:
                time.sleep(nap)
                nap = min(nap * 1.5, LONGEST_SLEEP)
            if turns % 64 == 0 and time.monotonic() > deadline:
                return False
        return True
    finally:
        if record.records is not None:  # else all of this would seem to have been on the core
            record.look(record.clock())
        if outer is None:
            waits.pop(thread, None)
        else:
            waits[thread] = outer


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """SIGINT during the block acts at its end. Off the main thread, where none arrives, no-op."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[Any, ...]] = []
    before = signal.signal(signal.SIGINT, lambda *about: arrived.append(about))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        if arrived and callable(before):
            before(*arrived[0])
