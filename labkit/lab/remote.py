"""What reaches ranks: calls and cells while they are idle; an interrupt, and the question what they do.

A call names a function that `labkit.rank.service` finds. The last two are answered by a thread of the
rank's own, beside the cell that it runs.
"""

import os
import signal
import time
from collections.abc import Collection
from concurrent.futures import wait
from pathlib import Path
from typing import Any, Protocol

import ipyparallel as ipp
from ipyparallel.error import RemoteError

from labkit import LabError
from labkit.launch import Plan, keeper
from labkit.launch.engines import connected
from labkit.launch.interrupts import interrupts_held
from labkit.launch.ranks import Rank
from labkit.rank.protocol import Remembered, State
from labkit.rank.wording import cut, ranks

CALL_DEADLINE = 30.0
"""Seconds within which idle ranks do what labkit itself asks of them."""
RETURN_DEADLINE = 1.5
"""Seconds that interrupted ranks are given to come back before they are replaced, on a machine with time."""
AGAIN = 0.2
"""Seconds between two interrupts of a rank, and between two looks at whether it can be reached."""
LOOK_AFTER = 0.25
"""Seconds between two looks at whether all ranks live, while they are waited for."""
HELP_WITHIN = 0.25
"""Seconds that somebody who types waits for a rank."""


class Reachable(Protocol):
    """What of a lab it takes to reach its ranks."""

    @property
    def plan(self) -> Plan: ...

    @property
    def ranks(self) -> tuple[Rank, ...]: ...

    @property
    def client(self) -> ipp.Client: ...

    def is_running(self) -> bool: ...

    def require_alive(self) -> None: ...

    def require_running(self) -> None: ...


def call(
    lab: Reachable,
    function: str,
    *arguments: Any,
    asked: str,
    targets: Collection[int] | None = None,
    deadline: float | None = None,
) -> list[Any]:
    """What that function returns on each of these ranks (default: all), which are idle.

    LabError if a rank raises, dies, or does not answer within `deadline` seconds (CALL_DEADLINE);
    `asked` says what it was for.
    """
    answers = send(lab, function, *arguments, targets=targets)
    seconds = CALL_DEADLINE if deadline is None else deadline
    end = time.monotonic() + seconds
    while not answers.wait(min(LOOK_AFTER, seconds)):
        lab.require_alive()
        if time.monotonic() > end:
            found = f"{ranks(running(answers))} did not answer within {seconds:g} s: busy with something else"
            raise LabError(asked, found, "wait until no cell runs, or lab.restart(); then try again")
    return [
        _told(rank, child, asked) for rank, child in zip(answers._targets, answers._children, strict=True)
    ]


def _told(rank: int, child: Any, asked: str) -> Any:
    """What a rank has answered. LabError if it raised anything, as what is the user's there can."""
    answer = child.exception() or child.result()
    if isinstance(answer, RemoteError):
        found = f"{ranks([rank])} raised {answer.ename}: {cut(str(answer.evalue))}"
        raise LabError(asked, found, "mend what raises it, or lab.restart()")
    if isinstance(answer, LabError):
        raise answer
    return answer


def send(
    lab: Reachable, function: str, *arguments: Any, targets: Collection[int] | None = None
) -> ipp.AsyncResult:
    """The same without waiting: a rank that is busy does it when it has come to an end."""
    view = lab.client[:] if targets is None else lab.client[list(targets)]
    with interrupts_held():  # half a send would leave some ranks waiting for the others
        return view.apply_async(_on_rank, function, *arguments)


def _on_rank(function: str, *arguments: Any) -> Any:
    """Runs on a rank, so that the owner need not import torch."""
    from labkit.rank import service

    return service.answer(function, *arguments)


def as_cell(function: str, *arguments: str | int) -> str:
    """The source of a cell that makes the call: it can be watched and interrupted, its traceback is short."""
    return f"__import__('labkit.rank.service', fromlist=['named']).named({function!r})(*{arguments!r})"


def send_cell(view: ipp.DirectView, source: str) -> ipp.AsyncResult:
    """Begin to run a cell on the ranks of a view; `cell.follow` waits for it."""
    return view.execute(source, silent=False, block=False)


def running(result: ipp.AsyncResult) -> list[int]:
    """The ranks that have not ended a call or a cell."""
    return [rank for rank, child in zip(result._targets, result._children, strict=True) if not child.done()]


def interrupt(lab: Reachable, targets: Collection[int] | None = None) -> None:
    """Raise KeyboardInterrupt in what these ranks run (default: all). Idle ranks ignore it."""
    wanted = [r for r in lab.ranks if targets is None or r.rank in targets]
    if lab.plan.is_remote:
        numbers = [r.rank for r in wanted]
        lab.client._send_control_request(numbers, "labkit_interrupt_request", {}, block=False)
        return
    for r in wanted:
        process = r.process()
        if process is not None:
            process.send_signal(signal.SIGINT)


def make_idle(lab: Reachable) -> bool:
    """Interrupt whatever the ranks run; whether all can be called again.

    Again and again: an interrupt that comes before a rank has begun a cell is ignored there.
    """
    answers = send(lab, "describe")
    deadline = time.monotonic() + RETURN_DEADLINE * crowded()
    while not answers.wait(AGAIN) and time.monotonic() < deadline:
        lab.require_alive()
        interrupt(lab, running(answers))
    return answers.done()


def crowded() -> float:
    """How many times as long things may take as on a machine with time: others may have the cores too."""
    return min(5.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def under_way(folder: Path) -> str:
    """Where ranks of the lab in that folder are in a cell: "line 3: ..."; "" if none is in any."""
    client = connected(folder) if keeper.all_vital_live(folder) else None
    if client is None:
        return ""
    try:
        told = _states(client, client.ids, 1.0)
        silent = [] if told else ["its ranks do not answer"]
        return next(iter([*filter(None, (state.place for state in told.values())), *silent]), "")
    finally:
        client.close(linger=0)


def ask_states(lab: Reachable, targets: list[int], timeout: float = 1.0) -> dict[int, State]:
    """What these ranks do at this moment; empty if they do not all answer in `timeout` seconds."""
    return _states(lab.client, targets, timeout)


def ask_remembered(lab: Reachable, targets: list[int], timeout: float = 1.0) -> list[Remembered]:
    """What these ranks have called in their cell, in order; empty if they do not all answer in time."""
    told = _asked(lab.client, targets, "labkit_history_request", timeout)
    return [Remembered.of(content["history"]) for content in told]


def _states(client: ipp.Client, targets: list[int], timeout: float) -> dict[int, State]:
    told = _asked(client, targets, "labkit_state_request", timeout)
    states = [State.of(content["state"]) for content in told]
    return {state.rank: state for state in states}


def _asked(client: ipp.Client, targets: list[int], request: str, timeout: float) -> list[dict[str, Any]]:
    """What the control threads of these ranks answer; empty if not all do in time."""
    if not targets:
        return []
    asked = client._send_control_request(targets, request, {}, block=False)
    wait([asked], timeout)  # `asked.result(timeout)` raises a TimeoutError of its own before Python 3.11
    return [reply["content"] for reply in asked.result()] if asked.done() else []


def tell_debugger(lab: Reachable, targets: Collection[int], command: str | None) -> None:
    """A line for ranks that have stopped, a command or an answer; None if nobody can type any."""
    lab.client._send_control_request(list(targets), "labkit_debug_request", {"command": command}, block=False)


def ask_help(lab: Reachable, rank: int, *question: str | int) -> Any:
    """What a rank answers to a question of `labkit.rank.help`; None if it is busy, silent or not ours."""
    try:
        lab.require_running()
        asked = lab.client._send_control_request([rank], "labkit_help_request", {"question": question}, False)
    except LabError:
        return None
    wait([asked], HELP_WITHIN)
    return asked.result()[0]["content"]["answer"] if asked.done() else None
