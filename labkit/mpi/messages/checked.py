"""send and recv, and what checked mode adds to a message.

MPI matches a message by source and tag alone: a receive of other dtype or size gets wrong numbers
without a word. In checked mode each message ends in a trailer that says what the sender meant; the
receiver compares. The trailer travels in the same message, so it needs no second one and no order. What
limits the network puts a stamp behind it (`labkit.mpi.messages.slow_link`).
"""

from collections.abc import Callable

import torch

from labkit.mpi.call import Call, dtype_name
from labkit.mpi.errors import MismatchError
from labkit.mpi.wire import steps
from labkit.mpi.wire.buffers import dense, memory
from labkit.mpi.wire.parts import Step
from labkit.mpi.wire.runtime import MPI

_TRAILER = 256  # bytes


def send(tensor: torch.Tensor, rank: int, tag: int, call: Call, checked: bool, stamp: bytes = b"") -> Step:
    """The step that sends a tensor. Checked, it is done only when its receive has started."""
    numbers, _ = dense(tensor)
    if not checked:
        return _in_two_parts("Isend", numbers, stamp, rank, tag) if stamp else steps.send(numbers, rank, tag)
    call.locate()
    text = f"{_kind(tensor)}|{call} at {call.line}"
    trailer = text.encode()[:_TRAILER].ljust(_TRAILER) + stamp
    return _in_two_parts("Issend", numbers, trailer, rank, tag)


def receive(
    tensor: torch.Tensor,
    rank: int,
    tag: int,
    call: Call,
    checked: bool,
    status: MPI.Status,
    stamp: bytearray,
) -> Step:
    """The step that receives into a tensor; `finish` compares it with what was sent, and fills `stamp`."""
    numbers, back = dense(tensor, read=False)
    if not checked and not stamp:
        step = steps.receive(numbers, rank, tag)
        step.finish = lambda: _complete(numbers, back, call, status)
        return step
    trailer = bytearray(_TRAILER * checked + len(stamp))
    step = _in_two_parts("Irecv", numbers, trailer, rank, tag)
    free = step.finish

    def finish() -> None:
        free()
        if stamp:
            stamp[:] = trailer[-len(stamp) :]
        if checked:
            _compare(tensor, numbers, trailer, call, status)
            if back is not None:
                back()
        else:
            _complete(numbers, back, call, status, len(stamp))

    step.finish = finish
    return step


def _in_two_parts(verb: str, numbers: torch.Tensor, trailer: bytes | bytearray, rank: int, tag: int) -> Step:
    """One message of two blocks of memory, without a copy."""
    trailer = trailer if isinstance(trailer, bytearray) else bytearray(trailer)
    tail = MPI.Get_address(trailer)
    kind = MPI.Datatype.Create_struct(
        [numbers.nbytes, len(trailer)], [numbers.data_ptr(), tail], [MPI.BYTE, MPI.BYTE]
    ).Commit()  # fmt: skip
    return Step(verb, ([MPI.BOTTOM, 1, kind], rank, tag), None, (numbers, trailer), kind.Free)


def _kind(tensor: torch.Tensor) -> str:
    return f"{dtype_name(tensor.dtype)} {tensor.numel()}"


def _compare(
    tensor: torch.Tensor, numbers: torch.Tensor, trailer: bytearray, call: Call, status: MPI.Status
) -> None:
    got = status.Get_count(MPI.BYTE) - len(trailer)
    if got == numbers.nbytes:
        sent = bytes(trailer)
    else:  # a shorter message: its trailer lies somewhere in our numbers
        sent = memory(numbers)[max(got, 0) :].tobytes() + bytes(trailer)
    kind, _, text = sent[:_TRAILER].decode(errors="replace").partition("|")
    if kind != _kind(tensor):
        raise _mismatch(
            call, f"rank {call.ranks[0]} sent {text.rstrip()}" if text else f"{got} bytes were sent"
        )


def _complete(
    numbers: torch.Tensor, back: Callable[[], object] | None, call: Call, status: MPI.Status, extra: int = 0
) -> None:
    got = status.Get_count(MPI.BYTE) - extra
    if got != numbers.nbytes:
        raise _mismatch(call, f"{got} bytes were sent, {numbers.nbytes} fit")
    if back is not None:
        back()


def _mismatch(call: Call, found: str) -> MismatchError:
    call.locate()
    return MismatchError(
        f"{call} at {call.line}",
        found,
        "send and receive tensors of one dtype and one number of elements",
    )
