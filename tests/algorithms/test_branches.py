"""Branches on ranks of their own are the whole block: its output and all gradients, at 2, 3 and 4 ranks."""

import pytest

SETUP = """
import copy
from labkit.algorithms import backward_branches, forward_branches

torch.manual_seed(0)
channels = [3, 5, 2, 4][:world_size]
paths = [torch.nn.Sequential(torch.nn.Conv2d(6, c, 1 + 2 * (c % 2), padding=c % 2), torch.nn.Tanh()).double()
         for c in channels]
x, grad = (torch.randn(2, c, 5, 5, dtype=torch.float64) for c in (6, sum(channels)))
whole, x_whole = copy.deepcopy(paths), x.clone().requires_grad_()
y = torch.cat([path(x_whole) for path in whole], 1)
y.backward(grad)
if rank:
    x, grad = torch.full_like(x, torch.nan), None
"""


@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_output_gradients_and_a_step_equal_the_whole_block(labs, ask, ranks):
    statements = (
        SETUP
        + """
part, out = forward_branches(paths[rank], x, channels)
backward_branches(x, part, grad, channels)
pairs = list(zip(paths[rank].parameters(), whole[rank].parameters()))
errors = [(a.grad - b.grad).abs().max() for a, b in pairs]
for blocks in (paths[rank], whole[rank]):
    torch.optim.SGD(blocks.parameters(), 0.1).step()
errors += [(a - b).abs().max() for a, b in pairs]
errors += [(x.grad - x_whole.grad).abs().max(), (part - y.split(channels, 1)[rank]).abs().max()]
errors += [(out - y).abs().max()] if rank == 0 else []
"""
    )
    assert max(ask(labs(ranks)[:], "max(errors).item()", statements)) < 1e-12


def test_a_group_of_some_ranks(labs, ask):
    statements = (
        SETUP.replace("[:world_size]", "[:2]").replace("whole[rank]", "whole[0]")
        + """
group = dist.new_group([0, 1])
if rank < 2:
    part, out = forward_branches(paths[rank], x, channels, group)
    backward_branches(x, part, grad, channels, group)
near = rank > 1 or torch.allclose(x.grad, x_whole.grad, atol=1e-12)
"""
    )
    assert ask(labs(3)[:], "near", statements) == [True] * 3
