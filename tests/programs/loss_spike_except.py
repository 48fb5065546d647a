"""Skip a bad batch everywhere if it was bad anywhere."""

import traceback

import torch
import torch.distributed as dist


class BadBatch(ValueError):
    pass


def loss_of(batch):
    if torch.isnan(batch).any():
        raise BadBatch("nan in batch")
    return batch.square().mean()


dist.init_process_group("mpi")
rank = dist.get_rank()
kept = []
for step in range(6):
    batch = torch.full((4,), float(step))
    if step == 3 and rank == 2:
        batch[1] = float("nan")
    try:
        loss, ok = loss_of(batch), torch.ones(())
    except BadBatch as error:
        text = "".join(traceback.format_exception(error))
        assert "nan in batch" in text
        loss, ok = torch.zeros(()), torch.zeros(())
    dist.all_reduce(ok, op=dist.ReduceOp.MIN)
    if ok:
        kept.append(step)
assert kept == [0, 1, 2, 4, 5], kept
print("kept", kept)
