"""One token more, with a KV cache, heads split over ranks: a heart of lesson 23."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.merging import drawn

WIDTH, HEAD = 12, 5


def _tokens(generator: torch.Generator, size: int) -> Arguments:
    """Per rank the newest token, the same for all, the cache of those before it, and the head's weights."""
    before = int(torch.randint(3, 8, (), generator=generator))
    x = drawn(generator, WIDTH)
    return [
        (x, drawn(generator, before, HEAD), drawn(generator, before, HEAD), drawn(generator, 4, WIDTH, HEAD))
        for _ in range(size)
    ]


def _flat(function: Callable[..., Any], arguments: tuple) -> Any:
    """Output and cache in one vector; or what is wrong with them, in words."""
    result = function(*arguments)
    if not (isinstance(result, (tuple, list)) and len(result) == 3):
        return result
    x, keys, _, _ = arguments
    out, *cache = result
    if any(tuple(part.shape) != (len(keys) + 1, HEAD) for part in cache):
        return f"a cache of shape {list(cache[0].shape)}, and there are {len(keys) + 1} tokens now"
    if out.shape != x.shape:
        return f"an output of shape {list(out.shape)} for a token of shape {list(x.shape)}"
    return torch.cat([out, *(part.flatten() for part in cache)])


def _head(
    x: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    W: torch.Tensor,
    scale: float = HEAD**-0.5,
    new: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One head's part of the output, and its cache as a vector."""
    q, k, v = x @ W[:3]
    all_keys, all_values = torch.cat([keys, k[None]]), torch.cat([values, v[None]])
    seen = slice(None) if new else slice(len(keys))
    out = (all_keys[seen] @ q * scale).softmax(0) @ all_values[seen] @ W[3].T
    return out, torch.cat([all_keys.flatten(), all_values.flatten()])


def _summed(share: Callable[[int], float] = lambda size: 1.0, **how: Any) -> Values:
    """Per rank the sum of all heads, and the rank's own cache."""

    def values(arguments: Arguments) -> list[torch.Tensor]:
        parts = [_head(*given, **how) for given in arguments]
        out = sum(part for part, _ in parts) * share(len(parts))
        return [torch.cat([out, cache]) for _, cache in parts]

    return values


def _judge(answers: Answers) -> str:
    for rank, found in enumerate(answers.found):
        if isinstance(found, str):
            return f"rank {rank} returned {found}"
        if isinstance(found, torch.Tensor) and found.numel() == WIDTH:
            return f"rank {rank} returned the output alone: the next token needs keys and values, too"
    return compare(
        _summed(),
        Mistake(
            "That is one head's part of the output: the ranks' parts are still to be added.",
            lambda arguments: [torch.cat(_head(*given)) for given in arguments],
        ),
        Mistake(
            "The heads' parts are added, not averaged: together they are one product, cut by columns.",
            _summed(lambda size: 1 / size),
        ),
        Mistake(
            "The new token does not see itself: put its key and value into the cache first.",
            _summed(new=False),
        ),
        Mistake(
            "The scores are not divided by the root of the head's size.",
            _summed(scale=1.0),
        ),
        tolerance=1e-10,
    )(answers)


DECODE_STEP = Exercise(
    task="Each rank has one head. `x` is the newest token, the same on every rank; `keys` and `values` are "
    "the rank's cache, a row for each token before it; `W[0]`, `W[1]`, `W[2]` make query, key and value of "
    "`x`, and `W[3].T` the head's part of the output. Return `(output, keys, values)`: the newest token's "
    "attention to all tokens and itself, summed over heads, and the cache with the token added. Scores are "
    "divided by the root of the head's size.",
    stub="""\
def my_decode_step(x, keys, values, W):
    q, k, v = x @ W[:3]
    ...  # your code
""",
    solution="""\
def my_decode_step(x, keys, values, W):
    q, k, v = x @ W[:3]
    keys, values = torch.cat([keys, k[None]]), torch.cat([values, v[None]])
    weights = (keys @ q / len(q) ** 0.5).softmax(0)
    out = weights @ values @ W[3].T
    dist.all_reduce(out)
    return out, keys, values
""",
    why="Keys and values of earlier tokens never change, since no token sees a later one. So one token's "
    "products suffice, and one all-reduce of one token's width. The cache stays where its head is.",
    hints=(
        "torch.cat([keys, k[None]]) is the cache with the new key. The query attends to all of it: one "
        "score for each token.",
        "(keys @ q / len(q) ** 0.5).softmax(0) @ values @ W[3].T is this head's part; dist.all_reduce adds "
        "the parts.",
    ),
    given=_tokens,
    use=_flat,
    judge=_judge,
    limits=(
        Limit(
            "collectives",
            lambda arguments: 1,
            "One all-reduce adds the heads' parts.",
            least=lambda arguments: 1,
            too_little="The heads are on different ranks.",
        ),
        Limit(
            "handed", lambda arguments: WIDTH * 8, "Only one token's output travels; the cache stays at home."
        ),
    ),
    becomes="decode_step",
)
