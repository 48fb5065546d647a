"""Right answers to the exercises of lesson 03 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "clipped_mean": (
        body("""\
p = torch.nn.Parameter(torch.zeros_like(gradient))
p.grad = gradient.clone()
dist.all_reduce(p.grad)
p.grad /= dist.get_world_size()
torch.nn.utils.clip_grad_norm_([p], limit)
return p.grad"""),
        body("""\
every = [torch.empty_like(gradient) for _ in range(world_size)]
dist.all_gather(every, gradient)
mean = torch.stack(every).mean(0)
norm = mean.norm()
return mean if norm <= limit else mean / norm * limit"""),
        edit("(mean)", "(mean, async_op=True).wait()", "mean /=", "mean = mean /", "min(1.0, limit / mean.norm().item())",
             "torch.clamp(limit / mean.square().sum().sqrt(), max=1)"),
    ),
    "mean_in_one": (
        body("""\
packed = gradient.new_empty(len(gradient) + 1)
packed[0], packed[1:] = samples, samples * gradient
dist.all_reduce(packed, op=dist.ReduceOp.SUM)
count, *_ = packed
return packed[1:].div(count)"""),
        body("""\
mine = torch.cat([gradient, gradient.new_tensor([samples])])
every = [torch.empty_like(mine) for _ in range(world_size)]
dist.all_gather(every, mine)
return sum(e[:-1] * e[-1] for e in every) / sum(e[-1] for e in every)"""),
        edit("    dist.all_reduce(packed)\n", "    packed = packed.double()\n    dist.all_reduce(packed)\n",
             "packed[:-1] / packed[-1]", "(packed[:-1] / packed[-1]).to(gradient.dtype)"),
    ),
    "batch_statistics": (
        body("""\
dtype, x_r = x_r.dtype, x_r.double()
n = x_r.shape[1]
sums = torch.cat([x_r.sum(dim=0), x_r.pow(2).sum(dim=0), torch.tensor([len(x_r)])])
dist.all_reduce(sums)
sums /= sums[-1].item()
return sums[:n].to(dtype), (sums[n:-1] - sums[:n].square()).to(dtype)"""),
        body("""\
sums = torch.stack([torch.ones_like(x_r), x_r, x_r * x_r]).sum(1)
every = [torch.empty_like(sums) for _ in range(dist.get_world_size())]
dist.all_gather(every, sums)
n, s, q = torch.stack(every).sum(0)
return [s / n, q / n - (s / n) ** 2]"""),
        body("""\
mine = torch.stack([torch.full_like(x_r[0], len(x_r)), x_r.mean(0), x_r.var(0, correction=0)])
every = torch.empty(world_size, *mine.shape, dtype=mine.dtype)
dist.all_gather(list(every), mine)
weights = every[:, 0] / every[:, 0].sum(0)
mean = (weights * every[:, 1]).sum(0)
return torch.stack([mean, (weights * (every[:, 2] + (every[:, 1] - mean) ** 2)).sum(0)])"""),
    ),
}  # fmt: skip
