"""What a learner of lesson 03 is told: for wrong answers, and for right ones in other styles."""

import pytest

from labkit.exercises.catalogue import exercise_named
from labkit.exercises.grade import grade

RIGHT = {
    "mean_in_one, the solution": exercise_named("mean_in_one").solution,
    "mean_in_one, the count in front": """
def mean_in_one(gradient, samples):
    packed = gradient.new_empty(len(gradient) + 1)
    packed[0], packed[1:] = samples, samples * gradient
    dist.all_reduce(packed, op=dist.ReduceOp.SUM)
    count, *_ = packed
    return packed[1:].div(count)
""",
    "mean_in_one, by gathering": """
def mean_in_one(gradient, samples):
    mine = torch.cat([gradient, torch.tensor([float(samples)])])
    every = [torch.empty_like(mine) for _ in range(world_size)]
    dist.all_gather(every, mine)
    return sum(e[:-1] * e[-1] for e in every) / sum(e[-1] for e in every)
""",
    "batch_statistics, the solution": exercise_named("batch_statistics").solution,
    "batch_statistics, in float64 and one row": """
def batch_statistics(x_r):
    x_r = x_r.double()
    n = x_r.shape[1]
    sums = torch.cat([x_r.sum(dim=0), x_r.pow(2).sum(dim=0), torch.tensor([len(x_r)])])
    dist.all_reduce(sums)
    sums /= sums[-1].item()
    return sums[:n].float(), (sums[n:-1] - sums[:n].square()).float()
""",
    "batch_statistics, by gathering objects": """
def batch_statistics(x_r):
    sums = torch.stack([torch.ones_like(x_r), x_r, x_r * x_r]).sum(1)
    every = [torch.empty_like(sums) for _ in range(dist.get_world_size())]
    dist.all_gather(every, sums)
    n, s, q = torch.stack(every).sum(0)
    return [s / n, q / n - (s / n) ** 2]
""",
}

WRONG = {
    "mean_in_one: plain mean": (
        "    g = gradient.clone(); dist.all_reduce(g); return g / world_size",
        "This is the plain mean.",
    ),
    "mean_in_one: not divided": (
        "    g = gradient * samples; dist.all_reduce(g); return g",
        "This is the sum over all samples. Divide it by their number.",
    ),
    "mean_in_one: divided by the ranks": (
        "    g = gradient * samples; dist.all_reduce(g); return g / world_size",
        "Divide by the number of samples of all ranks.",
    ),
    "mean_in_one: own": (
        "    return gradient * samples / samples",
        "nothing has come from the others",
    ),
    "mean_in_one: right on rank 0 alone": (
        "    packed = torch.cat([gradient * samples, torch.tensor([float(samples)])])\n"
        "    dist.reduce(packed, dst=0)\n"
        "    return packed[:-1] / packed[-1] if dist.get_rank() == 0 else gradient",
        "rank 1 is wrong",
    ),
    "mean_in_one: two calls": (
        "    total = torch.tensor(float(samples)); dist.all_reduce(total)\n"
        "    g = gradient * samples / total; dist.all_reduce(g); return g",
        "every rank is right, but over budget: collective calls on each rank 2, limit 1",
    ),
    "mean_in_one: one rank does not call": (
        "    packed = torch.cat([gradient * samples, torch.tensor([float(samples)])])\n"
        "    if dist.get_rank() > 0: dist.all_reduce(packed)\n"
        "    return packed[:-1] / packed[-1]",
        "deadlock: rank 0 finished the cell",
    ),
    "mean_in_one: nothing returned": (
        "    g = gradient * samples; dist.all_reduce(g)",
        "a function without `return` returns None",
    ),
    "batch_statistics: own": (
        "    return x_r.mean(0), x_r.var(0, unbiased=False)",
        "the statistics of the rank's own rows, as in plain batch normalisation",
    ),
    "batch_statistics: mean of each": (
        "    s = torch.stack([x_r.mean(0), x_r.var(0, unbiased=False)]); dist.all_reduce(s)\n"
        "    return s[0] / world_size, s[1] / world_size",
        "a mean of variances misses how far the ranks' means are apart",
    ),
    "batch_statistics: weighted mean of each": (
        "    s = torch.stack([x_r.mean(0), x_r.var(0, unbiased=False), torch.ones(x_r.shape[1])])\n"
        "    s *= len(x_r); dist.all_reduce(s); return s[0] / s[2], s[1] / s[2]",
        "The mean is right. A mean of variances",
    ),
    "batch_statistics: mean square": (
        "    s = torch.stack([x_r.sum(0), (x_r**2).sum(0), torch.full_like(x_r[0], len(x_r))])\n"
        "    dist.all_reduce(s); return s[0] / s[2], s[1] / s[2]",
        "Take the square of the mean from it.",
    ),
    "batch_statistics: minus one": (
        "    s = torch.stack([x_r.sum(0), (x_r**2).sum(0), torch.full_like(x_r[0], len(x_r))])\n"
        "    dist.all_reduce(s); m = s[0] / s[2]; return m, (s[1] - s[2] * m**2) / (s[2] - 1)",
        "divided by the number of rows minus one",
    ),
    "batch_statistics: two calls": (
        "    s = torch.stack([x_r.sum(0), torch.full_like(x_r[0], len(x_r))]); dist.all_reduce(s)\n"
        "    m = s[0] / s[1]; v = ((x_r - m) ** 2).sum(0); dist.all_reduce(v); return m, v / s[1]",
        "every rank is right, but over budget: collective calls on each rank 2, limit 1",
    ),
    "batch_statistics: the mean alone": (
        "    s = torch.stack([x_r.sum(0), torch.full_like(x_r[0], len(x_r))]); dist.all_reduce(s)\n"
        "    return s[0] / s[1]",
        "ranks 0-1 are wrong",
    ),
}


def verdict(lab, name, source):
    lab[:].execute(source, block=True)
    return grade(lab, exercise_named(name))


@pytest.mark.parametrize("style", RIGHT)
def test_right_in_any_style(labs, style):
    found = verdict(labs(4), style.split(",")[0], RIGHT[style])
    assert found.solved, found.text


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_answer_is_told_what_is_wrong(labs, mistake):
    name, (body, says) = mistake.split(":")[0], WRONG[mistake]
    head = exercise_named(name).stub.splitlines()[0]
    found = verdict(labs(4), name, f"{head}\n{body}\n")
    assert not found.solved and says in found.text, found.text


@pytest.mark.parametrize("name", ["mean_in_one", "batch_statistics"])
def test_the_stub_is_not_solved_yet(labs, name):
    assert "write" in verdict(labs(4), name, exercise_named(name).stub).text
