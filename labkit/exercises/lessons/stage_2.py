"""Gradients that are shared as soon as they are complete, ZeRO's stage 2: a heart of lesson 18."""

from __future__ import annotations

from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit, Values
from labkit.exercises.judge import Mistake, compare
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons.networks import normal, rows_of

LAYERS, WIDTH = 6, 24


def _network(generator: torch.Generator, size: int) -> Arguments:
    """The second layer is used twice."""
    weights = [normal(generator, WIDTH, WIDTH) / WIDTH**0.5 for _ in range(LAYERS)]
    given = []
    for _ in range(size):
        wholes = [w.clone().requires_grad_() for w in weights]
        x = normal(generator, 1, WIDTH)
        for w in (*wholes, wholes[1]):
            x = torch.tanh(x @ w.T)
        given.append((x.square().sum(), wholes))
    return given


def _parts(summed: bool = True, divide: bool = True) -> Values:
    def values(arguments: Arguments) -> list[torch.Tensor]:
        size = len(arguments)
        own = [torch.stack(torch.autograd.grad(*given, retain_graph=True)) for given in arguments]
        total = sum(own)
        return [
            torch.cat([rows_of(g, rank, size) for g in (total if summed else own[rank])])
            / (size if divide else 1)
            for rank in range(size)
        ]

    return values


def _what_is_left(arguments: tuple, result: Any) -> dict[str, Any]:
    wholes = arguments[1]
    tensors = isinstance(result, (list, tuple)) and all(torch.is_tensor(part) for part in result)
    return {
        "parts": torch.cat(list(result)) if tensors and len(result) else None,
        "gradients": sum(whole.grad is not None for whole in wholes),
        "hooks": sum(bool(whole._post_accumulate_grad_hooks) for whole in wholes),
    }


_compare_parts = compare(
    _parts(),
    Mistake("These are sums. Divide them by the number of ranks.", _parts(divide=False)),
    Mistake(
        "These are the rank's own gradients: nothing has been added.", _parts(summed=False, divide=False)
    ),
)


def _judge_parts(answers: Answers) -> str:
    found: list[Any] = [f if isinstance(f, dict) else {} for f in answers.found]
    said = _compare_parts(Answers(answers.arguments, [f.get("parts") for f in found]))
    if said:
        return said
    if any(f["gradients"] for f in found):
        return "the parts are right, but whole gradients are still there: set whole.grad = None."
    if any(f["hooks"] for f in found):
        return "the parts are right, but your hooks are still there, and the next step adds others. " + (
            "Remove what register_post_accumulate_grad_hook returned: handle.remove()."
        )
    return ""


SHARDED_BACKWARD = Exercise(
    task="`wholes` are the weight matrices of the network. Call `loss.backward()`. As soon as the gradient "
    "of one is complete, take this rank's rows of its mean over all ranks, and free it: `whole.grad = None`. "
    "Return the list of these parts, in the order of `wholes`, and leave no hook behind. Budget: at no time "
    "more than two whole gradients.",
    stub="""\
def my_sharded_backward(loss, wholes):
    ...  # your code
""",
    solution="""\
def my_sharded_backward(loss, wholes):
    parts = {}

    def share(whole):
        mine = torch.empty_like(whole.grad[: len(whole) // dist.get_world_size()])
        dist.reduce_scatter_single(mine, whole.grad)
        parts[whole] = mine / dist.get_world_size()
        whole.grad = None

    hooks = [whole.register_post_accumulate_grad_hook(share) for whole in wholes]
    loss.backward()
    for hook in hooks:
        hook.remove()
    return [parts[whole] for whole in wholes]
""",
    why="A rank needs whole gradients only until they are added up, and the backward pass makes them one "
    "after the other: so there need never be more than one or two. The hooks are those of lesson 13, where "
    "they began an all-reduce.",
    hints=(
        "whole.register_post_accumulate_grad_hook(f) calls f(whole) when whole.grad is complete, and returns "
        "a handle with remove().",
        "In the hook: an empty tensor of len(whole) // world_size rows, dist.reduce_scatter_single, the "
        "division, whole.grad = None. Keep the part in a dict under `whole`.",
    ),
    given=_network,
    answer=_what_is_left,
    judge=_judge_parts,
    limits=(
        Limit("collectives", lambda arguments: LAYERS, "One reduce-scatter for each matrix."),
        Limit(
            "sent",
            lambda arguments: LAYERS * 8 * WIDTH**2 * (len(arguments) - 1) / len(arguments),
            "A rank needs the sum of its own rows only: reduce_scatter_single.",
        ),
        Limit(
            "memory",
            lambda arguments: 8 * WIDTH**2 * (2.5 + (LAYERS + 1) / len(arguments)),
            "That is more than two whole gradients: share each from a hook, and free it there.",
        ),
    ),
    becomes="sharded_backward",
)
