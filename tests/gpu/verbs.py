"""Every verb of torch.distributed on a tensor that the rank was given; what arrives. Runs as a cell."""

from collections.abc import Callable

import torch
import torch.distributed as dist

Tensor = torch.Tensor


def given(device: str | torch.device) -> Tensor:
    """[2 * world size], other whole numbers on each rank: sums are exact in every order."""
    return 100.0 * dist.get_rank() + torch.arange(2.0 * dist.get_world_size(), device=device)


def neighbours() -> tuple[int, int]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return (rank + 1) % ranks, (rank - 1) % ranks


def parts(x: Tensor) -> list[Tensor]:
    """A part for each rank, contiguous."""
    return list(x.chunk(dist.get_world_size()))


def send_recv(x: Tensor) -> Tensor:
    y, (right, left) = torch.empty_like(x), neighbours()
    if dist.get_rank() == 0:
        dist.send(x, right)
        dist.recv(y, left)
    else:
        dist.recv(y, left)
        dist.send(x, right)
    return y


def isend_irecv(x: Tensor) -> Tensor:
    y, (right, left) = torch.empty_like(x), neighbours()
    for work in [dist.isend(x, right, tag=3), dist.irecv(y, left, tag=3)]:
        work.wait()
    return y


def batch_isend_irecv(x: Tensor) -> Tensor:
    y, (right, left) = torch.empty_like(x), neighbours()
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, y, left)]):
        work.wait()
    return y


def recv_from_any(x: Tensor) -> Tensor:
    y, total = torch.empty_like(x), x.clone()
    if dist.get_rank() > 0:
        dist.send(x, 0)
    else:
        for _ in range(dist.get_world_size() - 1):
            dist.recv(y)
            total += y
    dist.barrier()  # else the next call's messages could be taken for these
    return total


def all_reduce(x: Tensor) -> Tensor:
    dist.all_reduce(x)
    return x


def all_reduce_max(x: Tensor) -> Tensor:
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x


def all_reduce_bfloat16(x: Tensor) -> Tensor:
    small = (x % 3).bfloat16()
    dist.all_reduce(small)
    return small


def all_reduce_of_columns(x: Tensor) -> Tensor:
    """Strided: not as it lies in memory."""
    columns = x.view(2, -1).t().contiguous().t()
    dist.all_reduce(columns)
    return columns.contiguous()


def all_reduce_8_MB(x: Tensor) -> Tensor:
    large = x.repeat(2_000_000 // len(x))
    dist.all_reduce(large)
    return large


def all_reduce_async(x: Tensor) -> Tensor:
    dist.all_reduce(x, async_op=True).wait()
    return x


def all_reduce_future(x: Tensor) -> Tensor:
    """As DistributedDataParallel waits."""
    work = dist.all_reduce(x, async_op=True)
    return work.get_future().wait()[0]


def reduce(x: Tensor) -> Tensor:
    dist.reduce(x, 0)
    return x if dist.get_rank() == 0 else torch.zeros_like(x)


def broadcast(x: Tensor) -> Tensor:
    dist.broadcast(x, dist.get_world_size() - 1)
    return x


def all_gather(x: Tensor) -> Tensor:
    y = [torch.empty_like(x) for _ in parts(x)]
    dist.all_gather(y, x)
    return torch.cat(y)


def all_gather_into_tensor(x: Tensor) -> Tensor:
    y = x.new_empty(dist.get_world_size() * len(x))
    dist.all_gather_into_tensor(y, x)
    return y


def all_gather_into_tensor_async(x: Tensor) -> Tensor:
    y = x.new_empty(dist.get_world_size() * len(x))
    dist.all_gather_into_tensor(y, x, async_op=True).wait()
    return y


def gather(x: Tensor) -> Tensor:
    y = [torch.empty_like(x) for _ in parts(x)] if dist.get_rank() == 0 else None
    dist.gather(x, y, 0)
    return torch.cat(y) if y else torch.zeros_like(x)


def scatter(x: Tensor) -> Tensor:
    y = torch.empty_like(parts(x)[0])
    dist.scatter(y, parts(x) if dist.get_rank() == 0 else None, 0)
    return y


def reduce_scatter(x: Tensor) -> Tensor:
    y = torch.empty_like(parts(x)[0])
    dist.reduce_scatter(y, parts(x))
    return y


def reduce_scatter_tensor(x: Tensor) -> Tensor:
    y = torch.empty_like(parts(x)[0])
    dist.reduce_scatter_tensor(y, x)
    return y


def reduce_scatter_tensor_async(x: Tensor) -> Tensor:
    y = torch.empty_like(parts(x)[0])
    dist.reduce_scatter_tensor(y, x, async_op=True).wait()
    return y


def all_to_all(x: Tensor) -> Tensor:
    y = [torch.empty_like(part) for part in parts(x)]
    dist.all_to_all(y, parts(x))
    return torch.cat(y)


def all_to_all_single(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x)
    return y


def barrier(x: Tensor) -> Tensor:
    dist.barrier()
    return x


MESSAGES: tuple[Callable[[Tensor], Tensor], ...] = (
    send_recv,
    isend_irecv,
    batch_isend_irecv,
    recv_from_any,
)
COLLECTIVES: tuple[Callable[[Tensor], Tensor], ...] = (
    all_reduce,
    all_reduce_max,
    all_reduce_bfloat16,
    all_reduce_of_columns,
    all_reduce_8_MB,
    all_reduce_async,
    all_reduce_future,
    reduce,
    broadcast,
    all_gather,
    all_gather_into_tensor,
    all_gather_into_tensor_async,
    gather,
    scatter,
    reduce_scatter,
    reduce_scatter_tensor,
    reduce_scatter_tensor_async,
    all_to_all,
    all_to_all_single,
    barrier,
)
ON_A_LIMITED_NETWORK: tuple[Callable[[Tensor], Tensor], ...] = (
    *MESSAGES,
    all_reduce,
    all_reduce_of_columns,
    all_reduce_async,
    reduce,
    broadcast,
    all_gather,
    all_gather_into_tensor,
    all_gather_into_tensor_async,
    reduce_scatter_tensor,
    reduce_scatter_tensor_async,
    barrier,
)
