"""Answers to the exercises of lesson 20."""

BOTH = "both = torch.logaddexp(log, other_log)\n"
SHARES = "a, b = (log - both).exp()[..., None], (other_log - both).exp()[..., None]\n"

NEIGHBOURS = "left, right = (rank - 1) % world_size, (rank + 1) % world_size\n"
BLOCK = NEIGHBOURS + "block = torch.stack([k, v])\n"
EXCHANGE = """\
coming = torch.empty_like(block)
works = dist.isend(block, right), dist.irecv(coming, left)
for work in works:
    work.wait()
block = coming
"""


def in_each_step(body: str, exchange: str = EXCHANGE, steps: str = "range(1, world_size)") -> str:
    """A loop that gets the next block and then does this."""
    return f"for step in {steps}:\n" + "".join(f"    {line}\n" for line in (exchange + body).splitlines())


FIRST = "whole = attend(q, k, v)\n"
MERGE = "whole = merge(*whole, *attend(q, *block))"
RETURN = "return whole[0]"
GATHER = """\
both = torch.stack([k, v])
every = [torch.empty_like(both) for _ in range(world_size)]
dist.all_gather(every, both)
return attend(q, *torch.cat(every, -2))[0]"""
KEEP_ALL = (
    BLOCK
    + "blocks = [block]\n"
    + in_each_step("blocks.append(block)")
    + "return attend(q, *torch.cat(blocks, -2))[0]"
)

AHEAD = "ahead = torch.full((q.shape[-2], q.shape[-2]), -torch.inf).triu(1)\n"
FIRST_BACK = AHEAD + "whole = attend(q, k, v, ahead)\n"
IF_BEFORE = f"if step <= rank:\n    {MERGE}"

SORT = """\
order = choice.argsort(stable=True)
sent = choice.bincount(minlength=world_size)
received = torch.empty_like(sent)
dist.all_to_all_single(received, sent)
there, back = received.tolist(), sent.tolist()
mine = x.new_empty(sum(there), x.shape[1])
"""
THERE = "dist.all_to_all_single(mine, x[order], there, back)\n"
BACK = "answers = torch.empty_like(x)\ndist.all_to_all_single(answers, expert(mine), back, there)\n"
EXPERTS = SORT + THERE + BACK

WRONG = {
    "my_merge": {
        "the mean": (BOTH + "return (out + other_out) / 2, both", "You took the mean of both"),
        "the old logarithm": (
            BOTH + SHARES + "return a * out + b * other_out, log",
            "the logarithm is still that of the first part",
        ),
        "the larger logarithm": (
            BOTH + SHARES + "return a * out + b * other_out, torch.maximum(log, other_log)",
            "The logarithm of a sum is not the larger one",
        ),
        "shares swapped": (BOTH + SHARES + "return b * out + a * other_out, both", "The shares are swapped"),
        "the output alone": (BOTH + SHARES + "return a * out + b * other_out", "That is the output alone"),
        "the sums themselves": (
            "a, b = log.exp()[..., None], other_log.exp()[..., None]\n"
            "return (a * out + b * other_out) / (a + b), (log.exp() + other_log.exp()).log()",
            "exp(1000) is beyond float64",
        ),
        "in place": (
            BOTH + SHARES + "out.mul_(a).add_(b * other_out)\nreturn out, both",
            "rank 0 changed `out`, which its caller goes on using",
        ),
        "nothing returned": (BOTH, "Nothing came back"),
        "only rank 0 right": (
            BOTH + SHARES + "return a * out + b * other_out + (rank > 0), both",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            BOTH + SHARES + "dist.barrier()\nreturn a * out + b * other_out, both",
            "over budget: collective calls on each rank 1, limit 0\nBoth parts are here",
        ),
    },
    "my_ring_attention": {
        "own keys": ("return attend(q, k, v)[0]", "Each rank attends to its own keys alone"),
        "the mean": (
            BLOCK
            + "total = attend(q, k, v)[0]\n"
            + in_each_step("total = total + attend(q, *block)[0]")
            + "return total / world_size",
            "You took the mean of the blocks' outputs",
        ),
        "not handed on": (
            BLOCK
            + FIRST
            + in_each_step(
                "whole = merge(*whole, *attend(q, *coming))", EXCHANGE.replace("block = coming\n", "")
            )
            + RETURN,
            "Each rank saw its left neighbour's block again and again",
        ),
        "the last block missing": (
            BLOCK + FIRST + in_each_step(MERGE, steps="range(2, world_size)") + RETURN,
            "Each rank attends to its own keys alone",
        ),
        "one too few of three": (
            BLOCK + FIRST + in_each_step(MERGE, steps="range(max(1, world_size - 2))") + RETURN,
            "The last block is missing",
        ),
        "deadlock": (
            BLOCK
            + FIRST
            + in_each_step(
                MERGE,
                "coming = torch.empty_like(block)\ndist.recv(coming, left)\n"
                "dist.send(block, right)\nblock = coming\n",
            )
            + RETURN,
            "deadlock: ",
        ),
        "not waited for": (
            BLOCK
            + FIRST
            + in_each_step(
                MERGE, EXCHANGE.replace("for work in works:\n    work.wait()\n", "works[1].wait()\n")
            )
            + RETURN,
            "never waits",
        ),
        "only rank 0 right": (
            BLOCK + FIRST + in_each_step(MERGE) + "return whole[0] * (1 if rank == 0 else 2)",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget, gathered": (GATHER, "over budget: collective calls on each rank 1, limit 0"),
        "over budget, all blocks kept": (KEEP_ALL, "over budget: bytes of new tensors at once"),
        "over budget, queries travel": (
            NEIGHBOURS
            + "block = torch.stack([k, v, q])\n"
            + FIRST
            + in_each_step("whole = merge(*whole, *attend(q, *block[:2]))")
            + RETURN,
            "over budget: bytes sent by the busiest rank",
        ),
    },
    "causal_ring": {
        "all keys": (BLOCK + FIRST + in_each_step(MERGE) + RETURN, "Tokens look ahead"),
        "no mask at home": (
            BLOCK + FIRST + in_each_step(IF_BEFORE) + RETURN,
            "Within a rank's own block tokens still look ahead",
        ),
        "own block": (AHEAD + "return attend(q, k, v, ahead)[0]", "Each rank attends to its own block alone"),
        "masked at home only": (
            BLOCK + FIRST_BACK + in_each_step(MERGE) + RETURN,
            "Blocks of other ranks are all in there",
        ),
        "the other way round": (
            BLOCK + FIRST_BACK + in_each_step(f"if (rank + step) % world_size < rank:\n    {MERGE}") + RETURN,
            "You took the block of rank - step for that of rank + step",
        ),
        "deadlock": (
            BLOCK + FIRST_BACK + in_each_step(MERGE, steps="range(1, rank + 1)") + RETURN,
            "deadlock: ",
        ),
        "only rank 0 right": (
            BLOCK + FIRST_BACK + in_each_step(IF_BEFORE) + "return whole[0] * (1 if rank == 0 else 2)",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget, gathered": (
            AHEAD
            + "both = torch.stack([k, v])\nevery = [torch.empty_like(both) for _ in range(world_size)]\n"
            "dist.all_gather(every, both)\nwhole = attend(q, k, v, ahead)\n"
            "for block in every[:rank]:\n    whole = merge(*whole, *attend(q, *block))\n" + RETURN,
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
    "my_send_to_experts": {
        "as it was": (EXPERTS + "return answers * 1", "The answers are in the order of the experts"),
        "sorted twice": (EXPERTS + "return answers[order]", "answers[order] sorts a second time"),
        "own expert": ("return expert(x)", "Every token was given to the rank's own expert"),
        "no expert": (
            EXPERTS.replace("expert(mine)", "mine")
            + "out = torch.empty_like(x)\nout[order] = answers\nreturn out",
            "no expert has seen them",
        ),
        "unsorted": (
            EXPERTS.replace("x[order]", "x") + "return answers",
            "in a world of 2, ranks 0-1 are wrong",
        ),
        "nothing returned": (EXPERTS, "Nothing came back"),
        "deadlock": (
            "if rank == 0:\n    dist.barrier()\nreturn expert(x)",
            "deadlock: ",
        ),
        "over budget": (
            EXPERTS + "dist.barrier()\nout = torch.empty_like(x)\nout[order] = answers\nreturn out",
            "over budget: collective calls on each rank 4, limit 3",
        ),
    },
}

RIGHT = {
    "my_merge": {
        "by the larger one": """\
most = torch.maximum(log, other_log)
a, b = (log - most).exp(), (other_log - most).exp()
total = (a + b).unsqueeze(-1)
return (a.unsqueeze(-1) * out + b.unsqueeze(-1) * other_out) / total, most + (a + b).log()""",
        "as a softmax of two": """\
logs = torch.stack([log, other_log])
shares = logs.softmax(0).unsqueeze(-1)
return shares[0] * out + shares[1] * other_out, logs.logsumexp(0)""",
    },
    "my_ring_attention": {
        "exchange, then compute": BLOCK + FIRST + in_each_step(MERGE) + RETURN,
        "the other way round, keys and values apart": """\
left, right = (rank + 1) % world_size, (rank - 1) % world_size
out, log = attend(q, k, v)
for _ in range(world_size - 1):
    new_k, new_v = torch.empty_like(k), torch.empty_like(v)
    works = [dist.isend(k, right), dist.isend(v, right), dist.irecv(new_k, left), dist.irecv(new_v, left)]
    for work in works:
        work.wait()
    k, v = new_k, new_v
    out, log = merge(out, log, *attend(q, k, v))
return out""",
    },
    "causal_ring": {
        "the mask always added": BLOCK
        + AHEAD
        + "out, log = torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf)\n"
        + """\
for step in range(world_size):
    source = (rank - step) % world_size
    if source <= rank:
        out, log = merge(out, log, *attend(q, *block, ahead if source == rank else 0.0))
    if step < world_size - 1:
        coming = torch.empty_like(block)
        sending = dist.isend(block, right)
        dist.recv(coming, left)
        sending.wait()
        block = coming
return out""",
        "in another order": BLOCK
        + FIRST_BACK
        + in_each_step(f"if (rank - step) % world_size < rank:\n    {MERGE}")
        + RETURN,
    },
    "my_send_to_experts": {
        "the inverse order": EXPERTS + "return answers[order.argsort()]",
        "one at a time": EXPERTS
        + "out = x.clone()\nfor i, at in enumerate(order.tolist()):\n    out[at] = answers[i]\nreturn out",
    },
}
