import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel as DDP


def count_and_average(state, bucket):
    state["buckets"] += 1
    tensor = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(tensor, async_op=True).get_future().then(lambda f: f.value()[0])


dist.init_process_group("mpi")
torch.manual_seed(0)
state = {"buckets": 0}
models = [DDP(nn.Linear(6, 3)) for _ in range(2)]
models[1].load_state_dict(models[0].state_dict())
models[0].register_comm_hook(state, count_and_average)
models[1].register_comm_hook(None, default_hooks.fp16_compress_hook)
norms = []
for name, module in models[0].named_modules():
    module.register_full_backward_hook(lambda m, gi, go: norms.append(go[0].norm().item()))
x = torch.full((5, 6), float(dist.get_rank()), requires_grad=True)
for m in models:
    m(x).sum().backward()
assert state["buckets"] == 1 and norms
a, b = (m.module.weight.grad for m in models)
assert torch.allclose(a, b, rtol=2e-2) and torch.allclose(a, torch.full_like(a, 7.5))
print("hooks agree")
