"""torch's hooks around calls: the Flight Recorder, the check for NaN, and what programs register.

torch calls hooks where it hands a call to the backend inside a group. A group of ours has none, since its
verbs are called directly. So it gets one, by which each call comes back after it has passed torch's hooks.
That costs 3 microseconds a call, and as much again where the Flight Recorder is on, as it is by default since
PyTorch 2.15; TORCH_FR_BUFFER_SIZE=0 turns it off. Before 2.14 torch had no hooks.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from labkit.mpi.torch_internals import PLUGINS, PythonBackend

if TYPE_CHECKING:
    from labkit.mpi.group import Group
    from labkit.mpi.work import Work

VERBS = (
    "allreduce", "allreduce_coalesced", "reduce", "broadcast", "allgather", "allgather_coalesced", "gather",
    "all_gather_single", "all_gather_single_coalesced", "scatter", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "alltoall", "all_to_all_single", "barrier", "send", "recv",
    "recv_anysource",
)  # fmt: skip
# Under these torch finds a verb again that has itself asked for torch's, and so would never come to an end.
_OLD_NAMES = (
    "_allgather_base", "allgather_into_tensor_coalesced", "_reduce_scatter_base",
    "reduce_scatter_tensor_coalesced", "alltoall_base",
)  # fmt: skip
_KIND = dist.ProcessGroup.BackendType.MPI


class _Way(threading.local):
    """What is on its way past the hooks in this thread: the works begun, and the one to be returned."""

    begun: list[Work] | None = None
    work: Work | None = None


_way = _Way()


class _Inside(PythonBackend):
    """The backend inside a group: what has passed torch's hooks comes here, and is done by the group."""

    def __init__(self, group: Group) -> None:
        super().__init__(group.me, group.members)
        self.group = weakref.ref(group)

    def getBackendName(self) -> str:
        return "mpi"

    @property
    def options(self) -> Any:
        """What a dump of the Flight Recorder says about the group."""
        group = self.group()
        told = PythonBackend.Options("mpi", timedelta(seconds=group.seconds))
        told.global_ranks_in_group, told.group_name = list(group.ranks), group.named
        return told


def with_hooks(cls: type[Group]) -> type[Group]:
    """Class decorator: each verb passes torch's hooks before it does its work, where torch has any."""
    if not PLUGINS:
        return cls
    for name in VERBS:
        verb = getattr(cls, name)
        setattr(_Inside, name, _at_work(verb))
        setattr(cls, name, _hooked(name, verb))
    for old in _OLD_NAMES:
        delattr(cls, old)
    cls.__init__ = _with_one_inside(cls.__init__)  # type: ignore[method-assign]
    return cls


def _with_one_inside(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)
    def __init__(group: Group, *args: Any) -> None:
        init(group, *args)
        group.inside = _Inside(group)
        group._set_default_backend(_KIND)
        for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
            group._register_backend(torch.device(device), _KIND, group.inside)

    return __init__


def keep(work: Work) -> None:
    """Note a work before any of it is posted: interrupted on its way back past the hooks, it is given up."""
    if _way.begun is not None:
        _way.begun.append(work)


def _at_work(verb: Callable[..., Work]) -> Callable[..., Work]:
    def at_work(inside: _Inside, *args: Any) -> Work:
        try:
            _way.work = work = verb(inside.group(), *args)
        except Exception:
            _way.begun = []  # refused, or failed: nothing of it is under way
            raise
        return work

    return at_work


def _negated_or_conjugated(given: Any) -> bool:
    """Whether a tensor among these only views numbers as negated or conjugated.

    torch would hand its hooks a copy, and copy that back before a work that nobody has waited for is done.
    """
    if isinstance(given, torch.Tensor):
        return given.is_neg() or given.is_conj()
    return isinstance(given, (list, tuple)) and any(map(_negated_or_conjugated, given))


def _hooked(name: str, verb: Callable[..., Work]) -> Callable[..., Work]:
    torchs = getattr(dist.ProcessGroup, name)

    @wraps(verb)
    def hooked(group: Group, *args: Any, **kwargs: Any) -> Work:
        if _negated_or_conjugated(args):
            return verb(group, *args, **kwargs)
        above, _way.begun = _way.begun, []  # a schedule calls verbs while its own call is under way
        try:
            work = torchs(group, *args, **kwargs)
            if _way.work is not None:  # else a tensor of some mode was done elsewhere
                work = _way.work  # torch's can only wait, and lets other threads run while it is destroyed
            # Any call will do: what a signal asked for until now is raised here, not behind the return.
            threading.get_ident()
            return work
        except (
            NotImplementedError
        ):  # of a layout that torch hands to no backend: the verb says which it takes
            return verb(group, *args, **kwargs)
        except BaseException:
            # Interrupted, or refused by a hook, on its way to whoever would wait for it.
            for begun in _way.begun:
                group.give_up(begun)
            raise
        finally:
            _way.begun, _way.work = above, None

    # torch calls what overrides a method of it, unless that one is the caller, which it tells by its name.
    hooked.__code__ = hooked.__code__.replace(co_name=name)  # type: ignore[attr-defined]
    return hooked
