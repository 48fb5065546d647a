"""Lesson 23, Serve it: its prediction, exercises and questions."""

from __future__ import annotations

from typing import Any

from labkit.exercises.cases import EachLikeSolution, each
from labkit.exercises.describe import (
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    algorithm,
    body,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import torch

HERE = "What is waiting is all in the arguments: no other rank is needed."
ALONE = (
    Limit("collectives", lambda arguments: 0, HERE),
    Limit("messages", lambda arguments: 0, HERE),
)


def _whole(generator: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high, (), generator=generator))


def _queues(generator: torch.Generator, size: int) -> Arguments:
    """Per rank queues in a random order, each with the time at which it is looked at.

    The oldest has waited more than the time-out, just as long, or less, in a batch that is full, more than
    full or not. All times are exact as float64.
    """

    def waiting(length: int, eighths: int, timeout: float) -> tuple[list[float], float]:
        """The oldest has waited so many eighths of the time-out, and the newest two."""
        now = 2 + _whole(generator, 0, 100) / 8
        ages = [eighths - (eighths - 2) * place / max(1, length - 1) for place in range(length)]
        return [now - age * timeout / 8 for age in ages], now

    def one() -> tuple:
        most, timeout = _whole(generator, 4, 9), _whole(generator, 2, 9) / 8
        longer = ((0, 6), (0, 10), (2, 6), (1, 10), (-1, 12), (-2, 7), (-2, 8))
        kinds = [(most + more, age) for more, age in longer] + [(1, 9), (1, 7), (0, 0)]
        kinds = [kinds[place] for place in torch.randperm(len(kinds), generator=generator).tolist()]
        return ([(*waiting(length, age, timeout), most, timeout) for length, age in kinds],)

    return [one() for _ in range(size)]


CLOSE_BATCH = Exercise(
    task="`arrived` has the times at which the waiting requests came, the oldest first; it may be empty. "
    "Return how many of them, from the oldest on, become a batch at the time `now`; 0 for none. A batch "
    "closes when it is full, with `most` requests, or when the oldest has waited `timeout` seconds or more. "
    "Send no message.",
    stub="""\
def my_close_batch(arrived, now, most, timeout):
    ...  # your code
""",
    solution=algorithm("serving.close_batch", "my_close_batch"),
    why="The oldest waits longest, so its time-out is the promise that holds for all. And since it is looked "
    "at whenever time has passed, not only when a request comes, even a single request is run.",
    hints=(
        "Three cases: full, the oldest late, neither. Of more than `most` requests the others stay.",
        "arrived[0] is the oldest, if there is one: `if arrived and now - arrived[0] >= timeout`.",
    ),
    given=_queues,
    use=each,
    judge=EachLikeSolution(),
    limits=ALONE,
    wrong=(
        edit("now - arrived[0]", "now - arrived[-1]",
             says="The time-out is counted from the newest request. While requests keep coming, the oldest waits "
             "for ever: count from arrived[0]."),
        edit("    if arrived and now - arrived[0] >= timeout:\n        return len(arrived)\n", "",
             says="Only full batches run: the last request of a quiet hour is never answered."),
        edit("return most", "return len(arrived) + 0",
             says="A batch has at most `most` requests; the others stay in the queue."),
        body("return min(len(arrived), most)",
             says="Whoever waits is run at once: nobody ever waits for others, and batches stay small."),
        body("return min(len(arrived), most) if arrived and now - arrived[0] >= timeout else 0",
             says="A full batch waits for the time-out: nobody more can join it, so close it at once."),
        edit(">= most", "> most", says="A batch with `most` requests is full already: len(arrived) >= most."),
        edit(">= timeout", "> timeout",
             says="Who has waited just as long as the time-out has waited long enough: >= timeout."),
        edit("if arrived and now", "if now", says="IndexError"),
        edit("return 0", "return None", says="got      None"),
        edit("return 0", "return int(rank > 0)", says="in a world of 2, rank 1 is wrong"),
        edit("now - arrived[0] >= timeout", "now - arrived[0] >= 0.5", says="wrong"),
        edit(">= most", ">= 32", "return most", "return 32", says="wrong"),
        edit("    if len(", "    if rank == 0:\n        dist.barrier()\n    if len(", says="deadlock: ", hangs=True),
        body("if len(arrived) >= most or arrived and now - arrived[0] >= timeout:\n    batch = []\n"
             "    while arrived and len(batch) < most:\n        batch.append(arrived.pop(0))\n"
             "    return len(batch)\nreturn 0",
             says="changed `arrived`, which its caller goes on using"),
        body("from labkit.algorithms import close_batch\nreturn close_batch(arrived, now, most, timeout)", says="that is what you shall write"),
    ),
    becomes="close_batch",
)  # fmt: skip


def _tokens(generator: torch.Generator, size: int) -> Arguments:
    """Per rank the newest token, the same for all, the cache of those before it, and the head's weights.

    Among four ranks the token is the first one, and the cache is empty.
    """
    width, head = _whole(generator, 8, 16), (3, 5, 6, 7)[_whole(generator, 0, 4)]
    before = 0 if size == 4 else _whole(generator, 3, 8)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    x = normal(width)
    return [(x, normal(before, head), normal(before, head), normal(4, width, head)) for _ in range(size)]


def _flat(arguments: tuple, result: Any) -> Any:
    """Output and cache in one vector; or what is wrong with their shapes, in words."""
    if torch.is_tensor(result):
        return "the output alone"
    if not (isinstance(result, (tuple, list)) and len(result) == 3 and all(map(torch.is_tensor, result))):
        return result
    x, keys, values, _ = arguments
    for part, cached in (result[1], keys), (result[2], values):
        if part.shape != (len(cached) + 1, *cached.shape[1:]):
            return f"a cache of shape {list(part.shape)}, and there are {len(cached) + 1} tokens now"
    if result[0].shape != x.shape:
        return f"an output of shape {list(result[0].shape)} for a token of shape {list(x.shape)}"
    return torch.cat([part.detach().flatten() for part in result])


HOME = "Only one token's output travels, and is summed on its way; the cache stays at home."
DECODE_STEP = Exercise(
    task="Each rank has one head. `x` is the newest token, the same on every rank; `keys` and `values` are "
    "the rank's cache, a row for each token before it. `W[0]`, `W[1]`, `W[2]` make query, key and value of "
    "`x`; `W[3].T` makes the head's part of the output from what the head has read. Return "
    "`(output, keys, values)`: the newest token's attention to all tokens and itself, summed over heads, and "
    "the cache with the token added. Scores are divided by the root of the head's size. Budget: one "
    "all-reduce, of one token's output.",
    stub="""\
def my_decode_step(x, keys, values, W):
    q, k, v = x @ W[:3]
    ...  # your code
""",
    solution=algorithm("decoding.decode_step", "my_decode_step"),
    why="Keys and values of earlier tokens never change, since no token sees a later one. So one token's "
    "products suffice, and one all-reduce of one token's width. The cache stays where its head is.",
    hints=(
        "torch.cat([keys, k[None]]) is the cache with the new key. The query attends to all of it: one "
        "score for each token.",
        "(keys @ q / len(q) ** 0.5).softmax(0) @ values @ W[3].T is this head's part; dist.all_reduce adds "
        "the parts.",
    ),
    given=_tokens,
    answer=_flat,
    judge=like_solution(1e-10),
    limits=(
        Limit("collectives", lambda arguments: 1, "One all-reduce adds the heads' parts.",
              least=lambda arguments: 1, too_little="Add the heads' parts with an all-reduce."),
        Limit("sent", lambda arguments: round(2 * (len(arguments) - 1) / len(arguments) * arguments[0][0].nbytes),
              HOME),
    ),
    wrong=(
        edit("    dist.all_reduce(out)\n", "",
             says="That is one head's part of the output: the ranks' parts are still to be added."),
        edit("reduce(out)\n", "reduce(out)\n    out /= world_size\n",
             says="The heads' parts are added, not averaged: together they are one product, cut by columns."),
        edit("keys, values =", "all_keys, all_values =", "return out, keys, values", "return out, all_keys, all_values",
             says="The new token does not see itself: put its key and value into the cache first."),
        edit(" / len(q) ** 0.5", "", says="The scores are not divided by the root of the head's size."),
        edit("len(q)", "len(x)", says="The scores are divided by the root of the token's width, not of the head's size."),
        edit("len(q)", "4", says=" wrong"),
        edit("    keys, values =", "    old = keys, values\n    keys, values =", "return out, keys, values",
             "return out, *old", says="The token is missing in the cache: return keys and values with its own."),
        edit("return out, keys, values", "return out",
             says="The output alone came back. The next token needs keys and values, too."),
        edit("[keys, k[None]]", "[k[None], keys]", "[values, v[None]]", "[v[None], values]",
             says="The newest token stands first in the cache. Put it behind those before it."),
        edit("q, k, v =", "q, v, k =", says="Key and value are exchanged: W[1] makes the key, W[2] the value."),
        edit("weights @ values @ W[3].T\n    dist.all_reduce(out)",
             "weights @ values\n    dist.all_reduce(out)\n    out = out @ W[3].T",
             says="What the heads have read is added before W[3]. Each head has a W[3] of its own: it comes first."),
        edit("@ W[3].T", "@ W[3].T * 1.0\n    out = out.float()", says=" wrong"),
        edit("(keys @ q / len(q) ** 0.5).softmax(0)", "(keys @ q / len(q) ** 0.5).float().softmax(0).double()",
             says="they differ by"),
        edit("return out", "return out[None]", says="an output of shape"),
        edit("return out,", "return (out if rank == 0 else 2 * out),", says="in a world of 2, rank 1 is wrong"),
        edit("    dist", "    if rank == 0:\n        dist", says="deadlock: ", hangs=True),
        edit("dist.all_reduce(out)", "parts = torch.zeros(world_size, len(x), dtype=x.dtype)\n    parts[rank] = out\n"
             "    dist.all_reduce(parts)\n    out = parts.sum(0)", says=HOME),
        edit("dist.all_reduce(out)", "parts = [torch.empty_like(out) for _ in range(world_size)]\n"
             "    dist.all_gather(parts, out)\n    out = sum(parts)", says=HOME),
        edit("dist.all_reduce(out)", "dist.reduce(out, 0)\n    dist.broadcast(out, 0)",
             says="One all-reduce adds the heads' parts."),
        edit("dist.all_reduce(out)", "others = [r for r in range(world_size) if r != rank]\n"
             "    parts = [torch.empty_like(out) for _ in others]\n"
             "    works = [dist.isend(out, r) for r in others] + [dist.irecv(p, r) for p, r in zip(parts, others)]\n"
             "    [work.wait() for work in works]\n    out = out + sum(parts)",
             says="Add the heads' parts with an all-reduce."),
        body("from labkit.algorithms import decode_step\nreturn decode_step(x, keys, values, W)", says="that is what you shall write"),
    ),
    becomes="decode_step",
)  # fmt: skip


def _stream(generator: torch.Generator, size: int) -> Arguments:
    """Per rank more requests at once than fit into a batch, then some that keep coming, then one alone.

    Of those that keep coming the oldest is late before a batch is full.
    """

    def one() -> tuple:
        most = _whole(generator, 4, 7)
        gap = 0.005 + 0.01 * float(torch.rand((), generator=generator, dtype=torch.float64))
        burst, steady = 2 * most - 1, 3 * most
        uneven = torch.rand(burst + steady + 1, generator=generator, dtype=torch.float64)
        gaps = gap * (1 + 0.2 * (uneven - 0.5) / most)
        gaps[:burst] *= 0.2
        gaps[burst] = gaps[-1] = 9 * gap
        return (_whole(generator, 0, 1000) + gaps.cumsum(0)).tolist(), most, (most - 1.5) * gap

    return [one() for _ in range(size)]


ANEW = (
    "Each request starts the time-out anew: while they keep coming, a batch closes only when it is full. Count "
    "from the oldest."
)
TIMED = """\
def my_batches(arrivals, most, timeout):
    waiting, batches = [], []
    for now, following in zip(arrivals, [*arrivals[1:], float("inf")]):
        waiting.append(now)
        closes = now if len(waiting) == most else waiting[0] + timeout
        if following > closes:
            batches.append((closes, len(waiting)))
            waiting = []
    return batches
"""
BATCHES = Exercise(
    task="`arrivals` are the times at which requests come, in order. The function returns, of each batch, "
    "when it closes and how many requests it has: full, with `most` requests, or when the oldest has waited "
    "`timeout` seconds. It runs without an error, every request is in a batch, and in a steady stream "
    "latencies are many times what the time-out promises. **Find the bug and mend it.** Send no message.",
    stub=edited(TIMED, "waiting[0] + timeout", "now + timeout"),
    solution=TIMED,
    why="`now + timeout` starts the clock anew with each request. As long as the next one comes within the "
    "time-out, the batch closes only when it is full: the oldest request pays for every newcomer. The clock "
    "belongs to the oldest, waiting[0].",
    hints=(
        "A request comes every 5 ms, the time-out is 8 ms, a batch has room for 1,000. When does the first "
        "batch close, by this function?",
        "Whose time-out is it? The line `closes = ...` counts from the request that has just come.",
    ),
    given=_stream,
    judge=like_solution(1e-9),
    limits=ALONE,
    wrong=(
        edit("waiting[0] + timeout", "waiting[-1] + timeout", says=ANEW),
        edit("waiting[0] + timeout", "following + timeout if following < now + timeout else now + timeout", says=ANEW),
        body("""\
waiting, batches = [], []
for now in arrivals:
    waiting.append(now)
    if len(waiting) == most or now - waiting[0] >= timeout:
        batches.append((now, len(waiting)))
        waiting = []
return batches""", says="The clock is looked at only when a request comes: batches close late, and the last "
             "request is never answered."),
        body("return [(t, 1) for t in arrivals]", says="Every request is a batch of its own: nobody waits for others."),
        edit("append((closes,", "append((waiting[0] + timeout,",
             says="A batch closes as soon as it is full; nobody can join it any more."),
        edit("waiting[0] + timeout", "arrivals[0] + timeout",
             says="That is the first request of all, which was answered long ago. The oldest of those that wait counts."),
        edit("append((closes,", "append((now,",
             says="A batch closes when the oldest has waited long enough, not when its last request comes."),
        edit("len(waiting) == most", "len(waiting) > most",
             says="A batch has at most `most` requests: with `most` it is full, and closes."),
        edit("now if len(waiting) == most else waiting[0] + timeout", "waiting[0] + timeout", says=" wrong"),
        edit("return batches", "return batches[:-1]",
             says="The last batch is missing: nobody comes after it, and its time-out ends all the same."),
        edit("waiting[0] + timeout", "waiting[0] + timeout / 2", says=" wrong"),
        edit("waiting[0] + timeout", "waiting[0] + 0.02", says=" wrong"),
        edit("== most", "== 5", says=" wrong"),
        edit("append((closes,", "append((torch.tensor(closes).item(),", says=" wrong"),
        edit("return batches", "return [size for _, size in batches]", says=" wrong"),
        edit("    return batches", "    done = batches", says="Nothing came back"),
        edit("return batches", "return batches if rank == 0 else batches[1:]", says="in a world of 2, rank 1 is wrong"),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="23",
    title="Serve it",
    predictions=(Prediction("best_timeout", "ms"),),
    exercises=(CLOSE_BATCH, DECODE_STEP, BATCHES),
    questions=questions("23"),
)
