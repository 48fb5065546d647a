"""Right answers to the exercises of lesson 12 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_noise_and_signal": (
        body("""\
both = torch.cat([gradient, gradient.square().sum().view(1)])
dist.all_reduce(both)
both /= world_size
mean, s = both[:-1].square().sum(), both[-1]
large, small = samples * world_size, samples
return torch.stack([(s - mean) / (1 / small - 1 / large), (large * mean - small * s) / (large - small)])"""),
        body("""\
every = [torch.empty_like(gradient) for _ in range(world_size)]
dist.all_gather(every, gradient)
every = torch.stack(every)
mean = every.mean(0)
noise = samples * every.var(0).sum()  # with R - 1 below
return noise, mean.square().sum() - noise / (samples * world_size)"""),
        body("""\
import numpy as np
every = [None] * world_size
dist.all_gather_object(every, gradient.tolist())
every = np.array(every)
noise = samples * every.var(axis=0, ddof=1).sum()
return [noise, np.square(every.mean(axis=0)).sum() - noise / samples / world_size]"""),
        edit("    mean /= R\n", "", "dist.all_reduce(mean)", "dist.all_reduce(mean, dist.ReduceOp.AVG)",
             "    dist.all_reduce(own)", "    dist.all_reduce(own, async_op=True).wait()"),
    ),
    "rows_of_rank": (
        edit("order[rank::world_size]", "order.tensor_split(world_size)[rank]"),
        edit("return list(order[rank::world_size].split(samples))",
             "return [batch[rank::world_size].tolist() for batch in order.split(samples * world_size)]"),
        body("""\
import random
order = list(range(count))
random.Random(f"epoch {epoch}").shuffle(order)
mine = order[rank::world_size]
return [torch.tensor(mine[i : i + samples]) for i in range(0, len(mine), samples)]"""),
    ),
}  # fmt: skip
