import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    dist.init_process_group(timeout=timedelta(minutes=2))
    local, rank = int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"])
    generation = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))
    assert 0 <= local < int(os.environ.get("LOCAL_WORLD_SIZE", 4))
    device = torch.device(f"cuda:{local}") if torch.cuda.is_available() else torch.device("cpu")
    t = torch.tensor([rank], device=device, dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.PRODUCT)
    assert t.item() == 0
    dist.barrier()
    print(f"restart {generation}, {os.environ['MASTER_ADDR'] != ''}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
