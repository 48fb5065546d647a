"""What torch asks of any process group, whatever it communicates with: rank, size, names, timeout."""

import torch
import torch.distributed as dist


class Identity(dist.ProcessGroup):
    """The names under which torch, from Python and from C++, looks these up."""

    def __init__(self, rank, size, name, seconds, store):
        super().__init__(rank, size)
        self.me, self.members, self.seconds, self.store = rank, size, seconds, store
        self.named, self.described = name, ""

    def rank(self):
        return self.me

    getRank = rank

    def size(self):
        return self.members

    getSize = size

    def name(self):
        return "mpi"

    getBackendName = _get_backend_name = name

    def _set_group_name(self, name):
        self.named = name

    setGroupName = _set_group_name

    def getGroupName(self):
        return self.named

    group_name = property(getGroupName)

    def _set_group_desc(self, text):
        self.described = text

    setGroupDesc = _set_group_desc

    def getGroupDesc(self):
        return self.described

    group_desc = property(getGroupDesc)

    def get_group_store(self):
        return self.store

    def set_timeout(self, timeout):
        self.seconds = timeout.total_seconds()

    _set_default_timeout = set_timeout

    @property
    def _device_types(self):
        return [torch.device("cpu")]

    def _get_backend(self, device):
        return self

    supports_coalescing = supports_splitting = supports_shrinking = supports_time_estimate = False

    def supports_tensor_alloc(self, device):
        return False

    def _set_sequence_number_for_group(self):
        pass
