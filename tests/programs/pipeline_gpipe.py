import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("mpi")
rank, n = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(n)]
x, target = torch.randn(12, 8), torch.randn(12, 8)

stage = PipelineStage(layers[rank], rank, n, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=3, loss_fn=nn.functional.mse_loss)
losses = []
if rank == 0:
    schedule.step(x)
elif rank == n - 1:
    out = schedule.step(target=target, losses=losses)
else:
    schedule.step()

whole = nn.Sequential(*layers)(x)
if rank == n - 1:
    assert torch.allclose(out, whole, atol=1e-5)
    assert len(losses) == 3
    print("mean loss %.4f" % (sum(l.item() for l in losses) / 3))
assert layers[rank][0].weight.grad is not None
dist.destroy_process_group()
