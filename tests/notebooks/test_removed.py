"""A tolerance fails if the method is removed: each lesson's assertion fires without what it is about."""

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from labkit.launch import living
from tests.conftest import in_tiers
from tests.lessons import lesson

REMOVED = {
    "00": [("X.chunk(world_size)[rank] @ W", "X.chunk(world_size)[0] @ W")],
    "01": [("    token += rank\n", "")],
    "02": [("src=sender)\n            total += y", "src=sender)")],
    "03": [("mean = own.clone()\ndist.all_reduce(mean)", "mean = own.clone()")],
    "04": [("sync_initial_weights(replica)\n", "")],
    "05": [
        ("time.sleep(samples * t)", "pass"),
        ("    dist.all_reduce(gradients, group=group)\n", ""),
    ],
    "06": [
        ("    all_reduce_ring(x)\n    dist", "    dist"),
        ("ways = [all_reduce_reduce_broadcast, all_reduce_ring]", "ways = 2 * [all_reduce_reduce_broadcast]"),
    ],
    "07": [
        ("rank + distance)\n            x += received", "rank + distance)"),
        ("        mine += received\n", ""),
    ],
    "08": [
        ("[pushed[w] for w in sorted(pushed)]", "[pushed[min(pushed)]]"),
        (" / (1 + len(others))", ""),
    ],
    "09": [
        ("own[numbers // world_size] for", "own[: len(numbers)] for"),
        ("        if whole:\n", "        whole = True\n        if whole:\n"),
    ],
    "10": [
        ("            mix(mine, message)\n", ""),
        ("        mine[-1] /= 2\n", ""),
    ],
    "11": [
        ("harmonic(100) - harmonic(100 - N)", "harmonic(100)"),
        ("            if worker in current:\n", "            if True:\n"),
    ],
    "12": [("    vector_to_parameters(weights.to(device), model.parameters())\nsync", "    pass\nsync")],
    "13": [
        ("backward_overlapped(cross_entropy(ours(x_b), y_b), buckets_of(ours, 3))",
         "cross_entropy(ours(x_b), y_b).backward()"),
        ("during = several(model, backward_overlapped)", "during = several(model, backward_then_sync)"),
        ("always_sync or last else model.no_sync()", "True else model.no_sync()"),
    ],
    "14": [
        ("lambda g: mean_of_largest(g, residual, 28)", "lambda g: mean_of_largest(g, 0 * residual, 28)"),
        ("        outer.step()\n", ""),
    ],
    "15": [("dist.send(x.grad, rank - 1)", "dist.send(torch.ones_like(x.grad), rank - 1)")],
    "16": [
        ("self.part(CopyToRanks.apply(x))", "self.part(x)"),
        ("SumOverRanks.apply(self.part(CopyToRanks.apply(x)))", "self.part(CopyToRanks.apply(x))"),
    ],
    "17": [
        ("mse_loss(output, y) / M", "mse_loss(output, y)"),
        ("[*map(Forward, every), *map(Backward, every)]",
         "[P(m) for m in every for P in (Forward, Backward)]"),
    ],
    "18": [("\n        dist.all_gather_single(whole.data, master.detach().to(whole.dtype))", "")],
    "19": [
        ("    sync([p.grad for p in model.parameters()])\n", ""),
        ('summed(grad, ctx.group) if ctx.way == "backward" else grad', "grad"),
        ("    sync_on_mesh([p.grad for p in stage.parameters()], mesh)", ""),
    ],
    "20": [
        ("together = merge(*together, *part)", "together = part"),
        ("ScatterSums.apply(sums)", "sums[: len(b)]"),
        ("gate[:, None] * send_to_experts(x, choice, experts[rank])", "gate[:, None] * experts[rank](x)"),
    ],
    "21": [("x = Recompute.apply(x, deep[first : first + k])", "x = deep[first : first + k](x)")],
    "22": [
        ("batches * BATCH, BATCH)", "0, BATCH)"),
        ("        time.sleep(1)  # planted\n", ""),
    ],
    "23": [
        ("return timeout / 2 * (1 + 1 / n) + queue + s", "return timeout / 2 * (1 + 1 / n) + s"),
        ("may_join = continuous or not running", "may_join = not running"),
        ("n := close_batch(waiting, now, most, timeout)", "n := len(waiting)"),
    ],
    "24": [("for h in range(H) for _ in range(k)]", "for _ in range(k) for h in range(H)]")],
    "25": [
        ("return x + Summed.apply(out, self.T, None)", "return x + out"),
        ("sum(gradients) / len(workers)", "sum(gradients)"),
    ],
}  # fmt: skip
"""By the lesson's number: what of its cells is removed, and what stands there then."""

NOT_NEEDED = (
    "labkit.check(",
    "labkit.predict(",
    "labkit.ask(",
    "mpiexec",
    "train(server,",
    'runs = lab[0]["runs"]',
    "runs, steps = lab[0]",
)
"""Cells that these assertions do not build upon, and that take time; nor do they upon figures."""
HEARTS = {
    "04": ("my_sync_initial_weights",),
    "06": ("my_all_reduce_ring",),
    "08": ("my_serve_asynchronous",),
    "10": ("my_serve",),
    "13": ("my_backward",),
    "14": ("my_local_steps", "top_k_mean"),
    "16": ("MyCopyToRanks", "MySumOverRanks"),
    "17": ("my_one_forward_one_backward",),
    "18": ("my_sharded_step", "my_sharded_backward", "MySharded"),
    "19": ("my_sync_on_mesh", "my_placement_seconds", "my_budget"),
    "20": ("my_merge", "my_ring_attention", "my_send_to_experts"),
    "21": ("my_master_step",),
    "22": ("my_rest_of_epoch", "my_useful_share"),
    "23": ("my_close_batch", "my_decode_step"),
}
"""Checks that give later cells their functions."""


VARIANTS = [(number, n) for number, variants in REMOVED.items() for n in range(len(variants))]


@pytest.mark.parametrize(("number", "variant"), in_tiers(VARIANTS, 0, 4, "{}-{}".format))
def test_without_the_method_the_assertion_fires(number, variant, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path))
    monkeypatch.setenv("LABKIT_SERVER", living.identity(psutil.Process()))  # one lab for all lessons
    notebook, (method, instead) = nbformat.read(lesson(number), as_version=4), REMOVED[number][variant]
    hearts = tuple(f'labkit.check("{name}")' for name in HEARTS.get(number, ()))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert sum(method in cell.source for cell in code) >= 1, f"lesson {number} has no {method!r} any more"
    notebook.cells = [
        cell
        for cell in code
        if cell.source in hearts
        or not ({"raises-exception"} & set(cell.metadata.get("tags", [])))
        and not any(word in cell.source for word in NOT_NEEDED)
        and ("assert " in cell.source or not any(word in cell.source for word in ("figures", "plot(")))
    ]
    for cell in notebook.cells:
        cell.source = cell.source.replace(method, instead)
    client = NotebookClient(
        notebook,
        timeout=60,
        kernel_name="python3",
        resources={"metadata": {"path": str(lesson(number).parent)}},
    )
    with pytest.raises(CellExecutionError, match="AssertionError"):
        client.execute()
