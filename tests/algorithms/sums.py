"""What is true of every all-reduce: it sums, and it costs what its lesson says."""


def check_sum(lab, name):
    """In place, on every rank, for several shapes and dtypes, against `dist.all_reduce`."""
    lab[:].execute(
        f"""
from labkit.algorithms import {name} as all_reduce
equal = []
for shape in ((), (1,), (5, 7), (0,)):
    for dtype in (torch.float32, torch.float64, torch.int64):
        x = (100 * torch.randn(shape)).to(dtype)
        expected, where = x.clone(), x.data_ptr()
        dist.all_reduce(expected)
        all_reduce(x)
        equal.append(torch.allclose(x, expected) and x.data_ptr() == where)
""",
        block=True,
    )
    assert lab[:]["equal"] == [[True] * 12] * len(lab)


def check_cost(lab, name, messages):
    """Each rank sends that many messages, each of the size of the tensor."""
    lab[:].execute(
        f"""
from labkit.algorithms import {name} as all_reduce
sent, send = [], dist.send
dist.send = lambda tensor, dst: (sent.append(tensor.nbytes), send(tensor, dst))
try:
    all_reduce(torch.ones(1000))
finally:
    dist.send = send
""",
        block=True,
    )
    assert lab[:]["sent"] == [[4000] * count for count in messages]
