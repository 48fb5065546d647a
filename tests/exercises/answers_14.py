"""Answers to the exercises of lesson 14."""

STEP = "optimizer.zero_grad()\ntorch.nn.functional.cross_entropy(model(x), y).backward()\noptimizer.step()\n"
AVERAGE = """\
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
dist.all_reduce(weights)
weights /= world_size
for p, mean in zip(model.parameters(), weights.split([p.numel() for p in model.parameters()])):
    p.data.copy_(mean.view_as(p))
"""


def indented(source):
    return "".join(f"    {line}\n" for line in source.splitlines())


def loop(average=AVERAGE, when="step % N == 0", first=1):
    body = STEP + f"if {when}:\n" + indented(average)
    return f"for step, (x, y) in enumerate(batches, {first}):\n" + indented(body)


ADD = "residual += gradient\nplaces = residual.abs().topk(k).indices\n"
TAKE = "values = residual[places]\nresidual[places] = 0\n"
GATHER = """\
every_place = [torch.empty_like(places) for _ in range(world_size)]
every_value = [torch.empty_like(values) for _ in range(world_size)]
dist.all_gather(every_place, places)
dist.all_gather(every_value, values)
total = torch.zeros_like(gradient).index_add_(0, torch.cat(every_place), torch.cat(every_value))
"""
MEAN = "return total / world_size"
WRONG = {
    "my_local_steps": {
        "never meet": (loop(average="pass"), "The ranks never meet: these are each rank's own weights."),
        "once at the end": (
            loop(average="pass") + AVERAGE,
            "The ranks meet once, at the end: average after every N batches.",
        ),
        "from 0": (loop(first=0), "You average after the first of N batches"),
        "not the last": (
            loop(when="step % N == 0 and step < len(batches)"),
            "The last average is missing: count from 1",
        ),
        "no divisor": (
            loop(AVERAGE.replace("weights /= world_size\n", "")),
            "This is the sum of the weights. Divide it by the number of ranks.",
        ),
        "gradients": (
            "for x, y in batches:\n"
            + indented(
                STEP.replace(
                    "optimizer.step()",
                    "for p in model.parameters():\n    dist.all_reduce(p.grad)\n    p.grad /= world_size\n"
                    "optimizer.step()",
                )
            ),
            "You average the gradients of every step.",
        ),
        "not copied back": (
            loop(AVERAGE.replace("p.data.copy_(mean.view_as(p))", "p = mean.view_as(p)")),
            "The ranks never meet: these are each rank's own weights.",
        ),
        "nothing": ("N", "Nothing was trained: the weights are those of the start."),
        "over budget": (
            loop("for p in model.parameters():\n    dist.all_reduce(p.data)\n    p.data /= world_size\n"),
            "over budget: collective calls on each rank 8, limit 2\nOne flat tensor, every N batches.",
        ),
        "only rank 0 right": (
            loop() + "for p in model.parameters():\n    p.data *= rank == 0",
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            loop(when="step % N == 0 and rank > 0"),
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_reduce",
        ),
    },
    "top_k_mean": {
        "as it was": (
            "places = gradient.abs().topk(k).indices\nvalues = gradient[places]\nresidual += gradient\n"
            "residual[places] = 0\n" + GATHER + MEAN,
            "What is kept is never sent",
        ),
        "chosen by the gradient": (
            "places = gradient.abs().topk(k).indices\nresidual += gradient\n" + TAKE + GATHER + MEAN,
            "The places are chosen by the new gradient alone",
        ),
        "the gradient sent": (
            ADD + "values = gradient[places]\nresidual[places] = 0\n" + GATHER + MEAN,
            "The places are right, but the numbers sent are the new gradient's",
        ),
        "kept as well": (
            ADD + "values = residual[places]\n" + GATHER + MEAN,
            "What was sent stays in the residual, too",
        ),
        "no divisor": (ADD + TAKE + GATHER + "return total", "This is the sum. Divide it by the number"),
        "over budget: everything travels": (
            ADD
            + "sent = torch.zeros_like(residual)\nsent[places] = residual[places]\nresidual[places] = 0\n"
            + "dist.all_reduce(sent)\nreturn sent / world_size",
            "over budget: bytes handed to calls by a rank 240, limit 64\nOnly k numbers and their places",
        ),
        "over budget": (
            ADD + TAKE + GATHER + "dist.barrier()\n" + MEAN,
            "over budget: collective calls on each rank 3, limit 2\nOne for the places",
        ),
        "only rank 0 right": (
            ADD + TAKE + GATHER + "return total / world_size if rank == 0 else None",
            "in a world of 2, rank 1 is wrong",
        ),
        "deadlock": (
            ADD + TAKE + "if rank == 0:\n    return gradient\n" + GATHER + MEAN,
            "deadlock: rank 0 finished the cell, and others wait for it\nrank 1 in all_gather",
        ),
    },
}

RIGHT = {
    "my_local_steps": {
        "in rounds": """\
from torch.nn.utils import parameters_to_vector, vector_to_parameters
for start in range(0, len(batches), N):
    for x, y in batches[start : start + N]:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        optimizer.step()
    weights = parameters_to_vector(model.parameters()).detach() / dist.get_world_size()
    dist.all_reduce(weights)
    vector_to_parameters(weights, model.parameters())""",
        "by the mean of the backend": loop(
            AVERAGE.replace("all_reduce(weights)", "all_reduce(weights, dist.ReduceOp.AVG)").replace(
                "weights /= world_size\n", ""
            )
        ),
    },
    "top_k_mean": {
        "pairs in one call": """\
both = gradient + residual
places = both.abs().argsort(descending=True)[:k]
pairs = torch.stack([places.to(both.dtype), both[places]])
residual.copy_(both)
residual[places] = 0
every = [torch.empty_like(pairs) for _ in range(world_size)]
dist.all_gather(every, pairs)
total = torch.zeros_like(gradient)
for places, values in every:
    total[places.long()] += values / world_size
return total""",
        "in whole numbers of 32 bits": ADD
        + TAKE
        + "places = places.int()\n"
        + GATHER.replace("torch.cat(every_place)", "torch.cat(every_place).long()")
        + MEAN,
    },
}
