"""Answers to the exercises of lesson 02."""

TURNS = """\
total, theirs = x.clone(), torch.empty_like(x)
for other in range(world_size):
    if other != rank:
        request = dist.isend(x, dst=other)
        dist.recv(theirs, src=other)
        request.wait()
        total += theirs
return total"""

WRONG = {
    "sum_by_turns": {
        "sums of sums": (
            TURNS.replace("dist.isend(x,", "dist.isend(total.clone(),"), "Numbers count more than once",
        ),
        "in place": (
            TURNS.replace("x.clone()", "x").replace("dist.isend(x,", "dist.isend(total.clone(),"),
            "in a world of 2, every rank is right, but rank 0 changed `x`",
        ),
        "own tensor": (TURNS.replace("return total", "return x"), "That is the rank's own tensor"),
        "own tensor twice": (
            TURNS.replace("return total", "return total + x"), "The rank's own tensor counts twice.",
        ),
        "the mean": (TURNS.replace("return total", "return total / world_size"), "That is the mean"),
        "only rank 0 right": (
            TURNS.replace("return total", "return total if rank == 0 else x"), "rank 1 is wrong",
        ),
        "not waited for": (TURNS.replace("        request.wait()\n", ""), "never waits for its isend"),
        "deadlock": (
            TURNS.replace("request = dist.isend", "dist.send").replace("        request.wait()\n", ""),
            "deadlock: ",
        ),
        "over budget": (
            "total = x.clone()\ndist.all_reduce(total)\nreturn total",
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
    "mean_loss": {
        "no divisor": ("dist.all_reduce(loss)\nreturn loss", "That is the sum: divide it"),
        "wrong divisor": ("dist.all_reduce(loss)\nreturn loss / 3", "divided by 3. The next world"),
        "off by one": ("dist.all_reduce(loss)\nreturn loss / max(1, world_size - 1)", "ranks 0-1 are wrong"),
        "only rank 0 right": (
            "dist.reduce(loss, dst=0)\nreturn loss / world_size",
            "rank 1 is wrong",
        ),
        "own loss twice": (
            "total = loss.clone()\ndist.all_reduce(total)\nreturn (total + loss) / world_size",
            "The rank's own loss counts twice.",
        ),
        "only a division": ("return loss / world_size", "the sum did not come here"),
        "deadlock": (
            "if rank == 0:\n    dist.all_reduce(loss)\nreturn loss / world_size",
            "deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in all_reduce",
        ),
        "over budget, calls": (
            "loss = loss.clone()\ndist.reduce(loss, dst=0)\ndist.broadcast(loss, src=0)\n"
            "return loss / world_size",
            "over budget: collective calls on each rank 2, limit 1\nOne collective is enough",
        ),
        "over budget, messages": (
            "loss = loss.clone()\nall_reduce_naive(loss)\nreturn loss / world_size",
            "in a world of 3, every rank is right, but over budget: messages in all 6, limit 4",
        ),
        "nothing returned": ("dist.all_reduce(loss)\nloss /= world_size", "without `return` returns None"),
        "the argument lost": (
            "dist.all_reduce(loss)\nreturn loss / world_size",
            "rank 0 changed `loss`, which its caller goes on using: work on a copy",
        ),
        "not waited for": (
            "total = loss.clone()\ndist.all_reduce(total, async_op=True)\nreturn total / world_size",
            "rank 0 never waits for its asynchronous all_reduce: call wait() on what it returned",
        ),
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
        "own chunk twice": (
            "for root, chunk in enumerate(x.chunk(world_size)):\n    own = chunk.clone()\n"
            "    reduce_to(root, chunk)\n    if rank == root:\n        chunk += own\n"
            "    broadcast_from(root, chunk)",
            "Each chunk has its root's own numbers in it twice.",
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
    "sum_by_turns": {
        "all at once": """\
others = [r for r in range(world_size) if r != rank]
came = [torch.empty_like(x) for _ in others]
requests = [dist.isend(x, r) for r in others] + [dist.irecv(c, r) for c, r in zip(came, others)]
for request in requests:
    request.wait()
return x + sum(came)""",
        "as the lesson does": "total = x.clone()\nall_reduce_naive(total)\nreturn total",
    },
    "mean_loss": {
        "of all losses": "all_losses = [torch.empty_like(loss) for _ in range(world_size)]\n"
        "dist.all_gather(all_losses, loss)\nreturn sum(x.item() for x in all_losses) / len(all_losses)",
        "divided first": "loss = loss / dist.get_world_size()\ndist.all_reduce(loss)\nreturn loss",
        "by hand": "loss = loss.clone()\nall_reduce_reduce_broadcast(loss)\nreturn loss / world_size",
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
