"""On a rank, while an exercise is checked: is every request waited for, and its tensor left alone?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist

from labkit.mpi.errors import HazardError
from labkit.mpi.process_group import MPIProcessGroup

VERBS = ("send", "recv", "recv_anysource", "allreduce", "broadcast", "reduce")
SENT = "isend"
NAMES = {"send": SENT, "recv": "irecv", "recv_anysource": "irecv", "allreduce": "asynchronous all_reduce"}


class Requests:
    """What was posted, what of it nobody waited for, and what was changed while it was being sent."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._changed = False

    @property
    def risky(self) -> str:
        """What makes values depend on chance, as the rest of a sentence that begins with the rank; or ""."""
        if self._changed:
            return (
                "changes a tensor that isend is still sending, so what arrives depends on chance: "
                "send a copy (clone), or wait() first"
            )
        return self._unwaited([name for name in self._open if name != SENT])

    @property
    def unsent(self) -> str:
        """The same of a message that may never have left: this rank's own values are right in any case."""
        return self._unwaited([name for name in self._open if name == SENT])

    @staticmethod
    def _unwaited(names: list[str]) -> str:
        return f"never waits for its {names[0]}: call wait() on what it returned" if names else ""

    def note(self, verb: str, work: Any, tensors: Any) -> None:
        """Follow one request until somebody waits for it."""
        name = NAMES.get(verb, f"asynchronous {verb}")
        before = _bytes(tensors[0]) if verb == "send" else b""
        self._open.append(name)

        wait, is_completed, done = work.wait, work.is_completed, False

        def closed() -> None:
            nonlocal done
            if not done:
                done = True
                self._open.remove(name)
                self._changed |= verb == "send" and _bytes(tensors[0]) != before
                # In a circle with its request a tensor would live until Python looks for circles.
                del work.wait, work.is_completed

        def waiting(*given: Any) -> Any:
            closed()
            try:
                return wait(*given)
            except HazardError:
                if not self._changed:
                    raise
                return True  # what `risky` says of it is enough

        def asking() -> bool:
            if is_completed():
                closed()
            return done

        work.wait, work.is_completed = waiting, asking


@contextmanager
def followed() -> Iterator[Requests]:
    """Follow all requests that are posted in the block, where labkit's backend carries them."""
    group, requests = type(dist.group.WORLD), Requests()
    ours = {verb: post for verb, post in vars(group).items() if verb in VERBS and group is MPIProcessGroup}
    try:
        for verb, post in ours.items():
            setattr(group, verb, _noting(verb, post, requests))
        yield requests
    finally:
        for verb, post in ours.items():
            setattr(group, verb, post)


def _noting(verb: str, post: Callable[..., Any], requests: Requests) -> Callable[..., Any]:
    @wraps(post)
    def posting(self: Any, *given: Any, **named: Any) -> Any:
        work = post(self, *given, **named)
        requests.note(verb, work, given[0] if given else ())
        return work

    return posting


def _bytes(tensor: torch.Tensor) -> bytes:
    """What a tensor holds. Not as a tensor: those are counted where memory is limited."""
    flat = tensor.detach().cpu().contiguous().view(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
