"""Answers to the exercises of lesson 25."""

RING = "ring = {halves} * (R - 1) * (alpha + {chunk} * beta)\n"
TIMES = """\
return {{
    "synchronous": t / R + ring,
    "local steps": t / R + ring{every},
    "server": t / {workers} + 2 * alpha + 2 * {gradients} * n * beta,
    "asynchronous": {asynchronous},
}}[way]"""
ALONE = "t / {workers} + 2 * (alpha + n * beta)"


def times(halves=2, chunk="n / R", every=" / 4", workers="(R - 1)", gradients="(R - 1)", full=True):
    alone = ALONE.format(workers=workers)
    asynchronous = f"max({alone}, (R - 1) * n * beta)" if full else alone
    ring = RING.format(halves=halves, chunk=chunk)
    return ring + TIMES.format(every=every, workers=workers, gradients=gradients, asynchronous=asynchronous)


STATE = "state = 16 * parameters / pipeline\n"
SUM = "return state + under_way * microbatch * layer * layers / pipeline"


def kept(under_way, state=STATE, total=SUM):
    return f"{state}under_way = {under_way}\n{total}"


FIT = "fit = [i for i, (d, s, m) in enumerate(plans) if {0}]\n"
BOTH = FIT.format("s <= seconds and m <= memory")
LEAST = "return min(fit, key=lambda i: {0}, default=-1)"
COST = LEAST.format("plans[i][0] * plans[i][1]")

WRONG = {
    "my_step_time": {
        "all ranks work": (times(workers="R", full=False), "wrong"),
        "server computes": (times(workers="R"), "Rank 0 computes nothing there: R - 1 workers share t."),
        "one half": (times(halves=1), "A ring has two halves"),
        "whole tensors": (times(chunk="n"), "These are rings of whole tensors."),
        "every step": (times(every=""), "Local steps talk once in 4 steps."),
        "link never full": (times(full=False), "the server's link is full"),
        "one worker's bytes": (times(gradients="1"), "The server's link carries what all R - 1 workers"),
        "nothing": (times().replace("return", "found ="), "Nothing came back"),
        "only rank 0 right": (times().replace("[way]", "[way] + rank"), "rank 1 is wrong"),
        "deadlock": ("if rank == 0:\n    dist.barrier()\n" + times(), "deadlock: "),
        "over budget": (
            "dist.barrier()\n" + times(),
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
    "rank_bytes": {
        "all of them": (kept("batch // (data * microbatch)"), "That is GPipe's memory"),
        "as many as stages": (kept("pipeline"), "There are fewer micro-batches than stages"),
        "one": (kept("1"), "The first stage has more than one micro-batch under way"),
        "no activations": (kept("0"), "The activations are missing."),
        "whole state": (
            kept("min(pipeline, batch // data // microbatch)", "state = 16 * parameters\n"),
            "A stage has the state of its own layers only.",
        ),
        "one too few": (kept("min(pipeline, batch // data // microbatch) - 1"), "the last stage but one"),
        "only rank 0 right": (
            kept("min(pipeline, batch // data // microbatch) if rank == 0 else 1"),
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            "dist.barrier()\n" + kept("min(pipeline, batch // data // microbatch)"),
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
    "cheapest": {
        "fastest": (BOTH + LEAST.format("plans[i][1]"), "device-seconds a step"),
        "fewest devices": (BOTH + LEAST.format("plans[i][0]"), "device-seconds a step"),
        "memory forgotten": (FIT.format("s <= seconds") + COST, "does not fit: "),
        "time forgotten": (FIT.format("m <= memory") + COST, "is too slow: "),
        "none": ("return -1", "it says that none keeps to the budget"),
        "the plan itself": (BOTH + "return plans[fit[0]] if fit else -1", "Return a place in the list"),
        "nothing": (BOTH, "nothing came back"),
        "only rank 0 right": (BOTH + "if rank:\n    return -1\n" + COST, "rank 1 is wrong"),
        "over budget": (
            "dist.barrier()\n" + BOTH + COST,
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
}
RIGHT = {
    "my_step_time": {
        "one after the other": """\
if way in ("synchronous", "local steps"):
    every = 4 if way == "local steps" else 1
    return t / R + 2 * (R - 1) / every * (alpha + n * beta / R)
computing, message = t / (R - 1), n * beta
if way == "server":
    return computing + 2 * (alpha + (R - 1) * message)
return max(computing + 2 * alpha + 2 * message, (R - 1) * message)""",
        "by names": times().replace("}[way]", "}.get(way)"),
    },
    "rank_bytes": {
        "by hand": kept(
            "pipeline if pipeline < batch // (data * microbatch) else batch // (data * microbatch)"
        ),
        "shorter": "samples = min(pipeline * microbatch, batch // data)\n"
        "return (16 * parameters + samples * layer * layers) / pipeline",
    },
    "cheapest": {
        "in a loop": """\
best = -1
for i, (devices, s, m) in enumerate(plans):
    if s > seconds or m > memory:
        continue
    if best < 0 or devices * s < plans[best][0] * plans[best][1]:
        best = i
return best""",
        "sorted": BOTH + "return sorted(fit, key=lambda i: plans[i][0] * plans[i][1])[0] if fit else -1",
    },
}
