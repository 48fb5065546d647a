"""Answers to the exercises of lesson 24."""

WRONG = {
    "my_gpu": {
        "the rank": ("return (rank + 0) % gpus", "Count the ranks on your own host."),
        "the local rank": ("return hosts[:rank].count(hosts[rank])", "That is the local rank."),
        "counts itself": ("return hosts[: rank + 1].count(hosts[rank]) % gpus", "local ranks begin at 0"),
        "nothing": ("hosts[:rank].count(hosts[rank])", "a function without `return` returns None"),
        "only rank 0 right": ("return 0 if rank == 0 else -1", "rank"),
        "deadlock": ("if rank == 0:\n    dist.barrier()\nreturn 0", "deadlock: "),
        "over budget": (
            "dist.barrier()\nreturn hosts[:rank].count(hosts[rank]) % gpus",
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
    "ring_order": {
        "as they are": ("return list(range(world_size))", "messages cross in the ring"),
        "hosts": ("return sorted(hosts)", "does not hold every rank once"),
        "too few": ("return list(range(world_size - 1))", "does not hold every rank once"),
        "other rings": (
            "ring = sorted(range(world_size), key=lambda r: hosts[r])\nreturn ring[rank:] + ring[:rank]",
            "have other rings",
        ),
        "nothing": ("sorted(range(world_size))", "does not hold every rank once"),
        "over budget": (
            "dist.barrier()\nreturn sorted(range(world_size), key=lambda r: hosts[r])",
            "over budget: collective calls on each rank 1, limit 0",
        ),
        "only rank 0 right": (
            "by_host = sorted(range(world_size), key=lambda r: hosts[r])\n"
            "return by_host if rank == 0 else list(range(world_size))",
            "have other rings",
        ),
    },
}
RIGHT = {
    "my_gpu": {
        "by counting": "n = 0\nfor r in range(rank):\n    n += hosts[r] == hosts[rank]\nreturn n % gpus",
        "by place among one's own": "own = [r for r, host in enumerate(hosts) if host == hosts[rank]]\n"
        "return own.index(rank) % gpus",
    },
    "ring_order": {
        "backwards": "return sorted(range(world_size), key=lambda r: hosts[r], reverse=True)",
        "by host": "return [r for h in dict.fromkeys(hosts) for r in range(world_size) if hosts[r] == h]",
    },
}
