"""What is compared of one value on one rank: a digest per tensor or number, in place of the data.

>>> [(name, d.dtype, d.norm, d.value) for name, d in digests({"w": torch.ones(2, 2), "step": 3})]
[('w', 'float32', 2.0, ''), ('step', 'int', None, '3')]
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch

MISSING = (NameError, AttributeError, KeyError, IndexError, TypeError)
"""How evaluating "model.head[2]" fails on a rank that has no such thing."""
_PLAIN = (bool, int, float, complex, str, type(None))


@dataclass(frozen=True)
class Digest:
    """One tensor or number: `norm` is the 2-norm of a tensor, `value` the text of anything else.

    `checksum` is of every bit of the value, empty for what cannot be compared.
    """

    dtype: str
    checksum: str
    shape: tuple[int, ...] | None = None
    norm: float | None = None
    value: str = ""


def digests(value: object) -> list[tuple[str, Digest]]:
    """Each tensor and number in a value: its name in there ("" is the value itself) and its digest.

    Pairs, because ipyparallel sorts the keys of a dict on its way.
    """
    return [(name, _digest(leaf)) for name, leaf in _leaves(value)]


def piece(value: object, name: str, start: int, stop: int) -> numpy.ndarray:
    """Elements `start` to `stop` of the tensor or number of that name, as real numbers."""
    leaf = next(leaf for found, leaf in _leaves(value) if found == name)
    flat = (leaf if torch.is_tensor(leaf) else torch.tensor(leaf)).detach().reshape(-1)[start:stop]
    flat = torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat
    whole = flat.dtype in (torch.float32, torch.float64) or not flat.is_floating_point()
    return (flat if whole else flat.float()).cpu().numpy()


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, object]]:
    """Every tensor, number, text and empty container, with its name."""
    if isinstance(value, torch.nn.Module):
        inside: Mapping = {**dict(value.named_parameters()), **dict(value.named_buffers())}
    elif isinstance(value, Mapping):
        inside = value
    elif isinstance(value, (list, tuple)):
        inside = dict(enumerate(value))
    elif hasattr(value, "state_dict") and not isinstance(value, type):  # optimisers, schedulers
        inside = value.state_dict()
    else:
        yield name, _as_tensor(value)
        return
    if not inside:
        yield name, inside
    for key, item in inside.items():
        yield from _leaves(item, _joined(name, key))


def _as_tensor(value: Any) -> Any:
    """NumPy's arrays and the local shard of a distributed tensor as plain tensors; the rest as it is."""
    if isinstance(value, (numpy.ndarray, numpy.generic)) and value.dtype.kind in "biufc":
        return torch.as_tensor(value)
    if torch.is_tensor(value):
        value = value.detach()
        value = value.to_local() if hasattr(value, "to_local") else value
        return value if value.layout is torch.strided else value.to_dense()
    return value


def _joined(name: str, key: object) -> str:
    if not isinstance(key, str):
        return f"{name}[{key!r}]"
    return f"{name}.{key}" if name else key


def _digest(leaf: Any) -> Digest:
    if torch.is_tensor(leaf):
        wide = torch.complex128 if leaf.is_complex() else torch.float64
        norm = torch.linalg.vector_norm(leaf.to(wide)).item()
        bits = leaf.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
        dtype = str(leaf.dtype).removeprefix("torch.")
        return Digest(dtype, _checksum(bits, dtype, leaf.shape), tuple(leaf.shape), norm)
    kind = type(leaf).__name__
    if isinstance(leaf, _PLAIN):
        return Digest(kind, _checksum(repr(leaf).encode(), kind, None), value=repr(leaf))
    if isinstance(leaf, Mapping):
        return Digest("empty", _checksum(b"", "empty", None))
    return Digest(kind, "")


def _checksum(data: bytes | memoryview, dtype: str, shape: torch.Size | None) -> str:
    about = f"{dtype} {tuple(shape) if shape is not None else None} ".encode()
    checksum = hashlib.blake2b(about, digest_size=8)
    checksum.update(data)
    return checksum.hexdigest()
