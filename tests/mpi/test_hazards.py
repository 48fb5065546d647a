"""A tensor that an operation writes may be looked at but not used; one that it reads may not be changed."""

import gc
import sys
import weakref

import pytest
import torch

from labkit.mpi.call import Call
from labkit.mpi.errors import HazardError
from labkit.mpi.hazards import temporaries
from labkit.mpi.hazards.watch import Watch, dropped
from labkit.mpi.record.position import Position


@pytest.fixture(autouse=True)
def nothing_dropped_before():
    dropped()


def watched(reads=(), writes=()):
    return Watch(Call("recv", "0", (1,), [*reads, *writes], tag=0), reads, writes)


USES = {
    "read": lambda x: x.sum(), "printed": str, "one number": lambda x: x[0, 0].item(),
    "a list": torch.Tensor.tolist, "an operand": lambda x: torch.ones(2, 3) + x,
    "written": lambda x: x.fill_(1), "in part": lambda x: x[0].add_(1), "set": lambda x: x.__setitem__(0, 1),
    "an array": torch.Tensor.numpy, "a layer": torch.nn.Linear(3, 1), "in a list": lambda x: torch.cat([x]),
    "a copy that looks like a view": lambda x: x.t().reshape(6), "truth": lambda x: bool(x[0, 0]),
    "out": lambda x: torch.neg(torch.ones(2, 3), out=x), "a loop": lambda x: [float(row.sum()) for row in x],
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_a_tensor_that_is_written_is_not_used_before_wait(use):
    x = torch.zeros(2, 3)
    watch = watched(writes=[x])
    with pytest.raises(
        HazardError, match=r"(?s)irecv\(float32\[2, 3\].*used before wait\(\), in .*test_hazards.py"
    ):
        USES[use](x)
    watch.end()
    USES[use](x)


def test_what_it_is_may_be_asked_and_views_be_made():
    x = torch.zeros(2, 3)
    watch = watched(writes=[x])
    assert x.shape == (2, 3) and x.numel() == 6 and x.dtype is torch.float32 and len(x) == 2 and x.is_cpu
    views = [x[0], x.view(-1), *x.chunk(2), x.T, x[:, 1:], *x]
    for view in views:
        with pytest.raises(HazardError):
            view.sum()
    watch.end()
    assert {type(view) for view in [x, *views]} == {torch.Tensor}
    assert sum(float(view.sum()) for view in views) == 0 and "flight" not in vars(x)


@pytest.mark.parametrize("size", [1, 8000, 10**6])
def test_a_change_of_what_is_read_is_found_wherever_it_is(size):
    for place in (0, size // 3, size - 1):
        x = torch.zeros(size)
        watch = watched(reads=[x])
        watch.check()
        x[place] = 1
        with pytest.raises(HazardError, match="changed before wait"):
            watch.check()
        watch.end()


def test_another_part_of_the_same_memory_may_be_written():
    whole = torch.zeros(40_000)
    watch = watched(reads=[whole[:20_000]])
    whole[20_000:] = 1
    watch.check()
    watch.end()


def test_a_watch_keeps_no_tensor_and_who_drops_it_is_told_once():
    x = torch.zeros(4)
    watch, alive = watched(writes=[x]), weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None
    del watch
    assert [call.verb for call in dropped()] == ["recv"]
    kept = watched(writes=[torch.zeros(4)])
    assert len(dropped()) == 1 and dropped() == []
    kept.end()
    assert dropped() == []


def test_parameters_are_left_alone():
    layer = torch.nn.Linear(2, 2)
    watch = watched(writes=[layer.weight])
    layer(torch.ones(2))
    watch.end()


def all_reduce(tensor):
    """A collective as the backend sees it; in no file, for what is in this one is the user's."""
    call = Call("all_reduce", "0", (0,), [tensor])
    call.where = Position(sys._getframe(1))
    temporaries.watch(call, [tensor])


all_reduce.__code__ = all_reduce.__code__.replace(co_filename="<string>")


LOST = {
    "a copy of a column": (lambda x: all_reduce(x[:, 0].contiguous()), "x[:, 0].contiguous()"),
    "a reshaped copy": (lambda x: all_reduce(x.t().reshape(-1)), "x.t().reshape(-1)"),
    "what a mask selects": (lambda x: all_reduce(x[x > 1]), "x[x > 1]"),
    "another dtype": (lambda x: all_reduce(x.to(torch.float64)), "x.to(torch.float64)"),
    "a clone": (lambda x: all_reduce(tensor=x.clone()), "x.clone()"),
    "a quotient": (lambda x: all_reduce(2 / x), "2 / x"),
    "a difference": (lambda x: all_reduce(-x), "-x"),
}


@pytest.mark.parametrize("name", LOST)
def test_a_result_that_nobody_keeps_is_reported_once_a_line(name):
    call, text = LOST[name]
    x = torch.ones(2, 3)
    for _ in range(3):
        call(x)
    assert [found for _, found in temporaries.lost()] == [text]
    assert temporaries.lost() == []


def named(x):
    y = x.clone()
    all_reduce(y)
    return y.sum()


def from_numpy(x):
    array = x.numpy().copy()
    y = torch.from_numpy(array)
    all_reduce(y[1:])
    return array


def with_its_gradient(x):
    y = x.clone().requires_grad_()
    z = y * 2
    all_reduce(z.detach())
    return z


def put_away(x):
    kept = []

    def put(y):
        kept.append(y)
        return y

    all_reduce(put(x.clone()))
    all_reduce(kept[-1].t())


KEPT = {
    "itself": lambda x: all_reduce(x), "a view": lambda x: all_reduce(x.view(-1)),
    "a row": lambda x: all_reduce(x[0]), "detached": lambda x: all_reduce(x.detach()),
    "already contiguous": lambda x: all_reduce(x.contiguous()), "transposed": lambda x: all_reduce(x.t()),
    "of that dtype already": lambda x: all_reduce(x.to(torch.float32)),
    "reshaped without a copy": lambda x: all_reduce(x.reshape(-1)), "its data": lambda x: all_reduce(x.data),
    "a copy with a name": named, "an array of NumPy's": from_numpy, "part of a graph": with_its_gradient,
    "in a list": put_away, "a barrier": lambda x: all_reduce(torch.zeros(1)),
    "a barrier on a device": lambda x: all_reduce(torch.ones(3).to("cpu")),
    "numbers that are no tensor's": lambda x: all_reduce(torch.tensor([len(x)])),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_a_result_that_somebody_keeps_or_nobody_wants_is_not_reported(name):
    KEPT[name](torch.ones(2, 3))
    assert temporaries.lost() == []
