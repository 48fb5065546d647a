"""What a cell defined is there in the processes that it starts, or one error says why not."""

import pytest
from IPython.utils.capture import capture_output

from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from tests.conftest import in_tiers

pytestmark = pytest.mark.ranks

DEFINED = """
import dataclasses, multiprocessing as mp, threading
from concurrent.futures import ProcessPoolExecutor
base = 10
lock = threading.Lock()
def helper(x): return base + x
def square(x): return helper(x * x)
def locked(x):
    with lock: return x
@dataclasses.dataclass
class Point:
    x: int
def point(x): return Point(x)
def put(queue, x): queue.put(point(x))
def begin():
    global state
    state = 5
def work(x): return state + x
def fails(): raise RuntimeError("mine")
class Odd:
    def __getstate__(self): return 1
    def __setstate__(self, state): raise RuntimeError("mine")
class Data(torch.utils.data.Dataset):
    def __len__(self): return 2
    def __getitem__(self, i): return torch.tensor([i + base])
def loaded(context):
    loader = torch.utils.data.DataLoader
    return [b.item() for b in loader(Data(), num_workers=1, multiprocessing_context=context)]
"""
POOL = "with mp.get_context('{}').Pool(2{}) as p: print({})"
EXECUTOR = "with ProcessPoolExecutor(2, mp_context=mp.get_context('{}'){}) as p: print({})"
CELLS = {  # a cell, and what it tells
    POOL.format("spawn", "", "p.map(square, [1, 2])"): "[11, 14]",
    POOL.format("spawn", "", "p.map(lambda x: helper(x), [1, 2])"): "[11, 12]",
    POOL.format("forkserver", ", begin", "list(p.imap(work, [1, 2]))"): "[6, 7]",
    POOL.format("fork", "", "p.map(locked, [1, 2])"): "[1, 2]",
    POOL.format("spawn", "", "[x == Point(1) for x in p.map(point, [1, 2])]"): "[True, False]",
    EXECUTOR.format("spawn", ", initializer=begin", "list(p.map(work, [1, 2]))"): "[6, 7]",
    "print(loaded('spawn'), loaded('fork'))": "[10, 11] [10, 11]",
    "q = mp.get_context('spawn').Queue()\nc = mp.get_context('spawn').Process(target=put, args=(q, 3))\n"
    "c.start(); print(q.get(timeout=60)); c.join()": "Point(x=3)",
    POOL.format("spawn", "", "p.map(locked, [1, 2])"): "cannot pickle '_thread.lock' object",
    POOL.format("spawn", ", fails", "p.map(square, [1, 2])"): "workers have died one after the other",
    POOL.format("fork", ", fails", "p.apply(square, (1,))"): "workers have died one after the other",
    POOL.format(
        "spawn", "", "p.map(print, [Odd() for _ in range(40)], 1)"
    ): "workers have died one after the other",
}


@pytest.fixture(scope="module")
def two(labs):
    lab = labs(2)
    lab[:].execute(DEFINED, block=True)
    return lab


@pytest.mark.parametrize("cell", in_tiers(CELLS, 5, 8))
def test_definitions_of_cells_are_there_in_children(two, shell, cell):
    pids = [r.pid for r in two.ranks]
    with capture_output() as captured:
        try:
            PxMagics(shell, two).cell_px("--deadline 120", cell)
            told = "".join(output.data["text/plain"] for output in captured.outputs)
        except CellError as error:
            told = str(error)
    assert CELLS[cell] in told and len(told) < 10_000
    assert two[:]["base"] == [10, 10] and [r.pid for r in two.ranks] == pids
