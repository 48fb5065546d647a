"""A network cut by layers is the whole one: gradients, after a step, bytes; and its memory is cut, too."""

import pytest
import torch

SETUP = """
import copy
from labkit.algorithms import backward_through, forward_through, kept_for_backward, layers_of

def network(width, dtype=torch.float64, layers=5):
    torch.manual_seed(0)
    linear = torch.nn.Linear
    return [torch.nn.Sequential(linear(width, width, dtype=dtype), torch.nn.Tanh()) for _ in range(layers)]

def batch(samples, width, dtype=torch.float64):
    made = torch.Generator().manual_seed(1)
    return (torch.randn(samples, width, dtype=dtype, generator=made) for _ in range(2))

def step(stage, x, y, ranks):
    x, out = forward_through(stage, x, ranks)
    backward_through(x, (out - y).square().mean() if rank == ranks - 1 else out, ranks)
    return x

def apart(layers, whole):
    ours, theirs = (layers_of(rank, part, world_size).parameters() for part in (layers, whole))
    pairs = [pair for a, b in zip(ours, theirs) for pair in ((a, b), (a.grad, b.grad))]
    return max((ours - theirs).abs().max().item() for ours, theirs in pairs)
"""


def test_gradients_and_weights_after_a_step_are_the_whole_networks(lab, ask):
    """Each rank computes the whole network, too, and compares its part; three steps with momentum."""
    statements = (
        SETUP
        + """
layers, errors = network(6), []
whole = copy.deepcopy(layers)
x, y = batch(7, 6)
stage = layers_of(rank, layers, world_size)
ours, theirs = (torch.optim.Adam(part.parameters(), 0.1) for part in (stage, torch.nn.Sequential(*whole)))
for _ in range(3):
    ours.zero_grad(); theirs.zero_grad()
    mine = x if rank == 0 else torch.full_like(x, torch.nan)
    back = step(stage, mine, y, world_size)
    alone = x.clone().requires_grad_()
    (torch.nn.Sequential(*whole)(alone) - y).square().mean().backward()
    ours.step(); theirs.step()
    errors.append(apart(layers, whole))
"""
    )
    assert max(map(max, ask(lab[:], "errors", statements))) < 1e-12


@pytest.mark.parametrize("ranks", (1, 2, 3, 4, 5, 7))
def test_every_layer_is_in_one_stage_and_stages_differ_by_one_layer(ranks):
    from labkit.algorithms import layers_of

    layers = [torch.nn.Linear(1, 1) for _ in range(7)]
    stages = [list(layers_of(rank, layers, ranks)) for rank in range(ranks)]
    assert [layer for stage in stages for layer in stage] == layers
    assert {len(stage) for stage in stages} <= {7 // ranks, 7 // ranks + 1}


@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_each_boundary_is_crossed_twice_by_the_activations_of_the_batch(labs, ranks):
    lab = labs(ranks)
    lab[:].execute(SETUP + "x, y = batch(7, 6); stage = layers_of(rank, network(6), world_size)", block=True)
    with lab.trace() as trace:
        lab[:].execute("step(stage, x, y, world_size)", block=True)
    assert sum(trace.bytes_sent) == 2 * (ranks - 1) * 7 * 6 * 8
    assert trace.steps == len(trace.messages) == 2 * (ranks - 1), (
        "one after the other: nothing is in parallel"
    )


def test_memory_falls_as_predicted(lab, ask):
    """Parameters, gradients and kept activations of a rank, by the formula of lesson 15, to 10 %."""
    width, samples = 256, 300
    statements = (
        SETUP
        + f"""
x, y = batch({samples}, {width}, torch.float32)
stage = layers_of(rank, network({width}, torch.float32), world_size)
(x, out), kept = kept_for_backward(stage, lambda: forward_through(stage, x, world_size))
backward_through(x, out.square().mean() if rank == world_size - 1 else out, world_size)
held = kept + sum(p.nbytes + p.grad.nbytes for p in stage.parameters())
"""
    )
    held, layers = ask(lab[:], "held", statements), ask(lab[:], "len(stage)")
    for measured, n in zip(held, layers, strict=True):
        predicted = 4 * (samples * width * (n + 1) + 2 * n * (width**2 + width))
        assert measured == pytest.approx(predicted, rel=0.1)
    assert sum(layers) == 5


def test_what_is_kept_is_what_stays_in_memory(labs, ask):
    """Hooks see what autograd keeps; a dispatch mode sees every tensor that is made, and when it goes."""
    statements = (
        SETUP
        + """
from labkit.algorithms.memory import Memory
x, y = batch(300, 256, torch.float32)
stage = layers_of(0, network(256, torch.float32), 1)
with Memory([x, *stage.parameters()]) as memory:
    (_, out), kept = kept_for_backward(stage, lambda: forward_through(stage, x, 1))
    alive = memory.now
"""
    )
    assert ask(labs(1)[:], "[alive, kept - x.nbytes]", statements) == [[5 * 300 * 256 * 4] * 2]
