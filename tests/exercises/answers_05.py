"""Answers to the exercises of lesson 05."""

MIN = "x = torch.tensor(seen)\ndist.all_reduce(x, op=dist.ReduceOp.MIN)\n"
SPEED = "x = torch.tensor(1 / t)\ndist.all_reduce(x)\n"
WRONG = {
    "least_batch": {
        "own stopwatch": (
            "return seen / ((world_size - 1) * t)",
            "Each rank believes its own stopwatch. It ran while the rank waited",
        ),
        "the longest": (
            MIN.replace("MIN", "MAX") + "return x / ((world_size - 1) * t)",
            "That is the longest of the stopwatches",
        ),
        "the mean": (
            MIN.replace("MIN", "SUM") + "x /= world_size\nreturn x / ((world_size - 1) * t)",
            "That is the mean of the stopwatches",
        ),
        "no divisor": (
            MIN.replace("MIN", "SUM") + "return x / ((world_size - 1) * t)",
            "That is the sum of the stopwatches",
        ),
        "wrong divisor": (MIN + "return x / (world_size * t)", "You divide by R. The first rank computes"),
        "right for two ranks": (MIN + "return x / t", "in a world of 3, ranks 0-2 are wrong"),
        "without R - 1": (MIN + "return x / t", "R - 1 is missing: each of the other ranks saves"),
        "only rank 0 right": (
            "x = torch.tensor(seen)\ndist.reduce(x, dst=0, op=dist.ReduceOp.MIN)\n"
            "return x / ((world_size - 1) * t) if rank == 0 else None",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            "dist.barrier()\n" + MIN + "return x / ((world_size - 1) * t)",
            "over budget: collective calls on each rank 2, limit 1\nOne call can find the shortest",
        ),
        "deadlock": (
            "if rank == 0:\n    x = torch.tensor(seen)\n    dist.all_reduce(x)\nreturn seen / t",
            "deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce",
        ),
        "nothing returned": (MIN + "x /= (world_size - 1) * t", "without `return` returns None"),
    },
    "fair_share": {
        "equal parts": ("return batch / world_size", "That is an equal part for each. The slowest rank"),
        "turned round": (
            "x = torch.tensor(t)\ndist.all_reduce(x)\nreturn batch * t / x",
            "in proportion to t, so the slowest rank has the most to do",
        ),
        "a fraction": (SPEED + "return 1 / t / x", "the fractions add up to 1. Multiply by batch"),
        "wrong divisor": (
            SPEED + "return batch / t / (x / world_size)",
            "You divide by the mean of the speeds",
        ),
        "divided twice": (SPEED + "return batch / t / x / world_size", "You divide once too often"),
        "all of it": ("return batch", "Every rank takes the whole batch"),
        "only rank 0 right": (
            "x = torch.tensor(1 / t)\ndist.reduce(x, dst=0)\nreturn batch / t / x",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            "times = [torch.zeros(1) for _ in range(world_size)]\n"
            "dist.all_gather(times, torch.tensor([t]))\n" + SPEED + "return batch / t / x",
            "over budget: collective calls on each rank 2, limit 1\nOne sum over all ranks is enough",
        ),
        "deadlock": (
            "x = torch.tensor(1 / t)\nif rank > 0:\n    dist.all_reduce(x)\nreturn batch / t / x",
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce",
        ),
        "rounded": (
            SPEED + "return round(batch / t / x.item())",
            "That is rounded, and then the parts need not",
        ),
    },
}

RIGHT = {
    "least_batch": {
        "by gathering": """\
everyone = [torch.empty(1) for _ in range(dist.get_world_size())]
dist.all_gather(everyone, torch.tensor([seen]))
t_sync = min(x.item() for x in everyone)
return t_sync / t / (len(everyone) - 1)""",
        "the largest of the negative, in float64": """\
x = torch.tensor([-seen], dtype=torch.float64)
dist.all_reduce(x, dist.ReduceOp.MAX)
return -x / (world_size - 1) / t""",
    },
    "fair_share": {
        "by gathering": """\
times = [torch.empty(1, dtype=torch.float64) for _ in range(world_size)]
dist.all_gather(times, torch.tensor([t], dtype=torch.float64))
speeds = [1 / x.item() for x in times]
return batch * speeds[rank] / sum(speeds)""",
        "from the time that all need": """\
samples_per_second = torch.tensor([1.0]) / t
dist.all_reduce(samples_per_second, async_op=True).wait()
seconds = batch / samples_per_second
return seconds / t""",
    },
}
