"""The runner on real ranks: computing, buffers with names, and what it refuses; sums: tests/algorithms."""

import pytest

PIPELINE = """
import time
from labkit import LabError
from labkit.schedule import Compute, Recv, Schedule, Send, run

two_stages = Schedule(
    [
        [Compute("double", produces=("a",)), Send(1, "a")],
        [Recv(0, "a"), Compute("add one", reads=("a",), produces=("b",), frees=("a",))],
    ],
    chunks=0,
)
"""


def test_a_pipeline_of_two_stages(labs):
    lab = labs(2)
    lab[:].execute(
        PIPELINE
        + """
def compute(operation, memory):
    if operation.label == "double":
        memory["a"] = 2 * x
    else:
        memory["b"] = memory["a"] + 1

x = torch.arange(3.0)
left = {name: tensor.tolist() for name, tensor in run(two_stages, x, compute=compute).items()}
""",
        block=True,
    )
    assert lab[:]["left"] == [{"a": [0, 2, 4]}, {"b": [1, 3, 5]}]


def test_a_compute_takes_its_planned_time(labs):
    lab = labs(2)
    lab[:].execute(
        """
from labkit.schedule import compute, run
began = time.perf_counter()
run(compute(2, "sleep", 0.2), torch.zeros(1))
took = time.perf_counter() - began
""".replace("began", "import time\nbegan", 1),
        block=True,
    )
    assert all(0.2 <= took for took in lab[:]["took"])


@pytest.mark.parametrize(
    "call, found",
    [
        ("run(two_stages, torch.zeros(1))", "a group of 3 ranks"),
        ("run(two_stages + two_stages, torch.zeros(1))", "a group of 3 ranks"),
        ("run(Schedule([[], [], []]), torch.zeros(4, 4).T)", "not contiguous"),
    ],
)
def test_refusals_leave_the_ranks_usable(labs, ask, call, found):
    lab = labs(3)
    said = ask(
        lab[:], "said", f"{PIPELINE}\ntry:\n    {call}\nexcept LabError as error:\n    said = error.found"
    )
    assert all(found in one for one in said)
    assert ask(lab[:], "int(x)", "x = torch.ones(1)\ndist.all_reduce(x)") == [3, 3, 3]
