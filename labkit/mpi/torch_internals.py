"""What labkit leans on in PyTorch that PyTorch does not promise, by version.

`LEANS` names what is private there and says what it is for; `require` refuses a PyTorch that lacks any of it
in one sentence. Since 2.14 each backend is a plugin, "mpi" too, and may be written in Python: there labkit
registers itself as any plugin does. What is only for 2.13 says so, and goes with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from pkgutil import resolve_name
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import c10d_logger
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel as DDP

from labkit import LabError

RELEASE = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
PLUGINS = RELEASE >= (2, 14)

FRAMES = c10d.__file__, c10d_logger.__file__
"""The files between a user's line and a group's verb."""

PythonBackend: Any = torch._C._distributed_c10d.Backend if PLUGINS else object
"""What a backend inside a group is, where one can be written in Python."""


@dataclass(frozen=True)
class Lean:
    """A name of torch's, "module:attribute", and what labkit needs it for, in PyTorch of these versions."""

    name: str
    why: str
    since: tuple[int, int] = (2, 13)
    until: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"{self.name.replace(':', '.')} ({self.why})"

    def concerns(self, release: tuple[int, ...]) -> bool:
        """Whether labkit leans on it there."""
        return self.since <= release and (self.until is None or release < self.until)


_C10D = "torch.distributed.distributed_c10d"
_BINDINGS = "torch._C._distributed_c10d"
LEANS = (
    Lean(f"{_C10D}:_new_process_group_helper", "makes every group, and is handed a store for those of MPI"),
    Lean(f"{_C10D}:_world.group_count", "names groups, alike on all ranks after a recovery"),
    Lean(f"{_C10D}:_get_default_group", "the group meant by None"),
    Lean(f"{_C10D}:_get_default_store", "through which lessons' ranks tell each other something"),
    Lean(f"{_C10D}:_rank_not_in_group", "what new_group returns elsewhere"),
    Lean(f"{_C10D}:_MPI_AVAILABLE", "what dist.is_mpi_available() answers"),
    Lean(f"{_C10D}:Backend._plugins", "whether labkit has registered itself"),
    Lean("torch.distributed:ProcessGroup._device_types", "where a group's tensors may be"),
    Lean("torch.distributed:ProcessGroup._get_backend", "gloo's part of a group"),
    Lean("torch.distributed:ProcessGroup._register_backend", "NCCL within a group, and hooks"),
    Lean("torch.distributed:ProcessGroup._set_default_backend", "NCCL within a group, and hooks"),
    Lean("torch.distributed:ProcessGroup._set_group_name", "the name of that group"),
    Lean("torch:_C.DisableTorchFunctionSubclass", "tensors in flight, used by labkit itself"),
    Lean("torch:_C._storage_Use_Count", "whether somebody keeps a tensor's memory"),
    Lean("torch.nn.parallel:DistributedDataParallel._delayed_all_reduce_hook", "which cannot wait"),
    Lean("torch.utils._pytree:tree_iter", "tensors within arguments"),
    Lean("torch.utils._python_dispatch:TorchDispatchMode", "counts the bytes of tensors"),
    Lean(f"{_BINDINGS}:Backend.Options", "a backend in Python, through which hooks see calls", since=(2, 14)),
    Lean("torch.distributed:ProcessGroup.register_pre_hook", "hooks that see calls", since=(2, 14)),
)


def missing(leans: tuple[Lean, ...] = LEANS) -> list[Lean]:
    """What this PyTorch lacks of that on which labkit leans."""
    return [lean for lean in leans if lean.concerns(RELEASE) and not _there(lean.name)]


def _there(name: str) -> bool:
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def require(leans: tuple[Lean, ...] = LEANS) -> None:
    """LabError if this PyTorch lacks what labkit leans on."""
    if lacking := missing(leans):
        raise LabError(
            f'the backend "mpi" on PyTorch {torch.__version__}',
            f"this PyTorch has no {lacking[0]}" + f", and {len(lacking) - 1} more" * (len(lacking) > 1),
            "take the PyTorch that labkit was tested with: pip install -c constraints.txt torch",
        )


def is_registered(backend: str) -> bool:
    """Whether a plugin of this name is known."""
    return backend.upper() in dist.Backend._plugins


def offer_mpi(create: Callable[..., Any], of_2_13: type) -> None:
    """Have torch make groups of "mpi" by `create`, as those of other plugins; PyTorch 2.13 by a class.

    `is_mpi_available` is asked by programs, and by torch's own `is_backend_available`.
    """
    c10d._MPI_AVAILABLE = True
    if PLUGINS:
        devices = dist.Backend.backend_capability["mpi"]
        dist.Backend.register_backend("mpi", create, extended_api=True, devices=devices)
    else:
        c10d.ProcessGroupMPI = dist.ProcessGroupMPI = of_2_13  # type: ignore[attr-defined]
        c10d.monitored_barrier = dist.monitored_barrier = _for_mpi_too(c10d.monitored_barrier)


def wrap_helper(wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Put a function around that by which torch makes each group, on members and on the others."""
    c10d._new_process_group_helper = wrapper(c10d._new_process_group_helper)


def _for_mpi_too(monitored_barrier: Callable[..., None]) -> Callable[..., None]:
    """PyTorch 2.13 lets only a group named "gloo" through, whatever the group can do."""

    @wraps(monitored_barrier)
    def monitored(
        group: Any = c10d.GroupMember.WORLD, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        asked = c10d._get_default_group() if group is None else group
        if hasattr(asked, "monitored_barrier") and not c10d._rank_not_in_group(group):
            return asked.monitored_barrier(timeout, wait_all_ranks)
        return monitored_barrier(group, timeout, wait_all_ranks)

    return monitored


def groups_made() -> int:
    """How many groups torch has named on this rank."""
    return c10d._world.group_count if dist.is_initialized() else 0


def count_groups(count: int) -> None:
    """Have torch name the next group as if it had named so many."""
    if dist.is_initialized():
        c10d._world.group_count = count


def default_store() -> dist.Store:
    """The store of the default group."""
    return c10d._get_default_store()


def plain_group(
    kind: dist.ProcessGroup.BackendType,
    device: str,
    backend: Any,
    store: dist.Store,
    rank: int,
    size: int,
    name: str,
) -> dist.ProcessGroup:
    """A group of torch's own with this backend in it, which torch does not list."""
    group = dist.ProcessGroup(store, rank, size)
    group._set_default_backend(kind)
    group._register_backend(torch.device(device), kind, backend)
    group._set_group_name(name)
    return group


def users(memory: torch.UntypedStorage) -> int:
    """How many tensors and others have this memory, whoever asks included."""
    return torch._C._storage_Use_Count(memory._cdata)


NEVER_WAITS = (DDP._delayed_all_reduce_hook.__code__,)
"""Code of torch's that calls asynchronously, lets go of the Work, and yet reads the result."""


def backend_in(group: dist.ProcessGroup, device: torch.device | None = None) -> Any:
    """What serves tensors on this device in a group of torch's, or on the first that it serves."""
    return group._get_backend(group._device_types[0] if device is None else device)
