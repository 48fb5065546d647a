import torch
import torch.distributed as dist
import torch.distributed.nn.functional as F

dist.init_process_group("mpi")
rank, n = dist.get_rank(), dist.get_world_size()

x = torch.tensor([1.0 + rank], requires_grad=True)
total = F.all_reduce(x.clone())
(total * (rank + 1)).backward()
assert total.item() == n * (n + 1) / 2
assert x.grad.item() == n * (n + 1) / 2

y = torch.full((2,), float(rank), requires_grad=True)
parts = F.all_gather(y)
torch.stack(parts).sum().backward()
assert y.grad.tolist() == [n, n]

z = torch.arange(n, dtype=torch.float32, requires_grad=True)
out = F.all_to_all_single(torch.empty(n), z)
out.mul(2).sum().backward()
assert z.grad.tolist() == [2.0] * n
print("gradients cross ranks")
