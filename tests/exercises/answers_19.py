"""Answers to the exercises of lesson 19."""

from textwrap import indent

FLAT = "flat = torch.cat([g.flatten() for g in gradients])\n"
DATA = 'dist.all_reduce(flat, group=mesh.get_group("data"))\n'
DIVIDE = 'flat /= mesh["data"].size()\n'
BACK = """\
for g, mean in zip(gradients, flat.split([g.numel() for g in gradients])):
    g.copy_(mean.view_as(g))
"""
EACH = """\
for g in gradients:
    dist.all_reduce(g, group=mesh.get_group("data"))
    g /= mesh["data"].size()
"""

ADD = 'dist.all_reduce(square, group=mesh.get_group("tensor"))\n'
WORLD = "dist.all_reduce(square)\n"
OF_PARTS = "square = sum(g.square().sum() for g in parts)\n"
OF_BOTH = "square = sum(g.square().sum() for g in [*parts, *whole])\n"
ADD_WHOLE = "square += sum(g.square().sum() for g in whole)\n"
ROOT = "return square.sqrt()"


def total(
    link: str = "fast if axis == inside else slow", cost: str = "messages * alpha + size * beta"
) -> str:
    """A loop over the axes that adds up."""
    return (
        "seconds = 0.0\nfor axis, (messages, size) in axes.items():\n"
        f"    alpha, beta = {link}\n    seconds += {cost}\nreturn seconds"
    )


def table(row: str) -> str:
    return f"return [{row} for D, T in meshes]"


ROW = "16 * psi / T + (whole + split / T) / D"

WRONG = {
    "my_sync_on_mesh": {
        "over the world": (
            FLAT + "dist.all_reduce(flat)\nflat /= dist.get_world_size()\n" + BACK,
            "That is the mean over the world: gradients of different columns were averaged together.",
        ),
        "over tensor": (
            FLAT + DATA.replace("data", "tensor") + DIVIDE.replace("data", "tensor") + BACK,
            "That is the mean over the tensor axis",
        ),
        "not divided": (FLAT + DATA + BACK, "These are sums over the data axis."),
        "divided by all": (
            FLAT + DATA + "flat /= dist.get_world_size()\n" + BACK,
            "you divided by the number of all ranks",
        ),
        "not written back": (FLAT + DATA + DIVIDE, "The gradients are as they were"),
        "returned": (
            FLAT + DATA + DIVIDE + "return flat",
            "The gradients are as they were",
        ),
        "deadlock": (
            FLAT + 'if mesh.get_local_rank("data") == 0:\n' + indent(DATA, "    ") + DIVIDE + BACK,
            "deadlock: ",
        ),
        "only rank 0 right": (
            FLAT + DATA + DIVIDE + BACK + "if dist.get_rank():\n    gradients[0] += 1",
            "in a world of 4, ranks 1-3 are wrong",
        ),
        "over budget: one for each": (EACH, "over budget: collective calls on each rank 9, limit 3"),
    },
    "my_placement_seconds": {
        "no latency": (total(cost="size * beta"), "These are the bytes alone"),
        "latency alone": (total(cost="messages * alpha"), "These are the latencies alone"),
        "swapped": (total("slow if axis == inside else fast"), "The axis inside has the slow link here"),
        "all slow": (total("slow"), "All axes have the slow link here"),
        "inside for nothing": (
            total("(0, 0) if axis == inside else slow"),
            "its link is fast, not free",
        ),
        "the slowest": (
            total()
            .replace("seconds += ", "seconds = max(seconds, ")
            .replace("beta\nreturn", "beta)\nreturn"),
            "That is the slowest axis alone",
        ),
        "nothing returned": (total().replace("return seconds", ""), "Nothing came back"),
        "only rank 0 right": (
            total().replace("return seconds", "return seconds + rank"),
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            "dist.barrier()\n" + total(),
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
    "norm_on_mesh": {
        "as it was": (OF_BOTH + ADD + ROOT + " * 1", "What every rank has whole counts once for each rank"),
        "parts over the world": (
            OF_PARTS + WORLD + ADD_WHOLE + ROOT,
            "You added over the whole world: replicas",
        ),
        "all over the world": (
            OF_BOTH + WORLD + ROOT,
            "You added over the whole world, and what is whole as often as there are ranks.",
        ),
        "no whole": (OF_PARTS + ADD + ROOT, "What every rank has whole is missing."),
        "no root": (OF_PARTS + ADD + ADD_WHOLE + "return square", "The root is missing"),
        "nothing returned": (OF_PARTS + ADD + ADD_WHOLE, "Nothing came back"),
        "deadlock": (
            OF_PARTS + "if dist.get_rank() == 0:\n" + indent(ADD, "    ") + ADD_WHOLE + ROOT,
            "deadlock: ",
        ),
        "over budget: two sums": (
            OF_PARTS + ADD + "more = sum(g.square().sum() for g in whole)\n"
            'dist.all_reduce(more, group=mesh.get_group("tensor"))\n'
            'return (square + more / mesh["tensor"].size()).sqrt()',
            "over budget: collective calls on each rank 6, limit 3",
        ),
    },
    "my_budget": {
        "state over data, too": (
            table("16 * psi / T / D + (whole + split / T) / D"),
            "Data parallelism does not cut the state",
        ),
        "swapped": (table("16 * psi / D + (whole + split / D) / T"), "D and T are swapped."),
        "whole is cut": (
            table("16 * psi / T + (whole + split) / D / T"),
            "What stays whole along the tensor axis is not divided by T.",
        ),
        "all samples": (table("16 * psi / T + whole + split / T"), "activations of its own samples alone"),
        "no state": (table("(whole + split / T) / D"), "The state is missing"),
        "no activations": (table("16 * psi / T"), "The activations are missing."),
        "only rank 0 right": (
            table(ROW + " + rank"),
            "in a world of 2, rank 1 is wrong",
        ),
        "over budget": (
            "dist.barrier()\n" + table(ROW),
            "over budget: collective calls on each rank 1, limit 0",
        ),
    },
}

RIGHT = {
    "my_sync_on_mesh": {
        "an average": FLAT
        + 'dist.all_reduce(flat, dist.ReduceOp.AVG, mesh.get_group("data"))\n'
        + "start = 0\nfor g in gradients:\n    g[:] = flat[start : start + g.numel()].view(g.shape)\n"
        "    start += g.numel()",
        "as vectors": """\
from torch.nn.utils import parameters_to_vector, vector_to_parameters
flat = parameters_to_vector(gradients) / dist.get_world_size(mesh.get_group("data"))
dist.all_reduce(flat, group=mesh["data"].get_group())
for g, mean in zip(gradients, flat.split([g.numel() for g in gradients])):
    g.view(-1).copy_(mean)""",
    },
    "my_placement_seconds": {
        "in one line": "return sum(m * (a := fast if n == inside else slow)[0] + s * a[1] "
        "for n, (m, s) in axes.items())",
        "outside first": """\
def cost(axis, link):
    return axes[axis][0] * link[0] + axes[axis][1] * link[1]
return cost(inside, fast) + sum(cost(axis, slow) for axis in axes if axis != inside)""",
    },
    "norm_on_mesh": {
        "the whole shared out": 'share = mesh["tensor"].size()\n'
        "square = sum(g.square().sum() for g in parts) + sum(g.square().sum() for g in whole) / share\n"
        + ADD
        + ROOT,
        "by norms": "square = torch.cat([g.flatten() for g in parts]).norm() ** 2\n"
        + ADD
        + "return torch.hypot(square.sqrt(), torch.cat([g.flatten() for g in whole]).norm())",
    },
    "my_budget": {
        "a loop": "table = []\nfor D, T in meshes:\n    state, inner = 16 * psi / T, split / (D * T)\n"
        "    table.append(state + whole / D + inner)\nreturn table",
        "a tensor": "D, T = torch.tensor(meshes, dtype=torch.float64).T\n"
        "return 16 * psi / T + whole / D + split / D / T",
    },
}
