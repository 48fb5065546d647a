"""Answers to the exercises of lesson 05."""

SPEED = "x = torch.tensor(1 / t)\ndist.all_reduce(x)\n"
LONGEST = (
    "x = torch.tensor([t_comp, overhead])\ndist.all_reduce(x, op=dist.ReduceOp.MAX)\n"
    "T, o = x.tolist()\nR = world_size\n"
)
TIMED = (
    "from time import perf_counter\ncompute()\n{}\nstart = perf_counter()\n{}\n"
    "seen = perf_counter() - start\n"
)
WRONG = {
    "my_least_bandwidth": {
        "own stopwatch": (
            "R = world_size\nreturn 2 * (R - 1) / R * n / ((R - 1) * t_comp - overhead)",
            "Each rank believes its own stopwatch",
        ),
        "the largest of the bandwidths": (
            "R = world_size\nW = torch.tensor(2 * (R - 1) / R * n / ((R - 1) * t_comp - overhead))\n"
            "dist.all_reduce(W, op=dist.ReduceOp.MAX)\nreturn W",
            "You took the largest of the ranks' bandwidths. Take the longest times first",
        ),
        "the mean": (
            LONGEST.replace("MAX", "AVG") + "return 2 * (R - 1) / R * n / ((R - 1) * T - o)",
            "That is with the mean of the times",
        ),
        "the shortest": (
            LONGEST.replace("MAX", "MIN") + "return 2 * (R - 1) / R * n / ((R - 1) * T - o)",
            "That is with the shortest of the times",
        ),
        "the sum": (
            LONGEST.replace("MAX", "SUM") + "return 2 * (R - 1) / R * n / ((R - 1) * T - o)",
            "That is with the sum of the times",
        ),
        "no overhead": (LONGEST + "return 2 * (R - 1) / R * n / ((R - 1) * T)", "The overhead is missing"),
        "overhead added": (
            LONGEST + "return 2 * (R - 1) / R * n / ((R - 1) * T + o)",
            "The overhead is added. It leaves the bytes less time",
        ),
        "R times": (
            LONGEST + "return 2 * (R - 1) / R * n / (R * T - o)",
            "That is with R T_comp. The first rank computes its own share",
        ),
        "without R - 1": (LONGEST + "return 2 * (R - 1) / R * n / (T - o)", "R - 1 is missing before T_comp"),
        "right for two ranks": (
            LONGEST + "return n / ((R - 1) * T - o)",
            "in a world of 3, ranks 0-2 are wrong",
        ),
        "the bytes once": (LONGEST + "return n / ((R - 1) * T - o)", "That sends n bytes. In an all-reduce"),
        "the bytes twice": (
            LONGEST + "return 2 * n / ((R - 1) * T - o)",
            "That sends 2 n bytes. A rank sends",
        ),
        "bits": (
            LONGEST + "return 8 * 2 * (R - 1) / R * n / ((R - 1) * T - o)",
            "That is in bits. Asked for are bytes",
        ),
        "Mbit/s": (
            LONGEST + "return 8e-6 * 2 * (R - 1) / R * n / ((R - 1) * T - o)",
            "That is in Mbit/s. Asked for are bytes",
        ),
        "turned round": (
            LONGEST + "return ((R - 1) * T - o) / (2 * (R - 1) / R * n)",
            "Turn it round: that is seconds per byte",
        ),
        "only rank 0 right": (
            "x = torch.tensor([t_comp, overhead])\ndist.reduce(x, dst=0, op=dist.ReduceOp.MAX)\n"
            "T, o = x.tolist()\nR = world_size\n"
            "return 2 * (R - 1) / R * n / ((R - 1) * T - o) if rank == 0 else None",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            "x, y = torch.tensor(t_comp), torch.tensor(overhead)\n"
            "dist.all_reduce(x, op=dist.ReduceOp.MAX)\ndist.all_reduce(y, op=dist.ReduceOp.MAX)\n"
            "R = world_size\nreturn 2 * (R - 1) / R * n / ((R - 1) * x - y)",
            "over budget: collective calls on each rank 2, limit 1\nBoth times fit into one tensor",
        ),
        "deadlock": (
            "x = torch.tensor([t_comp, overhead])\nif rank == 0:\n    dist.all_reduce(x)\nreturn n / x[0]",
            "deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce",
        ),
        "nothing returned": (
            LONGEST + "W = 2 * (R - 1) / R * n / ((R - 1) * T - o)",
            "without `return` returns None",
        ),
    },
    "sync_seconds": {
        "as it was": (
            TIMED.format("", "sync()") + "return seen",
            "On a rank that comes early the stopwatch runs while it waits",
        ),
        "met too early": (
            "dist.barrier()\n" + TIMED.format("", "sync()") + "return seen",
            "On a rank that comes early the stopwatch runs while it waits",
        ),
        "met too late": (
            TIMED.format("", "dist.barrier()\nsync()") + "return seen",
            "On a rank that comes early the stopwatch runs while it waits",
        ),
        "the whole step": (
            "from time import perf_counter\ndist.barrier()\nstart = perf_counter()\n"
            "compute()\nsync()\nreturn perf_counter() - start",
            "Computing is in that number, that of the slowest rank",
        ),
        "the longest": (
            TIMED.format("", "sync()")
            + "x = torch.tensor(seen)\ndist.all_reduce(x, op=dist.ReduceOp.MAX)\nreturn x",
            "Computing is in that number, that of the slowest rank",
        ),
        "the mean": (
            TIMED.format("", "sync()") + "x = torch.tensor(seen)\ndist.all_reduce(x)\nreturn x / world_size",
            "That is the mean of the ranks' stopwatches",
        ),
        "the wait alone": (
            TIMED.format("", "dist.barrier()") + "sync()\nreturn seen",
            "The synchronisation itself is missing",
        ),
        "nothing timed": (
            TIMED.format("sync()", "pass") + "return seen",
            "The synchronisation itself is missing",
        ),
        "only rank 0 right": (
            TIMED.format("dist.barrier()", "sync()") + "return seen if rank == 0 else None",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            "dist.barrier()\n" + TIMED.format("dist.barrier()", "sync()") + "return seen",
            "over budget: collective calls on each rank 3, limit 2\nIt is enough that all meet once",
        ),
        "deadlock": (
            TIMED.format("if rank > 0:\n    dist.barrier()", "sync()") + "return seen",
            "in a world of 2, ",
        ),
        "nothing returned": (
            TIMED.format("dist.barrier()", "sync()"),
            "without `return` returns None",
        ),
    },
    "fair_share": {
        "equal parts": ("return batch / world_size", "That is an equal part for each. The slowest rank"),
        "turned round": (
            "x = torch.tensor(t)\ndist.all_reduce(x)\nreturn batch * t / x",
            "in proportion to t, so the slowest rank has the most to do",
        ),
        "what its time leaves of all": (
            "x = torch.tensor(t)\ndist.all_reduce(x)\nreturn batch * (1 - t / x)",
            "That goes with 1 - t / (sum of all t), which is right for two ranks only",
        ),
        "what its time leaves of all, shared": (
            "x = torch.tensor(t)\ndist.all_reduce(x)\nreturn batch * (1 - t / x) / (world_size - 1)",
            "which is right for two ranks only. A rank that takes twice as long",
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
    "my_least_bandwidth": {
        "by gathering": """\
everyone = [torch.empty(2, dtype=torch.float64) for _ in range(world_size)]
dist.all_gather(everyone, torch.tensor([t_comp, overhead], dtype=torch.float64))
t_comp, overhead = (max(times) for times in zip(*(both.tolist() for both in everyone)))
left = (len(everyone) - 1) * t_comp - overhead
return 2 * (n - n / len(everyone)) / left""",
        "the time for a chunk first": """\
times = torch.tensor([-t_comp, -overhead], dtype=torch.float64)
dist.all_reduce(times, dist.ReduceOp.MIN)
chunks = 2 * (world_size - 1)
seconds = (times[1] - (world_size - 1) * times[0]) / chunks
return n / world_size / seconds""",
    },
    "sync_seconds": {
        "the last one waited for nobody": """\
import time
compute()
start = time.time()
sync()
seen = torch.tensor(time.time() - start, dtype=torch.float64)
dist.all_reduce(seen, op=dist.ReduceOp.MIN)
return seen""",
        "a synchronisation to meet in": """\
from time import perf_counter
compute()
sync()
start = perf_counter()
sync()
return perf_counter() - start""",
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
