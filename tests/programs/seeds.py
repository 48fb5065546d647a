import os
import random

import numpy as np
import torch
import torch.distributed as dist


def seed_everything(seed):
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)


seed_everything(42)
dist.init_process_group("mpi")
same = [random.random(), np.random.rand(), torch.rand(1).item()]
everybody = [None] * dist.get_world_size()
dist.all_gather_object(everybody, same)
assert all(s == same for s in everybody)

seed_everything(42 + dist.get_rank())
dist.all_gather_object(everybody, torch.rand(1).item())
assert len(set(everybody)) == len(everybody)
print("seeds are as they should be")
torch.use_deterministic_algorithms(False)
