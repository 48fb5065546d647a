"""Lesson 13, Hide the communication: its prediction, exercises and questions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from labkit.exercises.describe import (
    Answers,
    Arguments,
    Exercise,
    Lesson,
    Limit,
    Prediction,
    body,
    edit,
    edited,
    questions,
)
from labkit.exercises.judge import like_solution
from labkit.exercises.lazy_torch import dist, torch
from labkit.exercises.lessons import notices
from labkit.exercises.lessons.networks import Tensors, linear

LATE = 6.0
"""Seconds after which the late rank goes backward even if the others have not come to the network's input."""
BUCKETS = 3


def _begun() -> int:
    """How many collectives this rank's group has begun."""
    group = dist.group.WORLD
    return group.sequence if hasattr(group, "sequence") else group._get_sequence_number_for_group()


def _enter(seen: dict[str, Any], is_late: bool, gradient: torch.Tensor) -> None:
    """The backward pass begins. The late rank goes on when all others have come to the network's input.

    So whoever waits for it in a hook never comes there.
    """
    seen["passes"] = seen.get("passes", 0) + 1
    seen.update(before=_begun(), place=f"{seen['seed']}/{_begun()}", begun=[])
    if is_late:
        rank, size = dist.get_rank(), dist.get_world_size()
        others = [f"{seen['place']}/{r}" for r in range(size) if r != rank]
        seen["stood still"] = not notices.heard(*others, seconds=LATE)


def _reach(seen: dict[str, Any], gradient: torch.Tensor) -> None:
    """The backward pass comes to a layer: note what has begun."""
    seen["begun"].append(_begun() - seen["before"])


def _end(seen: dict[str, Any], gradient: torch.Tensor) -> None:
    """The backward pass comes to the network's input: the hooks of the first layer's parameters have run."""
    notices.tell(f"{seen['place']}/{dist.get_rank()}")


def _networks(generator: torch.Generator, size: int) -> Arguments:
    """A loss on each rank's data, and buckets: of the last layer, one that is used twice, and the first.

    A layer between them is frozen. The parameters of a bucket are shuffled.
    """
    late, seed = int(torch.randint(size, (), generator=generator)), generator.initial_seed()
    a, b, c = torch.randint(4, 9, (3,), generator=generator).tolist()
    given = []
    for rank in range(size):
        alike = torch.Generator().manual_seed(seed)
        sizes = (a, b), (b, b), (b, b), (b, c)
        first, twice, frozen, last = (linear(alike, *of, dtype=torch.float64) for of in sizes)
        frozen.requires_grad_(False)
        # Twice, and not the leaf: its hook runs when the parameters of the first layer have their gradients.
        x = 2 * torch.randn(4, a, generator=generator, dtype=torch.float64).requires_grad_()
        before = torch.tanh(first(x))
        between = torch.tanh(twice(before))
        out = last(torch.tanh(frozen(torch.tanh(twice(between)))))
        loss = out.square().mean()
        loss.seen = {"seed": seed}
        out.register_hook(partial(_enter, loss.seen, rank == late))
        between.register_hook(partial(_reach, loss.seen))
        before.register_hook(partial(_reach, loss.seen))
        x.register_hook(partial(_end, loss.seen))
        flipped = torch.rand(BUCKETS, generator=alike) < 0.5
        pairs = [list(layer.parameters()) for layer in (last, twice, first)]
        given.append((loss, [pair[::-1] if f else pair for pair, f in zip(pairs, flipped, strict=True)]))
    return given


def _done(arguments: tuple, result: object) -> dict[str, Any]:
    loss, buckets = arguments
    parameters = [p for bucket in buckets for p in bucket]
    whole = all(p.grad is not None for p in parameters)
    return {
        "gradients": torch.cat([p.grad.flatten() for p in parameters]) if whole else "a missing gradient",
        "hooks": sum(bool(p._post_accumulate_grad_hooks or p._backward_hooks) for p in parameters),
        **{name: loss.seen.get(name) for name in ("passes", "begun", "stood still")},
    }


TWICE = "call loss.backward() once: the gradients of the second pass are those of the first."
BEGIN_EACH = "Begin each from a hook, as soon as the last gradient of its bucket is there."
STANDS_STILL = (
    "the gradients are right, but the backward pass stands still in your hook until all ranks have come: begin "
    "the all-reduce with async_op=True there, and wait after backward()."
)
HOOKS_LEFT = (
    "the gradients are right, but your hooks are still there, and the next step adds others. Remove what "
    "register_post_accumulate_grad_hook returned: handle.remove()."
)


def _hidden(answers: Answers) -> str:
    """Say, in a sentence, which communication the backward pass does not hide, or that hooks are left; or ""."""
    if any(own["passes"] != 1 for own in answers.found):
        return (
            f"the gradients are right, but the backward pass ran {answers.found[0]['passes']} times: {TWICE}"
        )
    for due, layer in (2, "the first layer"), (1, "the layer before the last"):
        if (begun := min(own["begun"][due - 1] for own in answers.found)) != due:
            return (
                f"the gradients are right, but too little is hidden: when the backward pass came to {layer}, "
                f"{due} buckets were complete and {begun} all-reduces had begun. {BEGIN_EACH}"
            )
    if any(own["stood still"] for own in answers.found):
        return STANDS_STILL
    return HOOKS_LEFT if any(own["hooks"] for own in answers.found) else ""


def _bytes(arguments: Arguments) -> int:
    return sum(p.nbytes for bucket in arguments[0][1] for p in bucket)


AFTER = """\
loss.backward()
for bucket in buckets:
    flat = torch.cat([q.grad.flatten() for q in bucket])
    dist.all_reduce(flat)
    flat /= world_size
    for q, mean in zip(bucket, flat.split([q.numel() for q in bucket])):
        q.grad.copy_(mean.view_as(q))
"""
BEGIN = "            under_way.append((bucket, flat, dist.all_reduce(flat, async_op=True)))\n"
ONE_EACH = "One all-reduce for each bucket is enough."
TRAVELS_ONCE = "Each gradient travels once, in the all-reduce of its bucket."
OVERLAP = Exercise(
    task="`buckets` is a list of lists of parameters. Call `loss.backward()` once, and begin one asynchronous "
    "all-reduce for each bucket, of its gradients alone, as soon as all of them are there. Wait for none of "
    "them before the backward pass has ended. Leave the mean over all ranks in each `p.grad`, and leave no "
    "hook behind.",
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
    given=_networks,
    answer=_done,
    judge=like_solution(1e-9, part="gradients"),
    limits=(
        Limit("collectives", lambda arguments: BUCKETS, ONE_EACH),
        Limit("handed", _bytes, TRAVELS_ONCE),
    ),
    demands=(_hidden,),
    becomes="backward_overlapped",
    wrong=(
        edit("(flat / dist.get_world_size())", "flat", says="This is the sum. Divide it by the number of ranks."),
        edit("get_world_size()", "get_world_size() ** 2", says="This is divided by the number of ranks twice."),
        edit("            q.grad.copy_(mean.view_as(q))", "            mean.view_as(q)",
             says="The rank's own gradients are still in p.grad. Copy back what the all-reduce left in your flat "
             "tensor, when it is done."),
        edit("            flat = torch.cat([q", "            flat = torch.cat([q.grad.float().flatten() for q in bucket])\n"
             "            kept = torch.cat([q", says="The means are right to float32 only: leave the gradients in float64."),
        edit("        work.wait()\n", "", says="never waits for its asynchronous all_reduce"),
        edit("register_post_accumulate_grad_hook(ready)", "register_hook(lambda g, p=p: ready(p))", says="AttributeError"),
        edit("    for hook in hooks:\n        hook.remove()\n", "", says=HOOKS_LEFT),
        edit("            under_way", "            if rank:\n                under_way", says="deadlock", hangs=True),
        edit("            flat = torch.cat([q.grad.flatten() for q in bucket])\n" + BEGIN,
             "            for q in bucket:\n                flat = q.grad.flatten()\n                under_way.append(([q], flat, "
             "dist.all_reduce(flat, async_op=True)))\n", says=ONE_EACH),
        edit("flatten() for q in bucket])", "flatten() for q in bucket] * 2)",
             "(flat / dist", "(flat[: len(flat) // 2] / dist", says=TRAVELS_ONCE),
        edit(BEGIN, "            under_way.append((bucket, flat, None))\n", "        work.wait()\n",
             "        dist.all_reduce(flat)\n", says="to the first layer, 2 buckets were complete and 0"),
        edit("            flat = torch.cat([q.grad.flatten() for q in bucket])\n" + BEGIN,
             "            for bucket in buckets[:2] * (place[p] == 1) + buckets[2:] * (place[p] == 2):\n    "
             "            flat = torch.cat([q.grad.flatten() for q in bucket])\n    " + BEGIN,
             says="to the layer before the last, 1 buckets were complete and 0"),
        edit("            flat", "            dist.all_reduce(torch.ones(1))\n            flat", says=ONE_EACH, hangs=True),
        # As these stand still for a while, no check runs them to recognise them.
        edit("flat, async_op=True)))", "flat)))", "        work.wait()\n", "", says=STANDS_STILL, hangs=True),
        edit(BEGIN, BEGIN + "            under_way[-1][2].wait()\n", says=STANDS_STILL, hangs=True),
        edit("        missing[place[p]] -= 1\n", "        missing[place[p]] -= 1\n        for _, _, work in under_way * (missing[2] == 0):\n"
             "            work.wait()\n", says=STANDS_STILL, hangs=True),
        body(AFTER, says=BEGIN_EACH),
        body("loss.detach()", says="got      'a missing gradient'"),
        body("""\
loss.backward(retain_graph=True)
flats = [torch.cat([p.grad.flatten() for p in bucket]) for bucket in buckets]
begun, handles = [], []
def begin(p):
    if len(begun) < 2:
        begun.append(dist.all_reduce(flats[len(begun)], async_op=True))
for bucket in buckets[:2]:
    handles.append(bucket[-1].register_post_accumulate_grad_hook(begin))
loss.backward()
begun.append(dist.all_reduce(flats[2], async_op=True))
for work, flat, bucket in zip(begun, flats, buckets):
    work.wait()
    for p, mean in zip(bucket, (flat / world_size).split([p.numel() for p in bucket])):
        p.grad = mean.view_as(p)
for handle in handles:
    handle.remove()""", says=TWICE),
    ),
)  # fmt: skip


def _of_one_shape(generator: torch.Generator, size: int) -> Arguments:
    """Gradients of one shape; which of them is the largest differs from rank to rank."""
    tensors, n = (int(torch.randint(*of, (), generator=generator)) for of in ((size, 6), (4, 9)))
    given = []
    for rank in range(size):
        drawn = torch.randn(tensors, n, generator=generator, dtype=torch.float64)
        drawn /= drawn.norm(dim=1, keepdim=True)
        given.append((Tensors((1 + (i + rank) % tensors) * g for i, g in enumerate(drawn)),))
    return given


def _calls(more: int) -> Callable[[Arguments], float]:
    return lambda arguments: len(arguments[0][0]) + more


SORTED = "for g in sorted(grads, key=lambda g: g.norm().item(), reverse=True):"
STILL_OWN = "Each rank still has its own gradients. all_reduce must get the tensors themselves, not copies."
IN_ORDER = "for g in grads:  # the same order on every rank"
DIVIDE = "    for g in grads:\n        g /= dist.get_world_size()\n"
SYNC = f"""\
def sync_largest_first(grads):
    works = []
    {IN_ORDER}
        works.append(dist.all_reduce(g, async_op=True))
    for work in works:
        work.wait()
{DIVIDE}"""
LARGEST_FIRST = Exercise(
    task="`grads` are the gradients of layers that all have the same shape. The program begins with the "
    "largest, waits for all, and shall leave each layer's mean over all ranks in its tensor. It runs without "
    "an error, and the network learns nothing. **Find the bug and mend it**, with at most one collective "
    "call more than there are tensors.",
    stub=edited(SYNC, IN_ORDER, SORTED),
    solution=SYNC,
    why="Collectives are matched by their order and by nothing else. Each rank's own gradients decide which "
    "is the largest, so the first all-reduce added layer 0 of one rank to layer 2 of another. Shapes that "
    "differed would have shown it. DDP takes the order of the layers, and after the first step the order in "
    "which rank 0 was ready, which it tells the others.",
    hints=(
        "The first call of rank 0 meets the first call of rank 1. Is it the same layer?",
        "Print on each rank in which order it sends. Then choose an order that no rank's own numbers decide.",
    ),
    given=_of_one_shape,
    answer=lambda arguments, result: torch.stack(arguments[0].own),
    judge=like_solution(1e-9),
    limits=(
        Limit("collectives", _calls(1), "One all-reduce for each tensor, and one to agree if you want to."),
    ),
    changes=("grads",),
    wrong=(
        edit(IN_ORDER, "for g in sorted(grads, key=lambda g: -g.square().sum().item()):",
             says="The order is each rank's own: here one rank's largest was added to the other's largest, which is "
             "another layer."),
        edit(IN_ORDER, "for g in sorted(grads, key=lambda g: -g.square().sum().item()):", DIVIDE, "",
             says="The order is each rank's own, and the division is lost."),
        edit(IN_ORDER, "for g in grads[rank:] + grads[:rank]:",
             says="Each rank begins with another layer: the calls are matched by their order, so it must be one order."),
        edit(DIVIDE, "", says="This is the sum. Divide it by the number of ranks."),
        edit("all_reduce(g, ", "all_reduce(g.clone(), ",
             says="Each rank has its own gradients, divided. all_reduce must get the tensors themselves, not copies."),
        edit("all_reduce(g, ", "all_reduce(g.clone(), ", DIVIDE, "",
             says=STILL_OWN),
        edit("all_reduce(g, ", "reduce(g, 0, ",
             says="Only rank 0 has the means: reduce gives the sum to one rank, all_reduce to all."),
        edit("        works.append(dist.all_reduce(g, async_op=True))\n", "        single = g.float()\n"
             "        dist.all_reduce(single)\n        g.copy_(single)\n",
             says="The means are right to float32 only: add the gradients in float64."),
        edit("    for work in works:\n        work.wait()\n", "", says="never waits for its asynchronous all_reduce"),
        edit("in grads:  # the", "in grads[: len(grads) - (rank == 0)]:  # the", says="deadlock: ", hangs=True),
        edit("        works", "        dist.barrier()\n        works",
             says="One all-reduce for each tensor, and one to agree if you want to."),
        body("total = torch.stack(grads)\ndist.all_reduce(total)\ngrads = list(total / world_size)",
             says=STILL_OWN),
        body("total = torch.stack(grads)\ndist.all_reduce(total)\ngrads[:] = list(total / world_size)",
             says=STILL_OWN),
    ),
)  # fmt: skip

LESSON = Lesson(
    number="13",
    title="Hide the communication: DDP",
    predictions=(Prediction("hidden_step", "ms"),),
    exercises=(OVERLAP, LARGEST_FIRST),
    questions=questions("13"),
)
