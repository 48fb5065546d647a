"""Values go from ranks to the notebook and back, or one LabError says why not; the lab goes on."""

import dataclasses
import sys
import threading

import pytest
import torch
from ipyparallel.error import RemoteError

from labkit import LabError
from labkit.exercises.catalogue import exercise_named
from labkit.exercises.grade import grade

pytestmark = [pytest.mark.ranks, pytest.mark.timeout(120)]

DEFINED = """
import collections, dataclasses, enum, functools, sys, threading, typing, numpy
def helper(x): return x + base
base = 10
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1, bias=False)
        self.register_forward_hook(lambda module, given, out: helper(out))
    def forward(self, x): return self.layer(x)
class Number(float):
    unit = "m"
class Plain(torch.Tensor): pass
@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    def twice(self): return Point(2 * self.x)
class Base:
    made = []
class Derived(Base):
    __slots__ = ("a", "own")
    def __init__(self): self.a, self.own = 1, rank
Pair = collections.namedtuple("Pair", "a b")
class Named(typing.NamedTuple):
    a: int = 1
class Color(enum.Flag):
    RED, BLUE = 1, 2
class Holder:
    class Inner: pass
def made():
    class Local:
        word = "local"
    return Local()
class Raises:
    def __reduce__(self): raise RuntimeError("mine")
class Ends:
    def __reduce__(self): raise SystemExit(3)
class Unstated:
    def __getstate__(self): return {"a": 1}
    def __setstate__(self, state): raise RuntimeError("mine")
class Leaves:
    def __reduce__(self): return sys.exit, (3,)
class Mute(Exception):
    def __str__(self): raise RuntimeError
class RaisesMute:
    def __reduce__(self): raise Mute
circle = [numpy.arange(3)]; circle.append(circle)
deep = []
for _ in range(100_000): deep = [deep]
def counting():
    yield 1
"""
HOME = {  # an expression on the ranks, and what must be true of `it` in the notebook
    "Net()": lambda it: it(torch.ones(1, 2)).shape == (1, 1) and list(it.state_dict()) == ["layer.weight"],
    "Number(1.5)": lambda it: it == 1.5 and it.unit == "m",
    "torch.ones(2).as_subclass(Plain)": lambda it: type(it).__name__ == "Plain" and it.sum() == 2,
    "Point(3)": lambda it: dataclasses.asdict(it) == {"x": 3} and it.twice().x == 6,
    "[Point(3), {'a': [Point(4)]}]": lambda it: type(it[0]) is type(it[1]["a"][0]),
    "Derived()": lambda it: (it.a, it.made) == (1, []),
    "Pair(1, [Color.RED])": lambda it: it.a == 1 and it.b[0].name == "RED",
    "Named()": lambda it: it == (1,),
    "Color.RED | Color.BLUE": lambda it: it.value == 3,
    "Color": lambda it: [c.name for c in it] == ["RED", "BLUE"],
    "Holder.Inner()": lambda it: type(it).__name__ == "Inner",
    "made()": lambda it: it.word == "local",
    "lambda x: helper(x) + 1": lambda it: it(1) == 12,
    "functools.partial(helper, 1)": lambda it: it() == 11,
    "Point(3).twice": lambda it: it().x == 6,
    "{'model': Net(), 'points': {Point(1)}}": lambda it: len(it["points"]) == 1,
    "collections.defaultdict(lambda: 5)": lambda it: it["any"] == 5,
    "circle": lambda it: it[1] is it and it[0].tolist() == [0, 1, 2],
    "numpy.zeros(1000)": lambda it: it.sum() == 0 and it.flags.writeable,
    "torch.nn.Parameter(torch.ones(1))": lambda it: it.requires_grad,
    "memoryview(b'x')": lambda it: bytes(it) == b"x",
    "10 ** 5000": lambda it: it % 10 == 0,
}
NEVER = {  # an expression on the ranks, and what is found
    "threading.Lock()": "cannot pickle '_thread.lock' object",
    "counting()": "cannot pickle 'generator' object",
    "dist.group.WORLD": "cannot pickle 'MPIProcessGroup' object",
    "[{'lock': threading.RLock()}]": "cannot pickle '_thread.RLock' object",
    "open('/dev/null', 'wb')": "",
    "Raises()": "RuntimeError: mine",
    "Unstated()": "RuntimeError: mine",
    "RaisesMute()": "it cannot be pickled: Mute",
    "Ends()": "SystemExit: 3",
    "Leaves()": "SystemExit: 3",
    "deep": "recursion",
}


def of_a_cell(source):
    """A function that finds its names where it runs."""
    return eval(source, {"__name__": "__main__"})


@pytest.fixture(scope="module")
def two(labs):
    lab = labs(2)
    lab[:].execute(DEFINED, block=True)
    yield lab
    assert lab[:]["rank"] == [0, 1]


@pytest.fixture
def notebook():
    """Run something where a notebook's cells are run; what it defines is forgotten afterwards."""
    names = vars(sys.modules["__main__"])
    before = dict(names)
    yield lambda source: exec(source, names) or names
    names.clear()
    names.update(before)


@pytest.mark.parametrize("expression", HOME)
def test_values_of_classes_of_cells_come_home(two, expression):
    two[:].execute(f"x = {expression}", block=True)
    assert HOME[expression](two[0]["x"]) and all(map(HOME[expression], two[:]["x"]))
    assert HOME[expression](two[1].pull(["rank", "x"], block=True)[1])
    assert HOME[expression](two[1].apply_sync(of_a_cell("lambda: x")))
    assert two[:]["rank"] == [0, 1]


@pytest.mark.parametrize("expression", NEVER)
def test_what_cannot_come_home_is_told_in_one_sentence(two, expression):
    two[:].execute(f"x = {expression}", block=True)
    for ask in (
        lambda: two[0]["x"],
        lambda: two[:]["x"],
        lambda: two[:].map_sync(of_a_cell("lambda _: x"), [1, 2]),
    ):
        with pytest.raises(LabError) as caught:
            ask()
        assert NEVER[expression] in caught.value.found and "of rank 0 to the notebook" in caught.value.asked
        assert "state_dict()" in caught.value.fix
    assert two[:]["rank"] == [0, 1]


def test_what_only_one_rank_cannot_send_names_that_rank(two):
    two[:].execute("x = threading.Lock() if rank == 1 else 1", block=True)
    assert two[0]["x"] == 1
    with pytest.raises(LabError, match="a lock of rank 1"):
        two[:]["x"]


def test_classes_that_are_defined_on_both_sides_are_one_to_each(two, notebook):
    names = notebook("class Number(float): pass")
    two[:].execute("x = [Number(1.5)]", block=True)
    assert type(two[1]["x"][0]) is names["Number"]
    two[:]["y"] = [names["Number"](2.5)]
    assert two[:].apply_sync(of_a_cell("lambda: type(y[0]) is Number")) == [True, True]


def test_another_class_of_the_same_name_is_no_obstacle(two, notebook):
    notebook("import enum\nclass Color(enum.Enum): GREEN = 7\nclass Derived: __slots__ = ()")
    two[:].execute("x = Color.RED, Derived()", block=True)
    color, derived = two[0]["x"]
    assert (color.name, derived.a) == ("RED", 1)


def test_equal_classes_of_ranks_are_one(two):
    two[:].execute("x = Pair(1, 2), Number(1)", block=True)
    first, second = two[:]["x"]
    assert first == second and list(map(type, first)) == list(map(type, second))


GIVEN = """
import dataclasses, enum
def helper(): return "helped"
@dataclasses.dataclass
class Mine:
    a: int = 1
    def told(self): return self.a, rank, helper(), torch.ones(1).item()
class Kind(enum.Enum):
    ONE = 1
class Heavy(list): pass
"""


def test_values_of_a_notebooks_classes_reach_the_ranks(two, notebook):
    names = notebook(GIVEN)
    two[:]["x"] = names["Mine"](5)
    assert two[:].apply_sync(of_a_cell("lambda: x.told()")) == [(5, r, "helped", 1.0) for r in range(2)]
    two[:].push(
        {"Mine": names["Mine"], "kinds": [names["Kind"].ONE], "heavy": names["Heavy"]([1])}, block=True
    )
    assert two[:].apply_sync(of_a_cell("lambda: Mine(6).told()[0]")) == [6, 6]
    assert two[1].apply_sync(of_a_cell("lambda: (kinds[0].name, heavy[0])")) == ("ONE", 1)
    assert two[:].apply_sync(of_a_cell("lambda it: it.a"), names["Mine"]()) == [1, 1]
    assert two[:].map_sync(of_a_cell("lambda it: it.a"), [names["Mine"](n) for n in range(5)]) == list(
        range(5)
    )


@pytest.mark.parametrize("code", ["", "3", "'no'"])
def test_a_call_that_leaves_comes_back(two, code):
    with pytest.raises(RemoteError, match="SystemExit"):
        two[0].apply_sync(of_a_cell(f"lambda: __import__('sys').exit({code})"))
    assert two[:]["rank"] == [0, 1]


@pytest.mark.parametrize("way", ["set", "push", "apply", "closure", "map"])
def test_what_cannot_reach_the_ranks_is_told(two, notebook, way):
    lock = threading.Lock()
    ways = {
        "set": lambda: two[:].__setitem__("x", lock),
        "push": lambda: two[0].push({"x": [lock]}, block=True),
        "apply": lambda: two[:].apply_sync(lambda it: it, lock),
        "closure": lambda: two[:].apply_sync(lambda: lock),
        "map": lambda: two[:].map_sync(lambda it: it, [lock, lock]),
    }
    with pytest.raises(LabError, match="cannot pickle"):
        ways[way]()
    assert two[:]["rank"] == [0, 1]


def test_what_cannot_be_made_on_a_rank_is_told(two, notebook):
    names = notebook("class Odd:\n def __getstate__(self): return 1\n def __setstate__(self, state): 1 / 0")
    with pytest.raises(LabError, match="ZeroDivisionError"):
        two[:]["x"] = names["Odd"]()
    assert two[:]["rank"] == [0, 1]


RETURNED = {  # a right answer as something else: of which exercise, and whether it is right
    "torch.Tensor._make_subclass(Plain, result)": ("swap", True),
    "torch.Tensor._make_subclass(Refuses, result)": ("swap", True),
    "Number(result)": ("my_sum", True),
    "Liar(result)": ("my_sum", True),
    "enum.IntEnum('Sum', {'it': int(result)}).it": ("my_sum", True),
    "Item()": ("my_sum", False),
    "circle": ("my_sum", False),
    "deep": ("my_sum", False),
    "recursive(result)": ("my_sum", False),
    "chained(200)": ("my_sum", False),
    "threading.Lock()": ("my_sum", False),
    "(x for x in [result])": ("my_sum", False),
}
CLASSES = """
import enum, threading
class Plain(torch.Tensor): pass
class Refuses(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None): raise RuntimeError("mine")
class Number(int): pass
class Liar(int):
    def __int__(self): return 7
    def __reduce__(self): raise RuntimeError("mine")
class Item:
    def item(self): raise RuntimeError("mine")
circle = []; circle.append(circle)
deep = []
for _ in range(900): deep = [deep]
def recursive(x): return [recursive(x)]
def chained(n):
    try: chained(n - 1) if n else 1 / 0
    except Exception as error: raise ValueError("x" * 900) from error
"""


@pytest.mark.parametrize("returned", RETURNED)
def test_a_check_takes_what_a_learners_class_has(labs, ask, returned):
    lab, (name, right) = labs(2), RETURNED[returned]
    other = f"solved = {name}\ndef {name}(*args):\n    result = solved(*args)\n    return {returned}"
    lab[:].execute(f"{CLASSES}\n{exercise_named(name).solution}\n{other}", block=True)
    told = grade(lab, exercise_named(name), seed=1).text
    assert ("right in a world of 2" if right else "in a world of 2, rank") in told and len(told) < 3_000
    assert ask(lab[:], f"{name}.__name__") == [name, name], "nothing that was defined is lost"
