"""Right answers to the exercises of lesson 05 that are of another kind than the solutions."""

from labkit.exercises.describe import body

RIGHT = {
    "my_least_bandwidth": (
        body("""\
everyone = [torch.empty(2, dtype=torch.float64) for _ in range(world_size)]
dist.all_gather(everyone, torch.tensor([t_comp, overhead], dtype=torch.float64))
t_comp, overhead = (max(times) for times in zip(*(both.tolist() for both in everyone)))
left = (len(everyone) - 1) * t_comp - overhead
return 2 * (n - n / len(everyone)) / left"""),
        body("""\
times = torch.tensor([-t_comp, -overhead], dtype=torch.float64)
dist.all_reduce(times, dist.ReduceOp.MIN)
chunks = 2 * (world_size - 1)
seconds = (times[1] - (world_size - 1) * times[0]) / chunks
return n / world_size / seconds"""),
        body("""\
import numpy as np
times = torch.from_numpy(np.array([t_comp, overhead]))
dist.all_reduce(times, op=dist.ReduceOp.MAX)
t_comp, overhead = times.numpy()
return 2 * (world_size - 1) / world_size * n / ((world_size - 1) * t_comp - overhead)"""),
    ),
    "sync_seconds": (
        body("""\
import time
compute()
start = time.time()
sync()
seen = torch.tensor(time.time() - start, dtype=torch.float64)
dist.all_reduce(seen, op=dist.ReduceOp.MIN)
return seen"""),
        body("""\
from time import monotonic_ns
compute()
dist.all_reduce(torch.zeros(1))
start = monotonic_ns()
sync()
return (monotonic_ns() - start) / 1e9"""),
    ),
    "fair_share": (
        body("""\
times = [torch.empty(1, dtype=torch.float64) for _ in range(world_size)]
dist.all_gather(times, torch.tensor([t], dtype=torch.float64))
speeds = [1 / x.item() for x in times]
return batch * speeds[rank] / sum(speeds)"""),
        body("""\
samples_per_second = torch.tensor([1.0]) / t
dist.all_reduce(samples_per_second, async_op=True).wait()
seconds = batch / samples_per_second
return seconds / t"""),
    ),
}
