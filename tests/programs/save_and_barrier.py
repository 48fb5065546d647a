import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

CHECKPOINT_PATH = os.path.join(tempfile.gettempdir(), "model_of_the_demo.checkpoint")


def demo_checkpoint(rank):
    torch.manual_seed(100 + rank)
    ddp_model = DDP(nn.Linear(10, 5))
    if rank == 0:
        torch.save(ddp_model.state_dict(), CHECKPOINT_PATH)
    # nobody loads before it is there
    dist.barrier()
    other = DDP(nn.Linear(10, 5))
    other.load_state_dict(torch.load(CHECKPOINT_PATH, map_location="cpu", weights_only=True))
    for p, q in zip(ddp_model.parameters(), other.parameters()):
        assert torch.equal(p, q)
    dist.barrier()
    if rank == 0:
        os.remove(CHECKPOINT_PATH)
        print("saved, loaded and removed")


if __name__ == "__main__":
    dist.init_process_group("mpi")
    demo_checkpoint(dist.get_rank())
    dist.destroy_process_group()
