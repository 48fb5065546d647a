import torch
import torch.distributed as dist

dist.init_process_group("mpi")


@torch.compile(backend="aot_eager")
def step(w, x):
    return torch.tanh(x @ w).sum()


w = torch.randn(4, 4, requires_grad=True)
x = torch.randn(3, 4)
loss = step(w, x)
loss.backward()
assert torch.allclose(loss, torch.tanh(x @ w).sum(), atol=1e-6)
g = w.grad.clone()
dist.all_reduce(g)
dist.all_reduce(w.grad)
assert torch.equal(g, w.grad)
print("compiled")
