"""lab.compare: equal means equal in every bit on every rank, and a difference is found wherever it is."""

import pytest

from labkit import LabError
from labkit.lab import compare as comparing
from tests.waiting import WITHIN, lasting

MODEL = "torch.manual_seed(0); model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))"


@pytest.fixture(params=[2, 3, 4], ids=lambda n: f"{n}ranks")
def world(request, labs):
    return labs(request.param)


@pytest.fixture
def define(world):
    return lambda code: world[:].execute(code, block=True)


def test_replicas_are_equal_and_one_changed_bias_is_found(world, define):
    define(MODEL)
    assert world.compare("model").equal and world.compare("model").difference == 0.0
    define("if rank == 1:\n    with torch.no_grad(): model[1].bias[0] += 0.25")
    found = world.compare("model")
    assert not found.equal and not found, "an assert on the comparison itself fails as well"
    assert [part.name for part in found.parts if not part.equal] == ["1.bias"]
    assert found.difference == pytest.approx(0.25, abs=1e-6)
    (_, others), (_, (odd,)) = found.parts[-1].groups()
    assert odd == 1 and others == [r for r in range(len(world)) if r != 1]


def test_the_largest_difference_is_between_any_two_ranks_and_in_any_piece(world, define, monkeypatch):
    monkeypatch.setattr(comparing, "PIECE", 7)  # elements: so that small tensors have several
    define("x = torch.zeros(5, 5); x[4, 3] = -rank; x[0, 1] = 0.5 * rank")
    assert world.compare("x").difference == len(world) - 1


@pytest.mark.parametrize(
    "code, difference",
    [
        ("x = rank", "all"),
        ("x = torch.tensor(rank, dtype=torch.bfloat16)", "all"),
        ("x = torch.full((2,), 1 + rank * 1j)", "all"),
        ("x = torch.ones(2, dtype=torch.float64 if rank else torch.float32)", 0.0),
        ("x = torch.tensor([float('inf'), float(rank)])", "all"),
        ("x = torch.tensor([float('nan'), float(rank)])", "all"),
        ("x = torch.zeros(2 + rank)", None),
        ("x = 'text' if rank else 1", None),
        ("x = [1] if rank else [1, 2]", None),
        ("x = torch.zeros(0, dtype=torch.float64 if rank else torch.float32)", 0.0),
    ],
)
def test_every_kind_of_difference(world, define, code, difference):
    define(code)
    found = world.compare("x")
    assert not found.equal
    assert found.difference == (len(world) - 1 if difference == "all" else difference)
    assert "≠" in repr(found) and "<b>" in found._repr_html_()


def test_the_text_is_in_rank_order_and_says_where(labs):
    lab = labs(4)
    lab[:].execute("x = {'w': torch.ones(2, 2), 'step': 3 if rank != 2 else 4}", block=True)
    assert repr(lab.compare("x")).splitlines() == [
        "≠ x differs between ranks in 1 of 2 parts; the largest difference is 1",
        "   name  rank    dtype    shape   norm or value  largest difference",
        "   w     0-3     float32  (2, 2)  2",
        "≠  step  0-1, 3  int              3              1",
        "≠        2       int              4",
    ]


def test_missing_is_told(world, define):
    define("if rank: y = 1.5")
    found = world.compare("y")
    assert found.parts[0].digests[0] is None and not found.equal
    assert "missing" in repr(found)
    with pytest.raises(LabError, match="no rank has it"):
        world.compare("nobody_defined_this")


def test_names_reach_into_things(world, define):
    define(MODEL + "\nloss = {'train': [1.0, 0.5 + rank]}\nmodel(torch.ones(3)).sum().backward()")
    assert world.compare("model[0].weight.grad").equal
    assert world.compare("loss['train'][-1]").difference == len(world) - 1
    assert world.compare("model[0].weight[:2, 0]").equal


def test_optimisers_are_compared_with_their_state(world, define):
    define(MODEL + "\nopt = torch.optim.Adam(model.parameters(), lr=0.1 if rank else 0.2)")
    assert [p.name for p in world.compare("opt").parts if not p.equal] == ["param_groups[0].lr"]


@pytest.mark.parametrize("name", ["print('x')", "x = 1", "1 +", "dist.barrier()", "\0", 3, len])
def test_only_names(world, name):
    with pytest.raises(LabError, match="this is no name"):
        world.compare(name)


def test_what_cannot_be_compared_is_refused_by_its_type(world, define):
    define("f = {'a': lambda: 0}")
    with pytest.raises(LabError, match="a in it is of type function"):
        world.compare("f")


def test_nothing_is_sent_through_the_process_group(world, define):
    """So that collectives keep their numbers, and it works when the group is gone."""
    define("kept = dist.group.WORLD; x = torch.full((3,), float(rank))")
    define("import torch.distributed.distributed_c10d as c10d\nc10d.GroupMember.WORLD = None")
    try:
        assert world.compare("x").difference == len(world) - 1
    finally:
        define("c10d.GroupMember.WORLD = kept")


def test_busy_ranks_are_an_error_and_the_lab_stays_usable(world, define, monkeypatch, tmp_path):
    end = tmp_path / "end"
    monkeypatch.setattr(comparing, "DEADLINE", 0.2)
    define("x = 1")
    running = world[:].execute(lasting(end), block=False)
    with pytest.raises(LabError, match="did not answer"):
        world.compare("x")
    end.touch()
    running.get(WITHIN)
    monkeypatch.setattr(comparing, "DEADLINE", WITHIN)
    assert world.compare("x").equal
