import torch
import torch.distributed as dist


class GatherLayer(torch.autograd.Function):
    """Gather from all ranks; hand each its own gradient back, summed."""

    @staticmethod
    def forward(ctx, x):
        out = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(out, x)
        return tuple(out)

    @staticmethod
    def backward(ctx, *grads):
        every = torch.stack(grads)
        dist.all_reduce(every)
        return every[dist.get_rank()]


dist.init_process_group("mpi")
r, n = dist.get_rank(), dist.get_world_size()
x = torch.full((2, 3), float(r + 1), requires_grad=True)
z = torch.cat(GatherLayer.apply(x))
assert z.shape == (2 * n, 3)
(z.sum() ** 2).backward()
total = 6 * n * (n + 1) / 2
assert torch.allclose(x.grad, torch.full((2, 3), 2 * total * n))
print("contrastive gradient", x.grad[0, 0].item())
