"""Answers to the exercises of lesson 18."""

from textwrap import indent


def indented(lines):
    return indent(lines, "    ")


MINE = "mine = torch.empty_like(whole.grad[: len(master)])\ndist.reduce_scatter_single(mine, whole.grad)\n"
STEP = "master.grad = mine.to(master.dtype) / world_size\noptimizer.step()\n"
GATHER = "dist.all_gather_single(whole.data, master.detach().to(whole.dtype))\n"

HOOK = """\
parts = {{}}
def share(whole):
    mine = torch.empty_like(whole.grad[: len(whole) // world_size])
    {add}
    parts[whole] = {part}
    {free}
hooks = [whole.register_post_accumulate_grad_hook(share) for whole in wholes]
loss.backward()
"""
GOOD = {
    "add": "dist.reduce_scatter_single(mine, whole.grad)",
    "part": "mine / world_size",
    "free": "whole.grad = None",
}
REMOVE = "for hook in hooks:\n    hook.remove()\n"
PARTS = "return [parts[whole] for whole in wholes]"
AFTER = """\
loss.backward()
parts = []
for whole in wholes:
    mine = torch.empty_like(whole.grad[: len(whole) // world_size])
    dist.reduce_scatter_single(mine, whole.grad)
    whole.grad = None
    parts.append(mine / world_size)
return parts"""


def hooked(**other):
    return HOOK.format(**GOOD | other) + REMOVE + PARTS


SAVE = "ctx.save_for_backward(x, part)\n"
THERE = SAVE + "return x @ gathered(part).T"
OF_X = "x, part = ctx.saved_tensors\nof_x = grad @ gathered(part)\n"
OF_PART = "mine = torch.empty_like(part)\ndist.reduce_scatter_single(mine, grad.T @ x)\n"
BOTH = "return of_x, mine / world_size"
KEPT = "whole = gathered(part)\nctx.{0}\nreturn x @ whole.T"


def layer(forward, backward):
    """The body of a class with these two methods."""
    return (
        f"@staticmethod\ndef forward(ctx, x, part):\n{indented(forward)}\n"
        f"@staticmethod\ndef backward(ctx, grad):\n{indented(backward)}\n"
    )


LOSS = "loss = (x @ whole.T - y).square().mean() / len(batches)\nloss.backward()\n"
SHARE = "mine = torch.empty_like(master)\ndist.reduce_scatter_single(mine, whole.grad)\n"
END = "optimizer.step()\ndist.all_gather_single(whole.data, master.detach())\n"
ZEROS = "master.grad = torch.zeros_like(master)\n"
ADD = "master.grad += mine / world_size\n"


def over_batches(body, before=ZEROS, after=END):
    return f"{before}for x, y in batches:\n{indented(body)}\n{after}"


SQUARE = "square = sum(part.square().sum() for part in parts)\n"
SUM = "dist.all_reduce(square)\n"
SCALE = "for part in parts:\n    part *= min(1.0, most / {0})\n"

WRONG = {
    "my_sharded_step": {
        "no divisor": (MINE + STEP.replace(" / world_size", "") + GATHER, "The step took the sum."),
        "own gradient": (
            "mine = whole.grad.chunk(world_size)[rank]\n" + STEP.replace(" / world_size", "") + GATHER,
            "Each rank stepped along its own gradient: nothing has been added.",
        ),
        "own gradient, divided": (
            "mine = whole.grad.chunk(world_size)[rank]\n" + STEP + GATHER,
            "Each rank stepped along its own gradient, divided.",
        ),
        "not gathered": (MINE + STEP, "are right, and `whole` is as it was"),
        "not waited for": (
            MINE.replace("whole.grad)\n", "whole.grad, async_op=True)\n") + STEP + GATHER,
            "HazardError",
        ),
        "wrong precision": (MINE + STEP.replace(".to(master.dtype)", "") + GATHER, "RuntimeError"),
        "only rank 0 right": (
            MINE + STEP + GATHER + "if rank:\n    whole.data.zero_()",
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget: an all-reduce": (
            "dist.all_reduce(whole.grad)\nmine = whole.grad.chunk(world_size)[rank]\n" + STEP + GATHER,
            "over budget: bytes sent, collectives as rings 216, limit 144\nAn all-reduce brings each",
        ),
        "deadlock": (
            MINE + STEP + "if rank == 0:\n" + indented(GATHER),
            "deadlock: ",
        ),
    },
    "my_sharded_backward": {
        "no divisor": (hooked(part="mine"), "These are sums."),
        "nothing added": (
            hooked(add="pass", part="whole.grad.chunk(world_size)[rank].clone()"),
            "These are the rank's own gradients",
        ),
        "not freed": (hooked(free="pass"), "whole gradients are still there"),
        "freed at the end": (
            HOOK.format(**GOOD | {"free": "pass"})
            + REMOVE
            + "for whole in wholes:\n    whole.grad = None\n"
            + PARTS,
            "over budget: bytes of new tensors at once",
        ),
        "after backward": (AFTER, "That is more than two whole gradients"),
        "hooks left": (HOOK.format(**GOOD) + PARTS, "your hooks are still there"),
        "nothing returned": (HOOK.format(**GOOD) + REMOVE, "Nothing came back"),
        "over budget: an all-reduce": (
            hooked(
                add="dist.all_reduce(whole.grad)",
                part="whole.grad.chunk(world_size)[rank] / world_size",
            ),
            "over budget: bytes sent, collectives as rings",
        ),
        "deadlock": (
            hooked(add="if rank == 0:\n        dist.reduce_scatter_single(mine, whole.grad)"),
            "deadlock: rank 1 finished the cell, and others wait for it\nrank 0 in reduce_scatter_tensor",
        ),
        "only rank 0 right": (
            hooked(part="mine / (world_size if rank == 0 else 1)"),
            "in a world of 2, rank 1 is wrong",
        ),
    },
    "MySharded": {
        "no divisor": (layer(THERE, OF_X + OF_PART + "return of_x, mine"), "That of the part is the sum"),
        "nothing added": (
            layer(THERE, OF_X + "return of_x, (grad.T @ x).chunk(world_size)[rank]"),
            "That of the part is the rank's own: nothing has been added.",
        ),
        "nothing added, divided": (
            layer(THERE, OF_X + "return of_x, (grad.T @ x).chunk(world_size)[rank] / world_size"),
            "the rank's own, divided",
        ),
        "kept as an attribute": (
            layer(
                SAVE + KEPT.format("whole = whole"),
                "x, part = ctx.saved_tensors\nof_x = grad @ ctx.whole\n" + OF_PART + BOTH,
            ),
            "the whole matrix is kept from forward to backward",
        ),
        "saved": (
            layer(
                KEPT.format("save_for_backward(x, part, whole)"),
                "x, part, whole = ctx.saved_tensors\nof_x = grad @ whole\n" + OF_PART + BOTH,
            ),
            "the whole matrix is kept from forward to backward",
        ),
        "only rank 0 right": (
            layer(THERE, OF_X + OF_PART + "return of_x, mine / (world_size if rank == 0 else 1)"),
            "in a world of 2, rank 1 is wrong",
        ),
        "own rows": (
            layer(SAVE + "return torch.cat([x @ part.T] * world_size, 1)", OF_X + OF_PART + BOTH),
            "in a world of 2, ranks 0-1 are wrong",
        ),
        "over budget: an all-reduce": (
            layer(
                THERE,
                OF_X
                + "whole = grad.T @ x\ndist.all_reduce(whole)\n"
                + "return of_x, whole.chunk(world_size)[rank] / world_size",
            ),
            "over budget: bytes sent, collectives as rings",
        ),
        "over budget: a barrier": (
            layer(THERE, OF_X + OF_PART + "dist.barrier()\n" + BOTH),
            "over budget: collective calls on each rank 4, limit 3",
        ),
        "deadlock": (
            layer(THERE, OF_X + "if rank == 0:\n" + indented(OF_PART) + "return of_x, part"),
            "deadlock: ",
        ),
    },
    "accumulate_sharded": {
        "as it was": (
            over_batches(LOSS + SHARE + "whole.grad = None\nmaster.grad = mine / world_size", ""),
            "This step knows the last micro-batch alone",
        ),
        "not freed": (
            over_batches(LOSS + SHARE + ADD),
            "Earlier micro-batches count several times",
        ),
        "the first alone": (
            over_batches(
                LOSS
                + SHARE
                + "whole.grad = None\nif master.grad is None:\n    master.grad = mine / world_size",
                "",
            ),
            "This step knows the first micro-batch alone",
        ),
        "not divided by their number": (
            over_batches(LOSS.replace(" / len(batches)", "") + SHARE + "whole.grad = None\n" + ADD),
            "This is the sum over the micro-batches.",
        ),
        "no step": (
            over_batches(
                LOSS + SHARE + "whole.grad = None\n" + ADD, after=END.replace("optimizer.step()\n", "")
            ),
            "The weights are as they were.",
        ),
        "deadlock": (
            over_batches(
                LOSS + SHARE + "whole.grad = None\n" + ADD,
                after="optimizer.step()\nif rank == 0:\n" + indented(END.split("\n")[1]),
            ),
            "deadlock: ",
        ),
        "over budget: weights after each": (
            over_batches(
                LOSS
                + SHARE
                + "whole.grad = None\n"
                + ADD
                + "dist.all_gather_single(whole.data, master.detach())"
            ),
            "over budget: collective calls on each rank 7, limit 4",
        ),
    },
    "clip_parts": {
        "own norm": (
            SQUARE + SCALE.format("square.sqrt().item()"),
            "Each rank clipped by the norm of its own",
        ),
        "norms added": (
            "norm = sum(part.square().sum() for part in parts).sqrt()\ndist.all_reduce(norm)\n"
            + SCALE.format("norm.item()"),
            "Norms were added.",
        ),
        "no root": (SQUARE + SUM + SCALE.format("square.item()"), "The root is missing"),
        "always scaled": (
            SQUARE + SUM + "for part in parts:\n    part *= most / square.sqrt().item()",
            "A gradient that was short enough was made longer",
        ),
        "not in place": (
            SQUARE + SUM + "return [part * min(1.0, most / square.sqrt().item()) for part in parts]",
            "The parts are as they were",
        ),
        "only rank 0 right": (
            SQUARE
            + SUM.replace("all_reduce(square)", "reduce(square, 0)")
            + SCALE.format("square.sqrt().item()"),
            "is wrong",
        ),
        "deadlock": (SQUARE + "if rank == 0:\n    " + SUM, "deadlock: "),
        "over budget: one for each part": (
            "square = 0\nfor part in parts:\n    own = part.square().sum()\n    dist.all_reduce(own)\n"
            "    square += own\n" + SCALE.format("square.sqrt().item()"),
            "over budget: collective calls on each rank 3, limit 1",
        ),
        "over budget: all of it gathered": (
            "mine = torch.cat(parts)\nevery = mine.new_empty(world_size * len(mine))\n"
            "dist.all_gather_single(every, mine)\n" + SCALE.format("every.norm().item()"),
            "over budget: bytes handed to calls by a rank 96, limit 8\nOne number is enough",
        ),
    },
}

RIGHT = {
    "my_sharded_step": {
        "as a list": (
            "mine = torch.empty_like(master, dtype=whole.dtype)\n"
            "dist.reduce_scatter(mine, list(whole.grad.chunk(world_size)))\n"
        )
        + STEP
        + "dist.all_gather(list(whole.data.chunk(world_size)), master.detach().to(whole.dtype))",
        "waited for": MINE.replace("dist.", "work = dist.").replace(
            "whole.grad)\n", "whole.grad, async_op=True)\n"
        )
        + "work.wait()\n"
        + STEP
        + "with torch.no_grad():\n"
        + indented(GATHER.replace(".data", "")),
    },
    "my_sharded_backward": {
        "waited for at the end": """\
under_way = {}
def share(whole):
    mine = torch.empty_like(whole.grad[: len(whole) // world_size])
    under_way[whole] = mine, dist.reduce_scatter_single(mine, whole.grad, async_op=True)
    under_way[whole][1].wait()
    mine /= world_size
    whole.grad = None
hooks = [whole.register_post_accumulate_grad_hook(share) for whole in wholes]
loss.backward()
for hook in hooks:
    hook.remove()
return [under_way[whole][0] for whole in wholes]""",
        "a list filled backwards": """\
parts = [None] * len(wholes)
def share(place):
    def hook(whole):
        parts[place] = whole.new_empty(len(whole) // world_size, whole.shape[1])
        dist.reduce_scatter_single(parts[place], whole.grad, dist.ReduceOp.AVG)
        whole.grad = None
    return hook
hooks = [w.register_post_accumulate_grad_hook(share(i)) for i, w in enumerate(wholes)]
loss.backward()
[hook.remove() for hook in hooks]
return parts""",
    },
    "MySharded": {
        "an average": layer(
            THERE,
            OF_X + OF_PART.replace("grad.T @ x)", "grad.T @ x, dist.ReduceOp.AVG)") + "return of_x, mine",
        ),
        "attributes": layer(
            "ctx.x, ctx.part = x, part\nreturn torch.nn.functional.linear(x, gathered(part))",
            OF_X.replace("ctx.saved_tensors", "ctx.x, ctx.part") + OF_PART + BOTH,
        ),
    },
    "accumulate_sharded": {
        "whole gradients added": (
            f"for x, y in batches:\n{indented(LOSS)}\n{SHARE}master.grad = mine / world_size\n{END}"
        ),
        "parts added": over_batches(
            LOSS + SHARE + "whole.grad = None\ntotal = total + mine",
            "total = 0\n",
            "master.grad = total / world_size\n" + END,
        ),
    },
    "clip_parts": {
        "by hand": "square = torch.cat(parts).square().sum()\n"
        + SUM
        + "norm = square.item() ** 0.5\nfor part in parts:\n    part.mul_(most / norm if norm > most else 1)",
        "foreach": "square = torch.stack(torch._foreach_norm(parts)).square().sum()\n"
        + SUM
        + "torch._foreach_mul_(parts, float((most / square.sqrt()).clamp(max=1)))",
    },
}
