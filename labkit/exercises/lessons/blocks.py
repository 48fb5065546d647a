"""Attention round a ring of ranks, and one that looks only back: a heart and an exercise of lesson 20."""

from __future__ import annotations

import math
from collections.abc import Callable

from labkit.exercises.describe import Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.merging import HEADS, SIZE, drawn

TOLERANCE = 1e-12


def _sequence(generator: torch.Generator, size: int) -> Arguments:
    """Per rank q, k and v of its tokens, many of them, so that scores need most of the memory."""
    tokens = int(torch.randint(64, 97, (), generator=generator))
    return [tuple(drawn(generator, 3, HEADS, tokens, SIZE)) for _ in range(size)]


def _attention(sees: Callable[[int, int], list[int]], causal: bool = False, mean: bool = False) -> Values:
    """Per rank: attention to the blocks of the ranks that `sees(rank, size)` names.

    `causal` hides what is ahead within the rank's own block; `mean`: outputs are averaged, not merged.
    """

    def values(arguments: Arguments) -> list[torch.Tensor]:
        size, found = len(arguments), []
        for rank, (q, _, _) in enumerate(arguments):
            tokens = q.shape[-2]
            parts = []
            for other in sees(rank, size):
                _, k, v = arguments[other]
                scores = q @ k.mT / math.sqrt(SIZE)
                if causal and other == rank:
                    scores = scores + torch.full((tokens, tokens), -torch.inf, dtype=q.dtype).triu(1)
                parts.append((scores, v))
            if mean:
                found.append(sum(scores.softmax(-1) @ v for scores, v in parts) / len(parts))
            else:
                weights = torch.cat([scores for scores, _ in parts], -1).softmax(-1)
                found.append(weights @ torch.cat([v for _, v in parts], -2))
        return found

    return values


def _all(rank: int, size: int) -> list[int]:
    return list(range(size))


def _own(rank: int, size: int) -> list[int]:
    return [rank]


def _neighbours(rank: int, size: int) -> list[int]:
    """What a ring sees that sends its own block in every step."""
    return [rank, *[(rank - 1) % size] * (size - 1)]


def _but_last(rank: int, size: int) -> list[int]:
    return [(rank - step) % size for step in range(size - 1)]


def _before(rank: int, size: int) -> list[int]:
    return list(range(rank + 1))


def _behind(rank: int, size: int) -> list[int]:
    """The blocks that come if they are taken for those of the ranks to the right."""
    return [rank, *((rank - step) % size for step in range(1, size) if (rank + step) % size < rank)]


def _sent(arguments: Arguments) -> int:
    _, k, v = arguments[0]
    return (len(arguments) - 1) * (k.nbytes + v.nbytes)


def _scores(arguments: Arguments) -> int:
    tokens = arguments[0][0].shape[-2]
    return int(8 * HEADS * 3.5 * tokens**2)


IN_A_RING = (
    Limit("collectives", lambda arguments: 0, "Blocks go round by messages: isend and irecv."),
    Limit("bytes", _sent, "A rank sends one block of keys and values in each of R - 1 steps."),
    Limit(
        "memory",
        _scores,
        "That is more than the scores of one block at once: attend to each block as it comes, and keep none.",
    ),
)

RING_ATTENTION = Exercise(
    task="Each rank has `q`, `k` and `v` of its part of the sequence, all of one shape. Return the attention "
    "of the rank's queries to the keys of **all** ranks. In each of $R-1$ steps send a block of keys and "
    "values to the right and receive one from the left; use `attend` and `merge`. Begin to send a block "
    "before you compute with it.",
    stub="""\
def my_ring_attention(q, k, v):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    block = torch.stack([k, v])
    ...  # your code, with isend and irecv
""",
    solution="""\
def my_ring_attention(q, k, v):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    block = torch.stack([k, v])
    out, log = torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf)  # of no keys
    for step in range(world_size):
        if step < world_size - 1:
            coming = torch.empty_like(block)
            works = dist.isend(block, right), dist.irecv(coming, left)
        out, log = merge(out, log, *attend(q, *block))  # while the next block is on its way
        if step < world_size - 1:
            for work in works:
                work.wait()
            block = coming
    return out
""",
    why="Queries stay, keys and values travel. In step s a rank holds the block of rank r - s, attends to it "
    "while the next one comes, and merges: the scores of one block at a time are all that it ever holds.",
    hints=(
        "In step 0 the block is your own: attend(q, *block). What comes from the left in step 1 is the "
        "left neighbour's; in step 2 that neighbour must send you what it has just received.",
        "Each step: isend(block, right), irecv(coming, left), part = attend(q, *block), merge, wait for "
        "both, block = coming. In the last step nothing is sent.",
    ),
    given=_sequence,
    judge=compare(
        _attention(_all),
        Mistake(
            "Each rank attends to its own keys alone: nothing has come from the others.", _attention(_own)
        ),
        Mistake(
            "You took the mean of the blocks' outputs. Each counts by its sum of weights: merge.",
            _attention(_all, mean=True),
        ),
        Mistake(
            "Each rank saw its left neighbour's block again and again: hand on what you have just received.",
            _attention(_neighbours),
        ),
        Mistake("The last block is missing: R - 1 come, and the first is your own.", _attention(_but_last)),
        tolerance=TOLERANCE,
    ),
    limits=IN_A_RING,
    uses=("ring_attention.attend", "ring_attention.merge"),
    becomes="ring_attention",
)

CAUSAL_RING = Exercise(
    task="A language model looks only back: a token attends to itself and to the tokens before it. The "
    "sequence goes on from rank to rank. Return the attention of the rank's queries, in a ring as before. "
    "`attend(q, k, v, mask)` adds `mask` to the scores; -inf hides a key. What lies wholly ahead needs no "
    "`attend`, but must be handed on.",
    stub="""\
def causal_ring(q, k, v):
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    block = torch.stack([k, v])
    ...  # your code
""",
    solution="""\
def causal_ring(q, k, v):
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    block = torch.stack([k, v])
    ahead = torch.full((q.shape[-2], q.shape[-2]), -torch.inf).triu(1)
    whole = attend(q, k, v, ahead)
    for step in range(1, world_size):
        coming = torch.empty_like(block)
        works = dist.isend(block, right), dist.irecv(coming, left)
        for work in works:
            work.wait()
        block = coming
        if step <= rank:  # it is the block of rank - step
            whole = merge(*whole, *attend(q, *block))
    return whole[0]
""",
    why="The block that comes in step s is that of rank r - s: it lies before your own as long as s <= r, "
    "and wholly ahead after that. Rank 0 computes one block and the last rank R: all wait for the last. "
    "Production code gives each rank a piece from the front and one from the back of the sequence.",
    hints=(
        "Whose block is it in step s? It came s ranks to the right, so it is that of rank - s, modulo R. Is "
        "that before yours, or ahead?",
        "Your own block takes a mask: torch.full((c, c), -torch.inf).triu(1). Blocks of lower ranks take "
        "none, those of higher ranks are only handed on.",
    ),
    given=_sequence,
    judge=compare(
        _attention(_before, causal=True),
        Mistake("Tokens look ahead: that is the attention to all keys.", _attention(_all)),
        Mistake("Within a rank's own block tokens still look ahead: it needs a mask.", _attention(_before)),
        Mistake(
            "Each rank attends to its own block alone: tokens of lower ranks are missing.",
            _attention(_own, causal=True),
        ),
        Mistake(
            "Blocks of other ranks are all in there, those ahead, too: only your own is masked.",
            _attention(_all, causal=True),
        ),
        Mistake(
            "You took the block of rank - step for that of rank + step. It came from the left.",
            _attention(_behind, causal=True),
        ),
        tolerance=TOLERANCE,
    ),
    limits=IN_A_RING,
    uses=("ring_attention.attend", "ring_attention.merge"),
)
