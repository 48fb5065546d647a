"""What ranks tell one another beside the learner's calls: in the group's store, where no trace sees it."""

from __future__ import annotations

import time

from labkit.exercises.lazy_torch import torch


def run_of(exercise: str, seed: int) -> str:
    """What notices of this run begin with, the same on every rank: a draw may be tried more than once."""
    times = _store().add(f"labkit/{exercise}/{seed}/runs/{torch.distributed.get_rank()}", 1)
    return f"{exercise}/{seed}/{times}"


def tell(what: str) -> None:
    """Let the other ranks know it."""
    _store().set(f"labkit/{what}", "told")


def heard(*whats: str, seconds: float) -> bool:
    """Wait until all of these have been told, for so many seconds at most; whether they have."""
    keys, until = [f"labkit/{what}" for what in whats], time.monotonic() + seconds
    while not (told := _store().check(keys)) and time.monotonic() < until:
        time.sleep(0.01)
    return told


def meet(what: str, seconds: float) -> None:
    """Wait until every rank has come here, for so many seconds at most."""
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    tell(f"{what}/{rank}")
    heard(*(f"{what}/{other}" for other in range(size)), seconds=seconds)


def _store() -> torch.distributed.Store:
    from labkit.mpi.torch_internals import default_store  # which imports torch

    return default_store()
