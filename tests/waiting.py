"""Waits for what has to come, where a sleep would guess how long that takes; and cells that last so long.

On a machine that does other work any process may be held up for seconds. So a test waits for the state of
which it speaks, and what has to be busy meanwhile is busy until the test says so.
"""

import time
from collections.abc import Callable, Collection
from pathlib import Path

WITHIN = 60.0
"""Seconds after which what has not come is taken never to come."""
NO_HURRY = 30.0
"""For `remote.RETURN_DEADLINE`, where a test says that ranks outlive an interrupt: they are not replaced."""


def until(come: Callable[[], object], seconds: float = WITHIN) -> bool:
    """Whether it came in time."""
    deadline = time.monotonic() + seconds
    while not (there := come()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(there)


def until_ranks(lab, are: Callable[..., object], ranks: Collection[int] = ()) -> None:
    """Until these ranks (default: all) are all in such a state, as `waits` or `is_stopped` tell it."""
    from labkit.lab import remote  # not there where only the backend is tested

    targets = list(ranks) or [r.rank for r in lab.ranks]
    states: dict = {}

    def they_are() -> bool:
        states.update(remote.ask_states(lab, targets, timeout=10.0))
        return len(states) == len(targets) and all(map(are, states.values()))

    assert until(they_are), states


def waits(state) -> bool:
    """Of a State: the rank waits for others."""
    return state.doing == "waiting"


def is_stopped(state) -> bool:
    """Of a State: the rank has stopped in pdb."""
    return state.stop is not None


def lasting(end: Path) -> str:
    """The source of a cell that lasts until that file is there."""
    return f"import os, time\nwhile not os.path.exists({str(end)!r}): time.sleep(0.05)"
