"""Answers to the exercises of lesson 02."""

WRONG = {
    "mean_loss": {
        "no divisor": ("dist.all_reduce(loss)\nreturn loss", "That is the sum: divide it"),
        "wrong divisor": ("dist.all_reduce(loss)\nreturn loss / 3", "divided by 3. The next world"),
        "off by one": ("dist.all_reduce(loss)\nreturn loss / max(1, world_size - 1)", "ranks 0-1 are wrong"),
        "only rank 0 right": (
            "dist.reduce(loss, dst=0)\nreturn loss / world_size",
            "rank 1 is wrong",
        ),
        "only a division": ("return loss / world_size", "the sum did not come here"),
        "deadlock": (
            "if rank == 0:\n    dist.all_reduce(loss)\nreturn loss / world_size",
            "deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce",
        ),
        "over budget, calls": (
            "dist.reduce(loss, dst=0)\ndist.broadcast(loss, src=0)\nreturn loss / world_size",
            "over budget: collective calls on each rank 2, limit 1\nOne collective is enough",
        ),
        "over budget, messages": (
            "all_reduce_naive(loss)\nreturn loss / world_size",
            "in a world of 3, every rank is right, but over budget: messages in all 6, limit 4",
        ),
        "nothing returned": ("dist.all_reduce(loss)\nloss /= world_size", "without `return` returns None"),
        "an error": ("return los / world_size", "ranks 0-1: NameError: name 'los' is not defined"),
        "one rank raises": (
            "if rank == 1:\n    raise ValueError('bad')\ndist.all_reduce(loss)\nreturn loss",
            "rank 1 raised an error for which the others wait in vain",
        ),
    },
    "all_reduce_in_chunks": {
        "over budget, bytes": (
            "all_reduce_reduce_broadcast(x)",
            "in a world of 3, every rank is right, but over budget: bytes sent by the busiest rank",
        ),
        "over budget, collective": ("dist.all_reduce(x)", "The collective is what you build here"),
        "half of it": (
            "for root, chunk in enumerate(x.chunk(world_size)):\n    reduce_to(root, chunk)",
            "the sum of its own chunk alone",
        ),
        "off by one": (
            "for root, chunk in enumerate(x.chunk(world_size)):\n    reduce_to(root, chunk)\n"
            "    broadcast_from((root + 1) % world_size, chunk)",
            "are wrong",
        ),
        "not in place": ("x = x.clone()\nall_reduce_naive(x)\nreturn x", "x is what it was: write into it"),
        "only rank 0 right": ("reduce_to(0, x)", "in a world of 2, rank 1 is wrong"),
        "wrong divisor": (
            "for root, chunk in enumerate(x.chunk(world_size)):\n    reduce_to(root, chunk)\n"
            "    chunk /= world_size\n    broadcast_from(root, chunk)",
            "That is the mean: all-reduce only adds",
        ),
        "deadlock": (
            "chunks = x.chunk(world_size)\nother = (rank + 1) % world_size\n"
            "dist.send(chunks[other], dst=other)",
            "deadlock: each waits for another\nrank 0 in send to rank 1",
        ),
    },
}  # fmt: skip

RIGHT = {
    "mean_loss": {
        "of all losses": "all_losses = [torch.empty_like(loss) for _ in range(world_size)]\n"
        "dist.all_gather(all_losses, loss)\nreturn sum(x.item() for x in all_losses) / len(all_losses)",
        "divided first, in place": "loss /= dist.get_world_size()\ndist.all_reduce(loss)\nreturn loss",
        "by hand": "all_reduce_reduce_broadcast(loss)\nreturn loss / world_size",
    },
    "all_reduce_in_chunks": {
        "all at once": """\
chunks = x.chunk(world_size)
mine, others = chunks[rank], [r for r in range(world_size) if r != rank]
parts = [torch.empty_like(mine) for _ in others]
requests = [dist.isend(chunks[r].clone(), dst=r) for r in others]
requests += [dist.irecv(part, src=r) for part, r in zip(parts, others)]
[request.wait() for request in requests]
mine += sum(parts)
requests = [dist.isend(mine, dst=r) for r in others] + [dist.irecv(chunks[r], src=r) for r in others]
[request.wait() for request in requests]""",
        "in a ring": """\
n, right, left = len(x) // world_size, (rank + 1) % world_size, (rank - 1) % world_size
y = torch.empty_like(x[:n])
for step in range(2 * (world_size - 1)):
    out, into = ((rank - step) % world_size, (rank - step - 1) % world_size)
    request = dist.isend(x[out * n : (out + 1) * n].clone(), dst=right)
    dist.recv(y, src=left)
    request.wait()
    there = x[into * n : (into + 1) * n]
    there.copy_(there + y if step < world_size - 1 else y)
return x""",
    },
}
