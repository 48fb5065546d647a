"""What reaches ranks beside cells: calls while they are idle; an interrupt, and the question what they do.

The last two are answered by a thread of the rank's own, beside the cell that it runs.
"""

import signal
from collections.abc import Collection
from concurrent.futures import wait

from labkit.rank.protocol import State

CALL_DEADLINE = 30.0
"""Seconds within which idle ranks do what labkit itself asks of them."""


def interrupt(lab, targets: Collection[int] | None = None) -> None:
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


def ask_states(lab, targets: list[int], timeout: float = 1.0) -> dict[int, State]:
    """What these ranks do at this moment; empty if they do not all answer in `timeout` seconds."""
    if not targets:
        return {}
    asked = lab.client._send_control_request(targets, "labkit_state_request", {}, block=False)
    wait([asked], timeout)  # `asked.result(timeout)` raises a TimeoutError of its own before Python 3.11
    if not asked.done():
        return {}
    told = [State(**reply["content"]["state"]) for reply in asked.result()]
    return {state.rank: state for state in told}


def call(lab, function: str, *arguments) -> list:
    """What a function of `labkit.rank.service` returns on each rank, while all are idle."""
    return lab[:].apply_async(_on_rank, function, *arguments).get(CALL_DEADLINE)


def _on_rank(function: str, *arguments):
    """Runs on a rank, so that the owner need not import torch."""
    from labkit.rank import service

    return getattr(service, function)(*arguments)
