"""Answers to the exercises of lesson 12."""

MEAN = "mean = gradient.clone()\ndist.all_reduce(mean)\nmean /= world_size\n"
OWN = "own = gradient.square().sum()\ndist.all_reduce(own)\n"
NUMBERS = "s, m, b, R = own / world_size, mean.square().sum(), samples, world_size\n"
BOTH = "return (s - m) * b * R / (R - 1), (R * m - s) / (R - 1)"
ROWS = """\
generator = torch.Generator().manual_seed(epoch)
order = torch.randperm(count, generator=generator)
"""
MINE = "return list(order[rank::world_size].split(samples))"

WRONG = {
    "my_noise_and_signal": {
        "own square": (
            MEAN + "own = gradient.square().sum() * world_size\n" + NUMBERS + BOTH,
            "Each rank used the square of its own gradient: take the mean of the squares",
        ),
        "sum of gradients": (
            MEAN.replace("mean /= world_size\n", "") + OWN + NUMBERS + BOTH,
            "The sum of the gradients is not their mean",
        ),
        "sum of squares": (
            MEAN + OWN + NUMBERS.replace("own / world_size", "own") + BOTH,
            "The sum of the squares is not their mean",
        ),
        "as if the mean had no noise": (
            MEAN + OWN + NUMBERS + "return b * (s - m), m",
            "The square of the mean gradient is taken for |G|^2: it still has tr(Sigma) / (R b) in it.",
        ),
        "signal with noise": (
            MEAN + OWN + NUMBERS + "return (s - m) * b * R / (R - 1), m",
            "tr(Sigma) is right. The square of the mean gradient still has",
        ),
        "noise of a rank": (
            MEAN + OWN + NUMBERS + BOTH.replace(" * b", ""),
            "That of one sample is `samples` times as large.",
        ),
        "the other way round": (
            MEAN + OWN + NUMBERS + "return (R * m - s) / (R - 1), (s - m) * b * R / (R - 1)",
            "The right numbers in the wrong order",
        ),
        "the ratio": (
            MEAN + OWN + NUMBERS + "return b * R * (s - m) / (R * m - s)",
            "This is their ratio. Return both",
        ),
        "gradient lost": (
            MEAN.replace("gradient.clone()", "gradient") + OWN + NUMBERS + BOTH,
            "are wrong",
        ),
        "over budget": (
            MEAN + OWN + "dist.barrier()\n" + NUMBERS + BOTH,
            "over budget: collective calls on each rank 3, limit 2\nOne for the mean gradient",
        ),
        "only rank 0 right": (
            MEAN.replace("all_reduce(mean)", "reduce(mean, dst=0)") + OWN + NUMBERS + BOTH,
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            MEAN + "own = gradient.square().sum()\nif rank > 0:\n    dist.all_reduce(own)\n" + NUMBERS + BOTH,
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce",
        ),
    },
    "rows_of_rank": {
        "an order of each rank's own": (
            ROWS.replace("(epoch)", "(100 * epoch + rank)") + MINE,
            "samples are seen by no rank, and ",
        ),
        "no generator": (
            "order = torch.randperm(count)\n" + MINE,
            "samples are seen by no rank, and ",
        ),
        "seeded by epoch plus rank": (
            ROWS.replace("(epoch)", "(epoch + rank)") + MINE,
            "samples are seen by no rank, and ",
        ),
        "not parted": (
            ROWS + "return list(order.split(samples))",
            "every rank takes all samples: give each its part of the order",
        ),
        "the first part for all": (
            ROWS + "return list(order[::world_size].split(samples))",
            "all ranks take the same samples: the batch has not grown",
        ),
        "one order for ever": (
            ROWS.replace("(epoch)", "(0)") + MINE,
            "the next epoch has the order of this one",
        ),
        "not shuffled": (
            "order = torch.arange(count)\n" + MINE,
            "the next epoch has the order of this one",
        ),
        "smaller batches": (
            ROWS + MINE.replace("(samples)", "(samples // world_size)"),
            "has batches of another size: each has `samples` rows",
        ),
        "only rank 0 right": (
            ROWS + "mine = order[rank::world_size]\nreturn list(mine[: len(mine) - rank].split(samples))",
            "in one epoch ",
        ),
        "over budget": (
            ROWS.replace("(epoch)", "(1000 * epoch + rank)") + "dist.broadcast(order, src=0)\n" + MINE,
            "over budget: collective calls on each rank 2, limit 0\nAll can know the order",
        ),
        "nothing comes back": (ROWS, "returns no list of tensors of row numbers"),
        "one number": (ROWS + "return count", "returns no list of tensors of row numbers"),
    },
}

RIGHT = {
    "my_noise_and_signal": {
        "in one call": """\
both = torch.cat([gradient, gradient.square().sum().view(1)])
dist.all_reduce(both)
both /= world_size
mean, s = both[:-1].square().sum(), both[-1]
large, small = samples * world_size, samples
return torch.stack([(s - mean) / (1 / small - 1 / large), (large * mean - small * s) / (large - small)])""",
        "from all gradients": """\
every = [torch.empty_like(gradient) for _ in range(world_size)]
dist.all_gather(every, gradient)
every = torch.stack(every)
mean = every.mean(0)
noise = samples * every.var(0).sum()  # with R - 1 below
return noise, mean.square().sum() - noise / (samples * world_size)""",
    },
    "rows_of_rank": {
        "in blocks": ROWS + "return list(order.chunk(world_size)[rank].split(samples))",
        "batch by batch": ROWS
        + """\
found = []
for batch in order.split(samples * world_size):
    found.append(batch[rank::world_size].tolist())
return found""",
    },
}
