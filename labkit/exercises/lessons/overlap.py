"""All-reduces that begin while the backward pass goes on: the heart of lesson 13."""

from __future__ import annotations

from functools import partial
from typing import Any

from labkit.exercises.describe import Answers, Arguments, Exercise, Limit
from labkit.exercises.judge import Mistake, compare, everywhere
from labkit.exercises.lazy_torch import torch
from labkit.exercises.lessons import notices
from labkit.exercises.lessons.networks import linear

LATE = 6.0
"""Seconds after which the late rank goes backward even if the others have not come to the first layer."""
BUCKETS = 3


def _begun() -> int:
    """How many collectives this rank's group has begun."""
    group = torch.distributed.group.WORLD
    return group.sequence if hasattr(group, "sequence") else group._get_sequence_number_for_group()


def _network(generator: torch.Generator) -> list[torch.nn.Linear]:
    """The first layer, one that is used twice, the last, and a frozen one before it."""
    layers = [linear(generator, *sizes) for sizes in ((6, 5), (5, 5), (5, 3), (5, 5))]
    layers[3].requires_grad_(False)
    return layers


def _loss(layers: list[torch.nn.Linear], x: torch.Tensor, seed: int, is_late: bool) -> torch.Tensor:
    """It notes what had begun when the backward pass came to the first layer.

    The late rank goes backward when all others have come there: who waits for it in a hook never comes.
    """
    first, twice, last, frozen = layers
    before = torch.tanh(first(x))
    out = last(torch.tanh(frozen(torch.tanh(twice(torch.tanh(twice(before)))))))
    loss = out.square().mean()
    loss.seen = {}
    out.register_hook(partial(_enter, loss.seen, seed, is_late))
    before.register_hook(partial(_arrive, loss.seen))
    return loss


def _enter(seen: dict[str, Any], seed: int, is_late: bool, gradient: torch.Tensor) -> None:
    if not torch.distributed.is_initialized():  # the judge goes backward in the notebook
        return
    seen.update(before=_begun(), place=f"{seed}/{_begun()}")
    if is_late:
        rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        others = [f"{seen['place']}/{r}" for r in range(size) if r != rank]
        seen["stood_still"] = not notices.heard(*others, seconds=LATE)


def _arrive(seen: dict[str, Any], gradient: torch.Tensor) -> None:
    if torch.distributed.is_initialized():
        seen["begun"] = _begun() - seen["before"]
        notices.tell(f"{seen['place']}/{torch.distributed.get_rank()}")


def _given(generator: torch.Generator, size: int) -> Arguments:
    late, seed = int(torch.randint(size, (), generator=generator)), generator.initial_seed()
    given = []
    for rank in range(size):
        layers = _network(torch.Generator().manual_seed(seed))
        x = torch.randn(4, 6, generator=generator)
        buckets = [list(layer.parameters()) for layer in reversed(layers[:3])]
        given.append((_loss(layers, x, seed, rank == late), buckets))
    return given


def _answer(arguments: tuple, result: object) -> dict[str, Any]:
    loss, buckets = arguments
    parameters = [p for bucket in buckets for p in bucket]
    whole = all(p.grad is not None for p in parameters)
    return {
        "gradients": torch.cat([p.grad.flatten() for p in parameters]) if whole else "a missing gradient",
        "begun": loss.seen.get("begun", 0),
        "stood_still": loss.seen.get("stood_still", False),
        "hooks": sum(bool(p._post_accumulate_grad_hooks) for p in parameters),
    }


def _own(arguments: Arguments) -> list[torch.Tensor]:
    found = []
    for loss, buckets in arguments:
        parameters = [p for bucket in buckets for p in bucket]
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True)
        found.append(torch.cat([g.flatten() for g in gradients]))
    return found


def _sum(arguments: Arguments) -> torch.Tensor:
    return sum(_own(arguments))


_compare_gradients = compare(
    everywhere(lambda arguments: _sum(arguments) / len(arguments)),
    Mistake("This is the sum. Divide it by the number of ranks.", everywhere(_sum)),
    Mistake(
        "The rank's own gradients are still in p.grad. Copy back what the all-reduce left in your flat "
        "tensor, when it is done.",
        _own,
    ),
    Mistake(
        "This is divided by the number of ranks twice.",
        everywhere(lambda arguments: _sum(arguments) / len(arguments) ** 2),
    ),
)


def _judge(answers: Answers) -> str:
    found: list[Any] = [f if isinstance(f, dict) else {} for f in answers.found]
    said = _compare_gradients(Answers(answers.arguments, [f.get("gradients") for f in found]))
    if said:
        return said
    begun = min(f["begun"] for f in found)
    if begun < BUCKETS - 1:
        return (
            f"the gradients are right, but nothing is hidden: when the backward pass came to the first "
            f"layer, {BUCKETS - 1} buckets were complete and {begun} all-reduces had begun. Begin each from "
            "a hook, as soon as the last gradient of its bucket is there."
        )
    if any(f["stood_still"] for f in found):
        return (
            "the gradients are right, but the backward pass stands still in your hook until all ranks have "
            "come: begin the all-reduce with async_op=True there, and wait after backward()."
        )
    if any(f["hooks"] for f in found):
        return "the gradients are right, but your hooks are still there, and the next step adds others. " + (
            "Remove what register_post_accumulate_grad_hook returned: handle.remove()."
        )
    return ""


OVERLAP = Exercise(
    task="`buckets` is a list of lists of parameters. Call `loss.backward()`, and begin one asynchronous "
    "all-reduce for each bucket as soon as all of its gradients are there. Leave the mean over all ranks in "
    "each `p.grad`, and leave no hook behind.",
    stub="""\
def my_backward(loss, buckets):
    ...  # your code
""",
    solution="""\
def my_backward(loss, buckets):
    place = {p: b for b, bucket in enumerate(buckets) for p in bucket}
    missing, under_way = [len(bucket) for bucket in buckets], []

    def ready(p):
        missing[place[p]] -= 1
        if missing[place[p]] == 0:
            bucket = buckets[place[p]]
            flat = torch.cat([q.grad.flatten() for q in bucket])
            under_way.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

    hooks = [p.register_post_accumulate_grad_hook(ready) for p in place]
    loss.backward()
    for bucket, flat, work in under_way:
        work.wait()
        means = (flat / dist.get_world_size()).split([q.numel() for q in bucket])
        for q, mean in zip(bucket, means):
            q.grad.copy_(mean.view_as(q))
    for hook in hooks:
        hook.remove()
""",
    why="Backward goes from the last layer to the first, and a gradient that is complete does not change any "
    "more. So it can travel while the layers before it compute. Every rank goes through the same layers in "
    "the same order, and begins the same all-reduces in the same order.",
    hints=(
        "p.register_post_accumulate_grad_hook(f) calls f(p) when p.grad is complete, and returns a handle. "
        "Count down per bucket; at zero, begin dist.all_reduce(flat, async_op=True) and keep what "
        "it returns.",
        "Four parts: a dict from each parameter to its bucket, a hook on each parameter, loss.backward(), "
        "and a loop that waits for each work, divides, and copies the parts of `flat` into q.grad.",
    ),
    given=_given,
    answer=_answer,
    judge=_judge,
    limits=(Limit("collectives", lambda arguments: BUCKETS, "One all-reduce for each bucket is enough."),),
    becomes="backward_overlapped",
)
