"""Answers to the exercises of lesson 00."""

WRONG = {
    "my_sum": {
        "everything": ("return sum(numbers)", "ranks 0-1 took numbers[0]"),
        "the rest left over": (
            "n = len(numbers) // world_size\nreturn sum(numbers[rank * n : (rank + 1) * n])",
            "nobody took numbers[",
        ),
        "off by one": ("return sum(numbers[rank + 1 :: world_size])", "nobody took numbers[0]"),
        "only rank 0 works": (
            "return sum(numbers) if rank == 0 else 0",
            "the total is right, but over budget: rank 0 took",
        ),
        "four ranks alone": ("return sum(numbers[rank::4])", "in a world of 2, nobody took numbers[2]"),
        "deadlock": (
            "if rank == 0:\n    dist.barrier()\nreturn sum(numbers[rank::world_size])",
            "deadlock: rank 1 finished the cell",
        ),
        "the mean": ("return sum(numbers[rank::world_size]) / len(numbers)", "no sum of the numbers"),
        "fewer chunks than ranks": (
            "return torch.tensor(numbers).chunk(world_size)[rank].sum().item()",
            "in a world of 3, rank 2: IndexError",
        ),
        "the rest for the last": (
            "n = len(numbers) // world_size\nend = None if rank == world_size - 1 else (rank + 1) * n\n"
            "return sum(numbers[rank * n : end])",
            "in a world of 3, the total is right, but over budget: rank 2 took 2 of 2 numbers, limit 1",
        ),
        "nothing returned": ("sum(numbers[rank::world_size])", "got None, which is no sum of the numbers"),
    },
    "estimate_pi": {
        "a quarter": (
            "return (torch.rand(darts, 2).square().sum(dim=1) < 1).double().mean().item()",
            "A quarter of the circle is a quarter of pi",
        ),
        "the same darts": (
            "torch.manual_seed(0)\nhits = torch.rand(darts, 2).square().sum(dim=1) < 1\n"
            "return 4 * hits.double().mean().item()",
            "4 ranks have only 1 different estimate\n",
        ),
        "the average of all": (
            "hits = torch.rand(darts, 2).square().sum(dim=1) < 1\nx = 4 * hits.double().mean()\n"
            "dist.all_reduce(x)\nreturn x / world_size",
            "4 ranks have only 1 different estimate\n",
        ),
        "wrong divisor": (
            "hits = torch.rand(darts, 2).square().sum(dim=1) < 1\n"
            "return 4 * hits.double().sum().item() / (darts / world_size)",
            "That is 4 times pi: divide this rank's hits by all the darts that it threw",
        ),
        "the hits of all": (
            "hits = (torch.rand(darts, 2).square().sum(dim=1) < 1).sum()\ndist.all_reduce(hits)\n"
            "return 4 * hits.item() / darts",
            "That is 4 times pi: divide this rank's hits by all the darts that it threw",
        ),
        "only rank 0 right": (
            "hit = torch.rand(darts, 2).norm(dim=1) < 1\nreturn 4 * hit.double().mean() if rank == 0 else 0",
            "rank 1 is wrong",
        ),
        "deadlock": (
            "dist.recv(torch.zeros(1), src=(rank + 1) % world_size)\nreturn 3.14",
            "deadlock: each waits for another\nrank 0 in recv from rank 1",
        ),
        "over budget": (
            "import random\nhits = 0\nfor _ in range(darts):\n"
            "    hits += sum(random.random() ** 2 for _ in range(2)) < 1\nreturn 4 * hits / darts",
            "every rank is right, but over budget: processor time over the solution's",
        ),
    },
}  # fmt: skip

RIGHT = {
    "my_sum": {
        "blocks": "n = -(-len(numbers) // world_size)\nreturn sum(numbers[rank * n : (rank + 1) * n])",
        "a loop": "total = 0\nfor i, number in enumerate(numbers):\n    if i % world_size == rank:\n"
        "        total += number\nreturn total",
        "a tensor": "return torch.tensor(numbers).tensor_split(dist.get_world_size())[dist.get_rank()].sum()",
    },
    "estimate_pi": {
        "two columns": "x, y = torch.rand(darts), torch.rand(darts)\n"
        "return 4 * (x**2 + y**2 < 1).sum().item() / darts",
        "NumPy": "import numpy as np\np = np.random.default_rng(1000 + rank).random((darts, 2))\n"
        "return 4 * np.mean((p * p).sum(axis=1) < 1)",
        "the whole circle": "p = 2 * torch.rand(darts, 2) - 1\nreturn 4 * (p.norm(dim=1) < 1).float().mean()",
    },
}
