"""Each stage trains what one process trains, and keeps what its formula says."""

import pytest

pytestmark = pytest.mark.timeout(180)

SETUP = """
from labkit.algorithms import Sharded, gathered, sharded_backward, sharded_step

LAYERS, d = 3, 24

def matrices(dtype=torch.float64):
    drawn = torch.randn(LAYERS, d, d, generator=torch.Generator().manual_seed(0))
    return [(m / d**0.5).to(dtype) for m in drawn]

def loss_of(x, weights, product):
    for weight in weights:
        x = torch.tanh(product(x, weight))
    return x.square().mean()

def whole_product(x, whole):
    return x @ whole.T

def start():
    masters = [w.chunk(world_size)[rank].clone().requires_grad_() for w in matrices()]
    return masters, [torch.optim.Adam([m], lr=0.01) for m in masters]

samples = torch.randn(24, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
x, one = samples[rank::world_size], [w.requires_grad_() for w in matrices()]
adam = torch.optim.Adam(one, lr=0.01)
for _ in range(4):
    adam.zero_grad()
    loss_of(samples, one, whole_product).backward()
    adam.step()

def off(weights):
    return ((torch.cat(list(weights)) - torch.cat(one)).norm() / torch.cat(one).norm()).item()
"""
STAGES = {
    1: """
wholes, (masters, adams) = [w.requires_grad_() for w in matrices()], start()
for _ in range(4):
    loss_of(x, wholes, whole_product).backward()
    for whole, master, adam in zip(wholes, masters, adams):
        sharded_step(whole, master, adam)
        whole.grad = None
found = max(off(wholes), off(gathered(m) for m in masters))
""",
    2: """
wholes, (masters, adams) = [w.requires_grad_() for w in matrices()], start()
for _ in range(4):
    parts = sharded_backward(loss_of(x, wholes, whole_product), wholes)
    assert all(whole.grad is None for whole in wholes)
    for whole, master, adam, part in zip(wholes, masters, adams, parts):
        master.grad = part
        adam.step()
        whole.data.copy_(gathered(master))
found = off(wholes)
""",
    3: """
masters, adams = start()
for _ in range(4):
    loss_of(x, masters, Sharded.apply).backward()
    for master, adam in zip(masters, adams):
        adam.step()
        master.grad = None
found = off(gathered(m) for m in masters)
""",
}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_stage_is_one_process(labs, ask, size):
    every = "".join(f"{code}errors.append(found)\n" for code in STAGES.values())
    statements = f"{SETUP}errors = [off(matrices())]\n{every}"
    for before, *errors in ask(labs(size)[:], "errors", statements):
        assert before > 1e-3 and max(errors) < 1e-10
