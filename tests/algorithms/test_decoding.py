"""One token at a time, with a cache, gives what attention over the whole sequence gives."""

SETUP = """
from labkit.algorithms import decode_step

W = torch.randn(4, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(rank))
tokens = torch.randn(9, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(99))
keys = values = torch.empty(0, 3, dtype=torch.float64)
outs = []
for x in tokens:
    out, keys, values = decode_step(x, keys, values, W)
    outs.append(out)
q, k, v = tokens @ W[:3]
ahead = torch.full((9, 9), -torch.inf, dtype=torch.float64).triu(1)
whole = (q @ k.T / 3**0.5 + ahead).softmax(-1) @ v @ W[3].T
dist.all_reduce(whole)
error = (torch.stack(outs) - whole).norm() / whole.norm()
"""


def test_it_is_attention_that_looks_only_back(lab, ask):
    assert max(ask(lab[:], "error.item()", SETUP)) < 1e-12


def test_the_cache_has_every_token_once(lab, ask):
    assert ask(lab[:], "torch.equal(keys, k) and torch.equal(values, v)", SETUP) == [True] * len(lab)
