"""Right answers to the exercises of lesson 22 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_rest_of_epoch": (
        edit("rows[rank::world_size]", "rows.tensor_split(world_size)[rank]"),
        edit("    generator =", "    import numpy as np\n\n    generator =",
             "rows[rank::world_size]", "np.array_split(rows.numpy(), world_size)[rank]"),
        body("""\
order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
found = []
for first in range(done, count, batch):
    rows = order[first : min(count, first + batch)]
    found.append([int(row) for place, row in enumerate(rows) if place % world_size == rank])
return found"""),
    ),
    "my_useful_share": (
        body("""\
hours = torch.zeros(2, dtype=torch.float64)
for gap in gaps.tolist():
    hours[1] += gap
    gap -= restart
    while gap >= interval + save:
        hours[0] += interval
        gap -= interval + save
dist.all_reduce(hours)
return hours[0] / hours[1]"""),
        body("""\
rounds = torch.div(torch.relu(gaps - restart), interval + save, rounding_mode="floor")
every = [torch.zeros(2, dtype=torch.float64) for _ in range(world_size)]
dist.all_gather(every, torch.stack([rounds.sum() * interval, gaps.sum()]))
work, year = sum(every)
return work / year"""),
        body("""\
import numpy as np
hours = gaps.numpy()
kept = interval * np.floor(np.maximum(hours - restart, 0) / (interval + save)).sum()
both = torch.tensor([kept, hours.sum()])
dist.all_reduce(both, async_op=True).wait()
return float(both[0] / both[1])"""),
    ),
    "train_and_save": (
        edit('{"step": step, **copy.deepcopy(state)}',
             '{"step": step, "model": {k: v.clone() for k, v in state["model"].items()},'
             ' "optimizer": {"state": {n: {k: v.clone() for k, v in s.items()}'
             ' for n, s in state["optimizer"]["state"].items()},'
             ' "param_groups": state["optimizer"]["param_groups"]}}'),
        edit('queue.append({"step": step, **copy.deepcopy(state)})', "import io\n            file = io.BytesIO()\n"
             '            torch.save({"step": step, **state}, file)\n            file.seek(0)\n'
             "            queue.append(torch.load(file))"),
        edit("dist.all_reduce(p.grad)\n            p.grad /= dist.get_world_size()",
             "mean = p.grad / world_size\n            dist.all_reduce(mean)\n            p.grad = mean"),
    ),
}  # fmt: skip
