"""A block that is split over ranks is the whole block, and equals torch's own tensor parallelism."""

import pytest

pytestmark = pytest.mark.timeout(180)

SETUP = """
import copy
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import Conv2d, LayerNorm, Linear
from labkit.algorithms import TensorParallel, kept_for_backward

class MLP(torch.nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.up, self.down = Linear(width, 4 * width), Linear(4 * width, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))

class Attention(torch.nn.Module):
    def __init__(self, width=24, heads=12):
        super().__init__()
        self.q, self.k, self.v, self.out = (Linear(width, width) for _ in range(4))
        self.head = width // heads

    def forward(self, x):
        split = ((-1, self.head),)
        q, k, v = (way(x).unflatten(-1, *split).transpose(-2, -3) for way in (self.q, self.k, self.v))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(-2, -3).flatten(-2))

class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Conv2d(3, 12, 3, padding=1), Conv2d(12, 5, 3)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))

torch.manual_seed(0)
BLOCKS = {
    "MLP": (MLP(), ["up"], "down", (5, 12)),
    "Attention": (Attention(), ["q", "k", "v"], "out", (2, 7, 24)),
    "Convolutions": (Convolutions(), ["first"], "second", (2, 3, 6, 6)),
}

def mine(whole, name, rows):
    # what of a whole parameter, or of its gradient, belongs to this rank
    layer, kind = name.split(".")
    if layer == rows:
        return whole if kind == "bias" else whole.tensor_split(world_size, 1)[rank]
    return whole.tensor_split(world_size)[rank]

def split_parameter(split, name, rows):
    return split.bias if name == f"{rows}.bias" else dict(split.part.named_parameters())[name]

def apart(split, whole, rows):
    errors = []
    for name, p in whole.named_parameters():
        ours = split_parameter(split, name, rows)
        errors.append((ours.flatten() - mine(p, name, rows).flatten()).abs().max())
        errors.append((ours.grad.flatten() - mine(p.grad, name, rows).flatten()).abs().max())
    return max(errors).item()
"""


def in_double(name: str) -> str:
    """A whole block, its split twin and an input, in float64."""
    return (
        SETUP
        + f"""
whole, columns, rows, shape = BLOCKS["{name}"]
whole = whole.double()
split, x = TensorParallel(whole, columns, rows), torch.randn(shape, dtype=torch.float64)
"""
    )


@pytest.mark.parametrize("name", ("MLP", "Attention", "Convolutions"))
@pytest.mark.parametrize("ranks", (1, 2, 3, 4))
def test_gradients_and_weights_after_steps_are_the_whole_blocks(labs, ask, ranks, name):
    statements = (
        in_double(name)
        + """
errors, trained = [], [torch.optim.SGD(model.parameters(), 0.1, 0.9) for model in (split, whole)]
for _ in range(3):
    found = []
    for model, sgd in zip((split, whole), trained):
        sgd.zero_grad()
        given = x.clone().requires_grad_()
        y = model(given)
        y.square().mean().backward()
        found.append((y.detach(), given.grad))
        sgd.step()
    errors += [(a - b).abs().max().item() for a, b in zip(*found)] + [apart(split, whole, rows)]
"""
    )
    assert max(map(max, ask(labs(ranks)[:], "errors", statements))) < 1e-12


@pytest.mark.parametrize("name", ("MLP", "Attention"))
@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_torchs_own_tensor_parallelism_is_the_same(labs, ask, ranks, name):
    statements = (
        in_double(name)
        + """
plan = dict.fromkeys(columns, ColwiseParallel()) | {rows: RowwiseParallel()}
theirs = parallelize_module(copy.deepcopy(whole), init_device_mesh("cpu", (world_size,)), plan)
a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
y, z = split(a), theirs(b)
errors = [(y - z).abs().max().item()]
for model, out in (split, y), (theirs, z):
    out.square().mean().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
errors.append((a.grad - b.grad).abs().max().item())
for name, p in theirs.named_parameters():
    ours = split_parameter(split, name, rows)
    for own, other in (ours, p), (ours.grad, p.grad):
        errors.append((own - other.to_local()).abs().max().item())
"""
    )
    assert max(map(max, ask(labs(ranks)[:], "errors", statements))) < 1e-12


@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_two_all_reduces_of_the_activations_for_each_block(labs, ranks):
    lab = labs(ranks)
    for name, count in (("MLP", 5 * 12), ("Attention", 2 * 7 * 24), ("Convolutions", None)):
        make = f"block, columns, rows, shape = BLOCKS['{name}']; split = TensorParallel(block, columns, rows)"
        lab[:].execute(SETUP + f"{make}; x = torch.randn(shape, requires_grad=True)", block=True)
        with lab.trace() as trace:
            lab[:].execute("split(x).sum().backward()", block=True)
        calls = [e for e in trace.events if e.verb != "compute"]
        assert [e.verb for e in calls] == ["all_reduce"] * 2 * ranks
        assert count is None or {e.bytes for e in calls} == {4 * count}


@pytest.mark.parametrize("ranks", (1, 2, 3, 4))
def test_memory_falls_as_predicted(labs, ask, ranks):
    """Parameters, gradients and kept activations of a rank, by the formula of lesson 16, to 10 %."""
    width, samples = 96, 50
    statements = (
        SETUP
        + f"""
split, x = TensorParallel(MLP({width}), ["up"], "down"), torch.randn({samples}, {width})
out, kept = kept_for_backward(split, lambda: split(x))
out.sum().backward()
held = kept + sum(p.nbytes + p.grad.nbytes for p in split.parameters())
"""
    )
    split, shared = 8 * width**2 + 4 * width, width
    predicted = 4 * (2 * (split / ranks + shared) + samples * (width + 4 * width / ranks))
    assert ask(labs(ranks)[:], "held", statements) == [pytest.approx(predicted, rel=0.1)] * ranks


def test_what_is_before_the_block_learns_wrong_without_the_backward_sum(labs, ask):
    """The silent mistake of lesson 16: the output is right, the gradient of the input a summand."""
    statements = (
        SETUP
        + """
from labkit.algorithms import SumOverRanks
whole, columns, rows, shape = BLOCKS["MLP"]
split, x = TensorParallel(whole, columns, rows), torch.randn(shape, requires_grad=True)
y = SumOverRanks.apply(split.part(x)) + split.bias
y.sum().backward()
same, part = torch.equal(y, split(x)), x.grad.clone()
dist.all_reduce(part)
b = x.detach().clone().requires_grad_()
split(b).sum().backward()
"""
    )
    told = ask(
        labs(3)[:],
        "[same, torch.allclose(part, b.grad, atol=1e-6), torch.allclose(x.grad, b.grad)]",
        statements,
    )
    assert told == [[True, True, False]] * 3
