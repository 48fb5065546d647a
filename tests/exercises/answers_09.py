"""Answers to the exercises of lesson 09."""

# TODO: right ones in other styles than the solution; wrong ones, each with what a learner is told.
_RIGHT = {
    "all_gather": "everybody = [torch.empty_like(mine) for _ in range(world_size)]\n"
    "dist.all_gather(everybody, mine)\nreturn sum(everybody)",
    "in place": "dist.all_reduce(mine)\nreturn mine",
}
_WRONG = {
    "own tensor": ("return mine", "That is the rank's own tensor"),
    "nothing returned": ("dist.all_reduce(mine)", "Nothing came back"),
    "only rank 0 right": (
        "total = mine.clone()\ndist.reduce(total, dst=0)\nreturn total if rank == 0 else mine",
        "is wrong",
    ),
    "deadlock": ("if rank == 0:\n    dist.barrier()\nreturn mine", "deadlock"),
    "over budget": (
        "total = mine.clone()\ndist.all_reduce(total)\ndist.barrier()\nreturn total",
        "over budget: collective calls on each rank 2, limit 1",
    ),
}
RIGHT = {"first_09": _RIGHT, "second_09": _RIGHT}
WRONG = {"first_09": _WRONG, "second_09": _WRONG}
