"""Messages of tensors on a GPU by gloo: refused, since one of them may end the process.

Gloo hands the GPU's address to a socket. Where that fails in a thread of gloo's own, nobody can catch it.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist

from labkit import LabError
from labkit.mpi.torch_internals import backend_in
from labkit.rank.other_backends import MESSAGES


def refuse_gpus() -> None:
    """Raise a LabError from now on where gloo is asked to send or to receive a tensor on a GPU."""
    for name in MESSAGES:
        setattr(dist.ProcessGroup, name, _guarded(name, vars(dist.ProcessGroup)[name]))


def _guarded(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    verb = "send" if name == "send" else "recv"

    @wraps(method)
    def guarded(group: dist.ProcessGroup, tensors: list[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        for tensor in tensors:
            if tensor.is_cuda and backend_in(group, tensor.device).name() == "gloo":
                raise LabError(
                    f"{verb} of a tensor on {tensor.device} with gloo",
                    "gloo has no messages between GPUs: it would end this process",
                    'hand over one on the CPU, as x.cpu(), or use the backend "mpi"',
                )
        return method(group, tensors, *args, **kwargs)

    return guarded
