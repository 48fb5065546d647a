"""What the notebook can ask of an idle rank: `named` finds it, `answer` does it."""

from collections.abc import Callable
from importlib import import_module
from math import inf
from typing import Any

import numpy
from IPython import get_ipython

from labkit import LabError
from labkit.mpi.messages import slow_link
from labkit.rank import awaiting, debugger, digest, leftovers, recording, settings, world
from labkit.rank.clocks import measure
from labkit.rank.digest import Digest
from labkit.rank.protocol import Leftover
from labkit.rank.world import describe  # noqa: F401 - asked for by name
from labkit.trace.records import Recording


def named(name: str) -> Callable[..., Any]:
    """A function of this file, or any of labkit by its path: "exercises.on_rank.last". Else LabError."""
    module, _, function = name.rpartition(".")
    asked, fix = f"to call {name} on a rank", "name a function of labkit, as labkit.rank.service.named says"
    try:
        found = getattr(import_module(f"labkit.{module or 'rank.service'}"), function)
    except (ModuleNotFoundError, AttributeError) as error:
        raise LabError(asked, str(error), fix) from error
    if not getattr(found, "__module__", "").startswith("labkit."):
        raise LabError(asked, f"{function} is not labkit's own", fix)
    return found


def answer(name: str, *arguments: Any) -> Any:
    """What that function returns; a LabError is an answer too, for the notebook to raise."""
    try:
        return named(name)(*arguments)
    except LabError as error:  # one of labkit.mpi's own: its class would import MPI over there
        return LabError(error.asked, error.found, error.fix)


def clean() -> None:
    """Forget what cells defined, and what was set by them or for them, and seed again: as after a start.

    That is the namespace, tasks, settings of torch, torchrun's environment, a recording, a slow network, and
    pdb after errors.
    """
    recording.off()
    awaiting.forget()
    world.as_started()
    debugger.post_mortem(False)
    slow_link.limit(inf, 0.0)
    shell = get_ipython()
    shell.reset(new_session=False)
    shell.user_ns.update(world.names())
    settings.reset()
    world.seed()


def settle(everything: bool, rejoin: bool, stuck: bool) -> list[Leftover]:
    """`leftovers.settle`: nothing under way, and a process group that can be used."""
    return leftovers.settle(everything, rejoin, stuck)


def limit_network(bandwidth: float, latency: float, ranks_per_host: int) -> None:
    """Slow messages down to bytes per second, and seconds. Collective: clocks are compared."""
    slow_link.limit(bandwidth, latency, measure().offset / 1e9, ranks_per_host)


def start_recording() -> None:
    """Record this rank's communication from now on."""
    recording.start()


def stop_recording() -> Recording | None:
    """What this rank recorded, or None if it did not."""
    return recording.stop()


def drop_recording() -> None:
    """Stop to record, on this rank alone."""
    recording.off()


def digests(name: str) -> list[tuple[str, Digest]] | None:
    """`digest.digests` of what cells have under that name; None if this rank has no such thing."""
    try:
        value = _value(name)
    except digest.MISSING:
        return None
    return digest.digests(value)


def piece(name: str, part: str, start: int, stop: int) -> numpy.ndarray:
    """`digest.piece` of what cells have under that name."""
    return digest.piece(_value(name), part, start, stop)


def _value(name: str) -> Any:
    return eval(name, {}, get_ipython().user_ns)
