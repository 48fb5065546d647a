"""Answers to the exercises of lesson 23."""

FULL = "if len(arrived) >= most:\n    return most\n"
LATE = "if arrived and now - arrived[0] >= timeout:\n    return len(arrived)\n"

BATCHES = """\
waiting, batches = [], []
for now, following in zip(arrivals, [*arrivals[1:], float("inf")]):
    waiting.append(now)
    closes = now if len(waiting) == most else waiting[0] + timeout
    if following > closes:
        batches.append((closes, len(waiting)))
        waiting = []
"""

PROJECTED = "q, k, v = x @ W[:3]\n"
CACHED = PROJECTED + "keys, values = torch.cat([keys, k[None]]), torch.cat([values, v[None]])\n"
ATTENDED = CACHED + "out = (keys @ q / len(q) ** 0.5).softmax(0) @ values @ W[3].T\n"
SUMMED = ATTENDED + "dist.all_reduce(out)\n"
RETURN = "return out, keys, values"

WRONG = {
    "my_close_batch": {
        "the newest counts": (
            FULL + "if arrived and now - arrived[-1] >= timeout:\n    return len(arrived)\nreturn 0",
            "The time-out is counted from the newest request",
        ),
        "only full batches": (FULL + "return 0", "the last request of a quiet hour is never answered"),
        "more than fit": (
            "if len(arrived) >= most:\n    return len(arrived)\n" + LATE + "return 0",
            "A batch has at most `most` requests",
        ),
        "all at once": ("return min(len(arrived), most)", "batches stay small"),
        "full ones wait, too": (
            "if arrived and now - arrived[0] >= timeout:\n    return min(len(arrived), most)\nreturn 0",
            "A full batch waits for the time-out",
        ),
        "nobody there": (
            FULL + "if now - arrived[0] >= timeout:\n    return len(arrived)\nreturn 0",
            "IndexError",
        ),
        "nothing returned": (FULL + LATE, "rank 0 got"),
        "only rank 0 right": (
            FULL + LATE + "return int(rank > 0)",
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            "if rank == 0:\n    dist.barrier()\n" + FULL + LATE + "return 0",
            "deadlock: ",
        ),
        "over budget": (
            "dist.barrier()\n" + FULL + LATE + "return 0",
            "over budget: collective calls on each rank 6, limit 0",
        ),
    },
    "my_decode_step": {
        "its own head": (ATTENDED + RETURN, "That is one head's part of the output"),
        "the mean of heads": (
            SUMMED + "out /= world_size\n" + RETURN,
            "added, not averaged",
        ),
        "blind for itself": (
            PROJECTED
            + "out = (keys @ q / len(q) ** 0.5).softmax(0) @ values @ W[3].T\ndist.all_reduce(out)\n"
            + "return out, torch.cat([keys, k[None]]), torch.cat([values, v[None]])",
            "The new token does not see itself",
        ),
        "not scaled": (
            SUMMED.replace(" / len(q) ** 0.5", "") + RETURN,
            "not divided by the root of the head's size",
        ),
        "the old cache": (
            "old = keys, values\n" + SUMMED + "return out, *old",
            "returned a cache of shape",
        ),
        "the output alone": (SUMMED + "return out", "returned the output alone"),
        "nothing returned": (SUMMED, "Nothing came back"),
        "only rank 0 right": (
            SUMMED + "return (out if rank == 0 else 2 * out), keys, values",
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (ATTENDED + "if rank == 0:\n    dist.all_reduce(out)\n" + RETURN, "deadlock: "),
        "over budget": (
            SUMMED + "dist.barrier()\n" + RETURN,
            "over budget: collective calls on each rank 2, limit 1",
        ),
        "over budget, heads gathered": (
            CACHED
            + "part = (keys @ q / len(q) ** 0.5).softmax(0) @ values @ W[3].T\n"
            + "parts = torch.stack([part if r == rank else torch.zeros_like(part) "
            + "for r in range(world_size)])\ndist.all_reduce(parts)\n"
            + "return parts.sum(0), keys, values",
            "over budget: bytes handed to calls by a rank",
        ),
    },
    "my_batches": {
        "as it was": (
            BATCHES.replace("waiting[0] + timeout", "now + timeout") + "return list(batches)",
            "Each request starts the time-out anew",
        ),
        "looks when one comes": (
            """\
waiting, batches = [], []
for now in arrivals:
    waiting.append(now)
    if len(waiting) == most or now - waiting[0] >= timeout:
        batches.append((now, len(waiting)))
        waiting = []
return batches""",
            "The clock is looked at only when a request comes",
        ),
        "each alone": ("return [(t, 1) for t in arrivals]", "Every request is a batch of its own"),
        "full ones wait, too": (
            BATCHES.replace("batches.append((closes,", "batches.append((waiting[0] + timeout,")
            + "return batches",
            "A batch closes as soon as it is full",
        ),
        "nothing returned": (BATCHES, "Nothing came back"),
        "only rank 0 right": (
            BATCHES + "return batches if rank == 0 else batches[1:]",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            "dist.barrier()\n" + BATCHES + "return batches",
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
}

RIGHT = {
    "my_close_batch": {
        "in one expression": "return most if len(arrived) >= most else "
        "len(arrived) * (len(arrived) > 0 and now >= arrived[0] + timeout)",
        "by what is due": """\
oldest = min(arrived, default=float("inf"))
due = len(arrived) >= most or now - oldest >= timeout
return len(arrived[:most]) if due else 0""",
    },
    "my_decode_step": {
        "attention as a function": CACHED
        + "out = torch.nn.functional.scaled_dot_product_attention(q[None], keys, values)[0] @ W[3].T\n"
        + "dist.all_reduce(out)\n"
        + RETURN,
        "the output's product last": PROJECTED
        + "keys = torch.cat([keys, k.unsqueeze(0)])\nvalues = torch.cat([values, v.unsqueeze(0)])\n"
        + "scores = torch.einsum('th,h->t', keys, q) / keys.shape[1] ** 0.5\n"
        + "out = torch.einsum('t,th,wh->w', scores.softmax(0), values, W[3])\n"
        + "dist.all_reduce(out)\nreturn [out, keys, values]",
    },
    "my_batches": {
        "from batch to batch": """\
batches, first = [], 0
while first < len(arrivals):
    closes = arrivals[first] + timeout
    joined = [t for t in arrivals[first : first + most] if t <= closes]
    batches.append((joined[-1] if len(joined) == most else closes, len(joined)))
    first += len(joined)
return batches""",
        "the clock of the oldest": """\
waiting, closes, batches = 0, 0, []
for now in [*arrivals, float("inf")]:
    if waiting and now > closes:
        batches.append([closes, waiting])
        waiting = 0
    closes = closes if waiting else now + timeout
    waiting += 1
    if waiting == most:
        batches.append([now, most])
        waiting = 0
return batches""",
    },
}
