from dataclasses import dataclass, field

import torch.distributed as dist


@dataclass
class Report:
    rank: int
    losses: list = field(default_factory=list)

    @property
    def best(self):
        return min(self.losses)


dist.init_process_group("mpi")
rank, size = dist.get_rank(), dist.get_world_size()
mine = Report(rank, [1 / (rank + i + 1) for i in range(5)])

reports = [None] * size if rank == 0 else None
dist.gather_object(mine, reports, dst=0)
if rank == 0:
    assert [r.rank for r in reports] == list(range(size))
    print("best:", min(reports, key=lambda r: r.best))

out = [None]
dist.scatter_object_list(out, [Report(r) for r in range(size)] if rank == 0 else None, src=0)
assert out[0].rank == rank and out[0].losses == []
