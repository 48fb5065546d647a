"""Answers to the exercises of lesson 01."""

EXCHANGE = """\
theirs = torch.empty_like(mine)
request = dist.isend(mine, dst={to})
dist.recv(theirs, src={source})
request.wait()
return theirs"""

SHIFT = """\
theirs = torch.empty_like(mine)
request = dist.isend(mine, dst=(rank + 1) % world_size)
dist.recv(theirs, src=(rank - 1) % world_size)
request.wait()
return theirs"""

WRONG = {
    "shift_right": {
        "into what is sent": (
            SHIFT.replace("theirs = torch.empty_like(mine)", "theirs = mine"),
            "changes a tensor that isend is still sending, so what arrives depends on chance",
        ),
        "a copy, and the argument lost": (
            SHIFT.replace("torch.empty_like(mine)", "mine").replace("isend(mine,", "isend(mine.clone(),"),
            "rank 0 changed `mine`, which its caller goes on using",
        ),
        "to the left": (
            SHIFT.translate({ord("+"): "-", ord("-"): "+"}),
            "That came from the right",
        ),
        "own tensor": (SHIFT.replace("return theirs", "return mine"), "That is the rank's own tensor"),
        "not waited for": (SHIFT.replace("request.wait()\n", ""), "never waits for its isend"),
        "deadlock": (
            SHIFT.replace("request = dist.isend", "dist.send").replace("request.wait()\n", ""), "deadlock: ",
        ),
        "over budget": ("dist.barrier()\n" + SHIFT, "over budget: collective calls on each rank 1, limit 0"),
    },
    "swap": {
        "deadlock": (
            "partner = rank ^ 1\ntheirs = torch.empty_like(mine)\ndist.send(mine, dst=partner)\n"
            "dist.recv(theirs, src=partner)\nreturn theirs",
            "deadlock: each waits for another\nrank 0 in send to rank 1, line 4: dist.send(",
        ),
        "off by one": (
            EXCHANGE.format(to="(rank + 1) % world_size", source="(rank - 1) % world_size"),
            "in a world of 4, ranks 0, 2 are wrong",
        ),
        "own tensor": (
            "partner = rank ^ 1\nrequest = dist.isend(mine, dst=partner)\n"
            "dist.recv(torch.empty_like(mine), src=partner)\nrequest.wait()\nreturn mine",
            "That is the rank's own tensor",
        ),
        "only rank 0 right": (
            "theirs = torch.zeros_like(mine)\nif rank % 2:\n    dist.send(mine, dst=rank - 1)\n"
            "else:\n    dist.recv(theirs, src=rank + 1)\nreturn theirs",
            "Nothing has arrived in it",
        ),
        "over budget": (
            "everybody = [torch.empty_like(mine) for _ in range(world_size)]\n"
            "dist.all_gather(everybody, mine)\nreturn everybody[rank ^ 1]",
            "over budget: collective calls on each rank 1, limit 0",
        ),
        "over budget, sent twice": (
            EXCHANGE.format(to="rank ^ 1", source="rank ^ 1").replace("return theirs", "")
            + EXCHANGE.format(to="rank ^ 1", source="rank ^ 1"),
            "over budget: messages in all 4, limit 2",
        ),
        "a message too many": (
            EXCHANGE.format(to="rank ^ 1", source="rank ^ 1").replace(
                "return", "if rank == 0:\n    dist.isend(mine, dst=1)\nreturn"
            ),
            "rank 0 sent rank 1 a message that nobody received",
        ),
        "not waited for": (
            EXCHANGE.format(to="rank ^ 1", source="rank ^ 1").replace("request.wait()\n", ""),
            "rank 0 never waits for its isend: call wait() on what it returned",
        ),
        "received into the tensor that is sent": (
            "request = dist.isend(mine.clone(), dst=rank ^ 1)\ndist.recv(mine, src=rank ^ 1)\n"
            "request.wait()\nreturn mine",
            "rank 0 changed `mine`, which its caller goes on using",
        ),
        "changed while it is sent": (
            "request = dist.isend(mine, dst=rank ^ 1)\nmine *= 2\ntheirs = torch.empty_like(mine)\n"
            "dist.recv(theirs, src=rank ^ 1)\nrequest.wait()\nmine //= 2\nreturn theirs",
            "changes a tensor that isend is still sending, so what arrives depends on chance",
        ),
        "of another dtype": (
            EXCHANGE.format(to="rank ^ 1", source="rank ^ 1").replace(
                "torch.empty_like(mine)", "torch.zeros(mine.shape)"
            ),
            "(float64 into float32)",
        ),
        "of another shape": (
            EXCHANGE.format(to="rank ^ 1", source="rank ^ 1").replace(
                "torch.empty_like(mine)", "torch.empty(len(mine), dtype=mine.dtype)"
            ),
            "in a world of 4, ",
        ),
        "only the first pair": (
            EXCHANGE.format(to="1 - rank", source="1 - rank"), "in a world of 4,",
        ),
    },
    "message_size": {
        "for 90 % alone": ("return 9 * alpha / beta", "That is right for 90 % alone"),
        "half": ("return alpha / beta", "the size at which both parts are equal"),
        "upside down": ("return share / (1 - share) * beta / alpha", "Upside down"),
        "one side": ("return share * alpha / beta", "n stands on both sides"),
        "only rank 0 right": (
            "if rank == 0:\n    return share / (1 - share) * alpha / beta",
            "ranks 1-3 are wrong",
        ),
        "deadlock": (
            "if rank == 0:\n    dist.barrier()\nreturn share / (1 - share) * alpha / beta",
            "deadlock: ranks 1-3 finished the cell",
        ),
        "over budget": (
            "n = torch.tensor(share / (1 - share) * alpha / beta)\ndist.broadcast(n, src=0)\nreturn n",
            "every rank is right, but over budget: collective calls on each rank 1, limit 0",
        ),
    },
}  # fmt: skip

RIGHT = {
    "shift_right": {
        "irecv first": """\
theirs = torch.zeros_like(mine)
arriving = dist.irecv(theirs, (rank - 1) % world_size)
dist.send(mine, (rank + 1) % world_size)
arriving.wait()
return theirs""",
        "in order": """\
theirs, right, left = torch.empty_like(mine), (rank + 1) % world_size, (rank - 1) % world_size
if rank == 0:
    dist.send(mine, right)
    dist.recv(theirs, left)
else:
    dist.recv(theirs, left)
    dist.send(mine, right)
return theirs""",
    },
    "swap": {
        "in order": "theirs = torch.empty_like(mine)\nif rank % 2 == 0:\n    dist.send(mine, dst=rank + 1)\n"
        "    dist.recv(theirs, src=rank + 1)\nelse:\n    dist.recv(theirs, src=rank - 1)\n"
        "    dist.send(mine, dst=rank - 1)\nreturn theirs",
        "both at once": "theirs = mine.clone()\nboth = [dist.P2POp(dist.isend, mine.clone(), rank ^ 1),"
        " dist.P2POp(dist.irecv, theirs, rank ^ 1)]\n"
        "[request.wait() for request in dist.batch_isend_irecv(both)]\nreturn theirs",
        "both irecv and isend": "there = torch.zeros_like(mine)\nr = dist.irecv(there, src=rank ^ 1)\n"
        "s = dist.isend(mine, dst=rank ^ 1)\nr.wait(), s.wait()\nreturn there.tolist()",
    },
    "message_size": {
        "inverse": "return (alpha / beta) / (1 / share - 1)",
        "a tensor": "a, b, s = (torch.tensor(v, dtype=torch.float64) for v in (alpha, beta, share))\n"
        "return s * a / (b - s * b)",
        "by bisection": "low, high = 0.0, 1e9\nfor _ in range(100):\n    n = (low + high) / 2\n"
        "    low, high = (n, high) if n * beta / (alpha + n * beta) < share else (low, n)\nreturn n",
    },
}
