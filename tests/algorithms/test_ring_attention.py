"""Ring attention is attention, whatever the number of ranks, and holds one block of scores."""

import pytest

pytestmark = pytest.mark.timeout(180)

SETUP = """
from labkit.algorithms import attend, merge, ring_attention

drawn = torch.Generator().manual_seed(1)
Q, K, V = torch.randn(3, 2, 24, 8, generator=drawn, dtype=torch.float64)
"""


def test_parts_merge_to_the_whole_in_any_order_and_size(labs, ask):
    statements = (
        SETUP
        + """
Q = 30 * Q  # sums of weights that differ by many powers of ten
out, log = torch.zeros_like(Q), Q.new_full(Q.shape[:-1], -torch.inf)  # of no keys
for keys in torch.randperm(24, generator=drawn).split([1, 13, 3, 7]):
    out, log = merge(out, log, *attend(Q, K[:, keys], V[:, keys]))
whole, total = attend(Q, K, V)
error = max(((out - whole).norm() / whole.norm()).item(), (log - total).abs().max().item())
"""
    )
    assert max(ask(labs(2)[:], "error", statements)) < 1e-12


@pytest.mark.parametrize("ranks", (1, 2, 3, 4))
def test_it_is_attention_in_one_process(labs, ask, ranks):
    statements = (
        SETUP
        + """
q, k, v = (x.chunk(world_size, 1)[rank].contiguous() for x in (Q, K, V))
whole = torch.nn.functional.scaled_dot_product_attention(Q, K, V)
error = ((ring_attention(q, k, v) - whole.chunk(world_size, 1)[rank]).norm() / whole.norm()).item()
"""
    )
    assert max(ask(labs(ranks)[:], "error", statements)) < 1e-12


@pytest.mark.parametrize("ranks", (2, 3, 4))
def test_each_rank_sends_all_blocks_but_one(labs, ranks):
    lab = labs(ranks)
    lab[:].execute(SETUP + "part = Q[:, : 24 // world_size].contiguous()", block=True)
    with lab.trace() as trace:
        lab[:].execute("ring_attention(part, part, part)", block=True)
    assert trace.bytes_sent == ((ranks - 1) * 2 * 2 * 24 // ranks * 8 * 8,) * ranks
