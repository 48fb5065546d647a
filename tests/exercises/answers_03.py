"""Answers to the exercises of lesson 03."""

SUMS = """\
s = torch.stack([x_r.sum(0), (x_r**2).sum(0), torch.full_like(x_r[0], len(x_r))])
dist.all_reduce(s)
"""
WRONG = {
    "clipped_mean": {
        "each its own": (
            "mean = gradient / max(1.0, gradient.norm().item() / limit)\ndist.all_reduce(mean)\n"
            "return mean / world_size",
            "Each rank has clipped its own gradient. Take the mean first",
        ),
        "not clipped": (
            "mean = gradient.clone()\ndist.all_reduce(mean)\nreturn mean / world_size",
            "This is the mean without clipping",
        ),
        "wrong divisor": (
            "mean = gradient.clone()\ndist.all_reduce(mean)\n"
            "return mean * min(1.0, limit / mean.norm().item()) / world_size",
            "The sum was clipped and then divided",
        ),
        "always stretched": (
            "mean = gradient.clone()\ndist.all_reduce(mean)\nmean /= world_size\n"
            "return mean * limit / mean.norm()",
            "A gradient that is short enough stays as it is",
        ),
        "the argument lost": (
            "dist.all_reduce(gradient)\ngradient /= world_size\n"
            "return gradient * min(1.0, limit / gradient.norm().item())",
            "rank 0 changed `gradient`, which its caller goes on using",
        ),
        "only rank 0 right": (
            "mean = gradient.clone()\ndist.reduce(mean, 0)\nmean /= world_size\n"
            "return mean * min(1.0, limit / mean.norm().item()) * (1 if rank == 0 else 2)",
            "rank 1 is wrong",
        ),
        "over budget": (
            "mean = gradient.clone()\ndist.all_reduce(mean)\nmean /= world_size\n"
            "norm = mean.norm()\ndist.all_reduce(norm, op=dist.ReduceOp.MAX)\n"
            "return mean * min(1.0, limit / norm.item())",
            "over budget: collective calls on each rank 2, limit 1",
        ),
        "deadlock": (
            "mean = gradient.clone()\nif mean.norm() > limit:\n    dist.all_reduce(mean)\nreturn mean",
            "deadlock: ",
        ),
    },
    "mean_in_one": {
        "plain mean": (
            "g = gradient.clone()\ndist.all_reduce(g)\nreturn g / world_size",
            "This is the plain mean. A vector that stands for more samples must count for more",
        ),
        "not divided": (
            "g = gradient * samples\ndist.all_reduce(g)\nreturn g",
            "This is the sum over all samples. Divide it by their number.",
        ),
        "wrong divisor": (
            "g = gradient * samples\ndist.all_reduce(g)\nreturn g / world_size",
            "You divide by the number of ranks. Divide by the number of samples of all ranks.",
        ),
        "own": ("return gradient * samples / samples", "nothing has come from the others"),
        "only rank 0 right": (
            "packed = torch.cat([gradient * samples, torch.tensor([float(samples)])])\n"
            "dist.reduce(packed, dst=0)\n"
            "return packed[:-1] / packed[-1] if rank == 0 else gradient",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            "total = torch.tensor(float(samples))\ndist.all_reduce(total)\n"
            "g = gradient * samples / total\ndist.all_reduce(g)\nreturn g",
            "over budget: collective calls on each rank 2, limit 1\nOne call can sum the vector and",
        ),
        "deadlock": (
            "packed = torch.cat([gradient * samples, torch.tensor([float(samples)])])\n"
            "if rank > 0:\n    dist.all_reduce(packed)\n"
            "return packed[:-1] / packed[-1]",
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce",
        ),
        "a round of sends": (
            "packed = torch.cat([gradient * samples, gradient.new_tensor([float(samples)])])\n"
            "total = packed.clone()\n"
            "for shift in range(1, world_size):\n"
            "    came = torch.empty_like(packed)\n"
            "    sending = dist.isend(packed, (rank + shift) % world_size)\n"
            "    dist.recv(came, (rank - shift) % world_size)\n    sending.wait()\n    total += came\n"
            "return total[:-1] / total[-1]",
            "over budget: messages in all 2, limit 0\nNo message by hand",
        ),
        "the argument lost": (
            "gradient *= samples\npacked = torch.cat([gradient, gradient.new_tensor([float(samples)])])\n"
            "dist.all_reduce(packed)\nreturn packed[:-1] / packed[-1]",
            "rank 0 changed `gradient`, which its caller goes on using",
        ),
        "nothing returned": ("dist.all_reduce(gradient)", "without `return` returns None"),
    },
    "batch_statistics": {
        "own": (
            "return x_r.mean(0), x_r.var(0, unbiased=False)",
            "the statistics of the rank's own rows, as in plain batch normalisation",
        ),
        "mean of each": (
            "s = torch.stack([x_r.mean(0), x_r.var(0, unbiased=False)])\ndist.all_reduce(s)\n"
            "return s[0] / world_size, s[1] / world_size",
            "Ranks with more rows must count for more; and a mean of variances misses",
        ),
        "weighted mean of each": (
            "s = torch.stack([x_r.mean(0), x_r.var(0, unbiased=False), torch.ones(x_r.shape[1])])\n"
            "s *= len(x_r)\ndist.all_reduce(s)\nreturn s[0] / s[2], s[1] / s[2]",
            "The mean is right. A mean of variances misses",
        ),
        "mean square": (SUMS + "return s[0] / s[2], s[1] / s[2]", "Take the square of the mean from it."),
        "off by one": (
            SUMS + "m = s[0] / s[2]\nreturn m, (s[1] - s[2] * m**2) / (s[2] - 1)",
            "The variance is divided by the number of rows minus one",
        ),
        "only rank 0 right": (
            SUMS.replace("dist.all_reduce(s)", "dist.reduce(s, dst=0)")
            + "m = s[0] / s[2]\nreturn m + rank, s[1] / s[2] - m**2",
            "in a world of 2, rank 1 is wrong",
        ),
        "the argument lost": (
            SUMS + "m = s[0] / s[2]\nx_r -= m\nreturn m, s[1] / s[2] - m**2",
            "rank 0 changed `x_r`, which its caller goes on using",
        ),
        "swapped": (
            SUMS + "m = s[0] / s[2]\nreturn s[1] / s[2] - m**2, m",
            "Mean and variance are swapped",
        ),
        "the mean alone": (SUMS + "return s[0] / s[2]", "Return the variance, too"),
        "standard deviation": (
            SUMS + "m = s[0] / s[2]\nreturn m, (s[1] / s[2] - m**2).sqrt()",
            "The second is the standard deviation.",
        ),
        "wrong divisor": (
            SUMS + "m = s[0] / world_size\nreturn m, s[1] / world_size - m**2",
            "Divide by the number of rows of all ranks.",
        ),
        "own rows as divisor": (
            SUMS + "n = len(x_r) * world_size\nm = s[0] / n\nreturn m, s[1] / n - m**2",
            "ranks have different numbers of rows. Add those up, too.",
        ),
        "over budget": (
            "s = torch.stack([x_r.sum(0), torch.full_like(x_r[0], len(x_r))])\ndist.all_reduce(s)\n"
            "m = s[0] / s[1]\nv = ((x_r - m) ** 2).sum(0)\ndist.all_reduce(v)\nreturn m, v / s[1]",
            "over budget: collective calls on each rank 2, limit 1\nSeveral sums can travel",
        ),
    },
}

RIGHT = {
    "clipped_mean": {
        "by torch's own clipping": """\
p = torch.nn.Parameter(torch.zeros_like(gradient))
p.grad = gradient.clone()
dist.all_reduce(p.grad)
p.grad /= dist.get_world_size()
torch.nn.utils.clip_grad_norm_([p], limit)
return p.grad""",
        "by gathering": """\
every = [torch.empty_like(gradient) for _ in range(world_size)]
dist.all_gather(every, gradient)
mean = torch.stack(every).mean(0)
norm = mean.norm()
return mean if norm <= limit else mean / norm * limit""",
    },
    "mean_in_one": {
        "the count in front": """\
packed = gradient.new_empty(len(gradient) + 1)
packed[0], packed[1:] = samples, samples * gradient
dist.all_reduce(packed, op=dist.ReduceOp.SUM)
count, *_ = packed
return packed[1:].div(count)""",
        "by gathering": """\
mine = torch.cat([gradient, torch.tensor([float(samples)])])
every = [torch.empty_like(mine) for _ in range(world_size)]
dist.all_gather(every, mine)
return sum(e[:-1] * e[-1] for e in every) / sum(e[-1] for e in every)""",
    },
    "batch_statistics": {
        "in float64 and one row": """\
x_r = x_r.double()
n = x_r.shape[1]
sums = torch.cat([x_r.sum(dim=0), x_r.pow(2).sum(dim=0), torch.tensor([len(x_r)])])
dist.all_reduce(sums)
sums /= sums[-1].item()
return sums[:n].float(), (sums[n:-1] - sums[:n].square()).float()""",
        "by gathering, as a list": """\
sums = torch.stack([torch.ones_like(x_r), x_r, x_r * x_r]).sum(1)
every = [torch.empty_like(sums) for _ in range(dist.get_world_size())]
dist.all_gather(every, sums)
n, s, q = torch.stack(every).sum(0)
return [s / n, q / n - (s / n) ** 2]""",
    },
}
