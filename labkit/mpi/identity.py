"""What torch asks of any process group, whatever it communicates with: rank, size, names, timeout."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from labkit.mpi.torch_internals import PLUGINS


class Identity(dist.ProcessGroup):
    """The names under which torch, from Python and from C++, looks these up."""

    def __init__(self, rank: int, size: int, name: str, seconds: float, store: dist.Store) -> None:
        super().__init__(rank, size)
        self.me, self.members, self.seconds, self.store = rank, size, seconds, store
        self.named, self.described = name, ""

    def rank(self) -> int:
        return self.me

    getRank = rank

    def size(self) -> int:
        return self.members

    getSize = size

    def name(self) -> str:
        return "mpi"

    getBackendName = _get_backend_name = name

    def _set_group_name(self, name: str) -> None:
        self.named = name

    setGroupName = _set_group_name

    def getGroupName(self) -> str:
        return self.named

    group_name = property(getGroupName)

    def _set_group_desc(self, text: str) -> None:
        self.described = text

    setGroupDesc = _set_group_desc

    def getGroupDesc(self) -> str:
        return self.described

    group_desc = property(getGroupDesc)

    def get_group_store(self) -> dist.Store:
        return self.store

    def set_timeout(self, timeout: timedelta) -> None:
        self.seconds = timeout.total_seconds()

    _set_default_timeout = set_timeout

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> Identity:
        return self

    get_backend = _get_backend

    supports_coalescing = supports_shrinking = supports_time_estimate = False
    supports_splitting = PLUGINS  # torch 2.13 splits on accelerators alone

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        return False

    def _set_sequence_number_for_group(self) -> None:
        pass
