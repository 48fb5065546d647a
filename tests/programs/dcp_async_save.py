import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

dist.init_process_group("mpi")
writers = dist.new_group(backend="gloo")
place = [tempfile.TemporaryDirectory(prefix="ckpt") if dist.get_rank() == 0 else None]
path = [place[0].name if place[0] else None]
dist.broadcast_object_list(path, src=0)

state = {"step": torch.tensor(0), "w": torch.full((64,), float(dist.get_rank()))}
future = None
for step in range(3):
    state["step"] += 1
    dist.all_reduce(state["w"], op=dist.ReduceOp.AVG)
    if future is not None:
        future.result()
    future = dcp.async_save(state, checkpoint_id=f"{path[0]}/{step}", process_group=writers)
future.result()

loaded = {"step": torch.tensor(-1), "w": torch.zeros(64)}
dcp.load(loaded, checkpoint_id=f"{path[0]}/2", process_group=writers)
assert loaded["step"].item() == 3 and loaded["w"][0].item() == 1.5
dist.barrier()
if dist.get_rank() == 0:
    print("checkpoints:", len(list(Path(path[0]).iterdir())))
    place[0].cleanup()
