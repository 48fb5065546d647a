"""Experts on ranks answer as experts in one process, in the order of the tokens."""

import pytest

pytestmark = pytest.mark.timeout(180)

SETUP = """
from labkit.algorithms import send_to_experts, within_capacity

torch.manual_seed(3)
experts = [torch.nn.Linear(6, 6).double() for _ in range(world_size)]
drawn = torch.Generator().manual_seed(rank)
x = torch.randn(10 + 3 * rank, 6, generator=drawn, dtype=torch.float64)
choice = torch.randint({experts}, (len(x),), generator=drawn)
"""


@pytest.mark.parametrize("ranks", (1, 2, 3, 4))
@pytest.mark.parametrize("chosen", ("all", "only the first"))
def test_each_token_gets_its_experts_answer(labs, ask, ranks, chosen):
    statements = (
        SETUP.format(experts=ranks if chosen == "all" else 1)
        + """
with torch.no_grad():
    ours = send_to_experts(x, choice, experts[rank])
    one = torch.stack([experts[e](token) for token, e in zip(x, choice.tolist())])
error = ((ours - one).norm() / one.norm()).item()
"""
    )
    assert max(ask(labs(ranks)[:], "error", statements)) < 1e-10


def test_the_first_ones_are_kept():
    torch = pytest.importorskip("torch")
    from labkit.algorithms import within_capacity

    choice = torch.tensor([1, 0, 1, 1, 2, 0, 1])
    assert within_capacity(choice, 4, 2).tolist() == [True, True, True, False, True, True, False]
    assert within_capacity(choice, 4, 0).tolist() == [False] * 7
    assert within_capacity(choice, 4, 4).all()
