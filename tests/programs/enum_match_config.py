import enum
import json
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist


class Reduce(str, enum.Enum):
    SUM = "sum"
    MEAN = "mean"
    MAX = "max"


@dataclass(frozen=True)
class Config:
    reduce: Reduce
    size: int = 3

    @classmethod
    def from_json(cls, text):
        values = json.loads(text)
        return cls(Reduce(values.pop("reduce")), **values)


def combine(x, how):
    ops = {Reduce.SUM: dist.ReduceOp.SUM, Reduce.MAX: dist.ReduceOp.MAX, Reduce.MEAN: dist.ReduceOp.SUM}
    dist.all_reduce(x, op=ops[how])
    return x / dist.get_world_size() if how is Reduce.MEAN else x


dist.init_process_group("mpi")
me, n = dist.get_rank(), dist.get_world_size()
expected = {Reduce.SUM: n * (n - 1) / 2, Reduce.MEAN: (n - 1) / 2, Reduce.MAX: n - 1}
for how in Reduce:
    config = Config.from_json(json.dumps({"reduce": how.value, "size": 2}))
    assert asdict(config)["size"] == 2
    x = combine(torch.full((config.size,), float(me)), config.reduce)
    assert x.tolist() == [expected[how]] * 2
    if me == 0:
        print(how.name, x.tolist())
