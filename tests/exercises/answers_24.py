"""Answers to the exercises of lesson 24."""

WRONG = {
    "local_rank_of": {
        "the rank": ("return rank", "That is the rank itself"),
        "counts itself": ("return hosts[: rank + 1].count(hosts[rank])", "local ranks begin at 0"),
        "nothing": ("hosts[:rank].count(hosts[rank])", "a function without `return` returns None"),
        "only rank 0 right": ("return 0 if rank == 0 else -1", "rank 1"),
        "over budget": (
            "dist.barrier()\nreturn hosts[:rank].count(hosts[rank])",
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
    "local_rank_of": {
        "loop": "count = 0\nfor host in hosts[:rank]:\n    count += host == hosts[rank]\nreturn count",
        "sum": "return sum(hosts[r] == hosts[rank] for r in range(rank))",
    },
    "ring_order": {
        "backwards": "return sorted(range(world_size), key=lambda r: hosts[r], reverse=True)",
        "by host": "return [r for h in dict.fromkeys(hosts) for r in range(world_size) if hosts[r] == h]",
    },
}
