"""What a case is given: who it is, and fresh data that every rank can compute for every other rank."""

import os
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import torch
import torch.distributed as dist

LOW = (torch.float16, torch.bfloat16)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)


@dataclass(frozen=True)
class World:
    """One rank's view during one case."""

    rank: int
    size: int
    seed: int
    case: str
    backend: str
    checked: bool
    folder: str

    @property
    def others(self) -> list[int]:
        return [r for r in range(self.size) if r != self.rank]

    @property
    def next(self) -> int:
        return (self.rank + 1) % self.size

    @property
    def previous(self) -> int:
        return (self.rank - 1) % self.size

    def generator(self, *salt) -> torch.Generator:
        """Fresh for each run, case and salt; the same on every rank."""
        key = repr((self.seed, self.case, salt)).encode()
        return torch.Generator().manual_seed(zlib.crc32(key))

    def data(self, rank: int, *shape: int, dtype=torch.float32, salt=()) -> torch.Tensor:
        """What `rank` holds: small multiples of 1/8, so a sum over the ranks is exact in any float."""
        g = self.generator(rank, salt)
        whole = torch.randint(-16, 17, shape, generator=g)
        if dtype == torch.bool:
            return whole > 0
        if dtype == torch.uint8:
            return whole.abs().to(dtype)
        if dtype.is_complex:
            imaginary = torch.randint(-16, 17, shape, generator=g)
            return torch.complex(whole.double() / 8, imaginary.double() / 8).to(dtype)
        return (whole / 8).to(dtype) if dtype.is_floating_point else whole.to(dtype)

    def mine(self, *shape: int, dtype=torch.float32, salt=()) -> torch.Tensor:
        """What this rank holds."""
        return self.data(self.rank, *shape, dtype=dtype, salt=salt)

    def all(self, *shape: int, dtype=torch.float32, salt=()) -> list[torch.Tensor]:
        """What every rank holds, in the order of ranks."""
        return [self.data(r, *shape, dtype=dtype, salt=salt) for r in range(self.size)]

    def number(self, low: int, high: int, *salt) -> int:
        """A fresh number in [low, high), the same on every rank."""
        return int(torch.randint(low, high, (1,), generator=self.generator("number", salt)))

    def tell(self, what: str) -> None:
        """Let other ranks know, by a way that is not the backend's."""
        Path(self.folder, f"{self.case} {what}").touch()

    def hear(self, *whats: str, seconds: float = 45.0) -> None:
        """Wait until ranks have told all of these."""
        deadline = time.monotonic() + seconds
        while not all(Path(self.folder, f"{self.case} {what}").exists() for what in whats):
            assert time.monotonic() < deadline, whats
            time.sleep(0.01)

    def meet(self, what: str) -> None:
        """Wait until every rank has come here."""
        self.tell(f"{what} {self.rank}")
        self.hear(*(f"{what} {rank}" for rank in range(self.size)))


@contextmanager
def interrupt_of_a_wait(after: float = 0.1) -> Iterator[None]:
    """SIGINT once the main thread has waited in the backend for that long, however late it comes to wait."""
    from labkit.mpi import status

    left = threading.Event()

    def strike() -> None:
        while status() is None:
            if left.wait(0.01):
                return
        if not left.wait(after):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        yield
    finally:
        left.set()
        thread.join()


def equal(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal in every element, shape and dtype."""
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def close(found: torch.Tensor, expected: torch.Tensor, **tolerance) -> None:
    torch.testing.assert_close(found, expected, **tolerance)


def fold(operation: Callable, tensors: list[torch.Tensor]) -> torch.Tensor:
    """The reference of a reduction: one operation, in the order of ranks, on this rank alone."""
    return reduce(operation, tensors)


def usable(w: World) -> None:
    """The group still works: one round of each kind of message gives the right answer."""
    t = torch.full((5,), float(w.rank + 1))
    dist.all_reduce(t)
    equal(t, torch.full((5,), w.size * (w.size + 1) / 2))
    out = torch.empty(w.size, dtype=torch.int64)
    dist.all_gather_into_tensor(out, torch.tensor([w.rank]))
    equal(out, torch.arange(w.size))
    got = torch.empty(1, dtype=torch.int64)
    work = dist.isend(torch.tensor([w.rank]), w.next)
    dist.recv(got, w.previous)
    work.wait()
    assert got.item() == w.previous
    dist.barrier()
