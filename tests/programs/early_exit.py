import torch
import torch.distributed as dist

dist.init_process_group("mpi")
x = torch.tensor([float(dist.get_rank())])
dist.broadcast(x, src=2)
print(x.item())
if x.item() == 2.0:
    print("all as it should be")
    exit()
raise AssertionError("not reached")
