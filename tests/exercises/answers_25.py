"""Right answers to the exercises of lesson 25 that are of another kind than the solutions."""

from labkit.exercises.describe import body, edit

RIGHT = {
    "my_step_time": (
        body("""\
if way in ("synchronous", "local steps"):
    every = 4 if way == "local steps" else 1
    return t / R + 2 * (R - 1) / every * (alpha + n * beta / R)
computing, message = t / (R - 1), n * beta
if way == "server":
    return computing + 2 * (alpha + (R - 1) * message)
return max(computing + 2 * alpha + 2 * message, (R - 1) * message)"""),
        edit("}[way]", "}.get(way)"),
        edit(
            "max(",
            "torch.tensor([",
            "(R - 1) * n * beta),\n",
            "(R - 1) * n * beta], dtype=torch.float64).max(),\n",
        ),
    ),
    "rank_bytes": (
        edit(
            "min(pipeline, batch // data // microbatch)",
            "pipeline if pipeline < batch // (data * microbatch) else batch // (data * microbatch)",
        ),
        body("""\
samples = min(pipeline * microbatch, batch // data)
return (16 * parameters + samples * layer * layers) / pipeline"""),
        body("""\
import numpy as np
under_way = np.minimum(pipeline, np.int64(batch) // (data * microbatch))
return 16 * parameters // pipeline + under_way * microbatch * layer * (layers // pipeline)"""),
    ),
    "cheapest": (
        body("""\
best = -1
for i, (devices, s, m) in enumerate(plans):
    if s > seconds or m > memory:
        continue
    if best < 0 or devices * s < plans[best][0] * plans[best][1]:
        best = i
return best"""),
        body("""\
fit = [i for i, (_, s, m) in enumerate(plans) if s <= seconds and m <= memory]
return sorted(fit, key=lambda i: plans[i][0] * plans[i][1])[0] if fit else -1"""),
        body("""\
devices, times, sizes = torch.tensor(plans, dtype=torch.float64).T
costs = torch.where((times <= seconds) & (sizes <= memory), devices * times, float("inf"))
return costs.argmin() if costs.isfinite().any() else torch.tensor(-1)"""),
    ),
}
