import logging

import torch
import torch.distributed as dist

dist.init_process_group("mpi")
logging.basicConfig(
    level=logging.INFO,
    format=f"%(levelname)s [rank {dist.get_rank()}] %(message)s",
    force=True,
)
log = logging.getLogger(__name__)
log.setLevel(logging.INFO if dist.get_rank() == 0 else logging.WARNING)
log.info("world of %d", dist.get_world_size())
losses = []
for epoch in range(3):
    loss = torch.tensor(1.0 / (epoch + 1))
    dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    losses.append(loss.item())
    log.info("epoch %d: %.3f", epoch, loss)
assert losses == sorted(losses, reverse=True)
log.debug("never seen")
