"""The user's line is found whichever way a call takes, and again when the same line calls another way."""

import gc
import os
import weakref
from itertools import permutations

import pytest
import torch

from labkit.mpi.record import position

from . import launcher


def functions(file, text, **known):
    """Of a source that has the name of a file of torch's, or of this package's."""
    exec(compile(text, file, "exec"), known)
    return known


machinery = functions(
    os.path.join(os.path.dirname(position.__file__), "of_a_test.py"),
    "def own(): return look('own', 'verb', 'wrapper')",
    look=position.position_above,
)
own = machinery["own"]
torchs = functions(
    os.path.join(os.path.dirname(torch.__file__), "of_a_test.py"),
    """
def isend(): return own()
def verb(): return own()
def wrapper(): return verb()
def far(): return wrapper()
""",
    own=own,
)


def helper():
    return torchs["wrapper"]()  # the helper's line


def by_itself():
    return own()  # a line that needs no torch


WAYS = {
    "torch's function": (torchs["wrapper"], "any way"),
    "one frame of torch": (torchs["isend"], "any way"),
    "torch calls itself": (torchs["far"], "any way"),
    "no torch": (own, "any way"),
    "a helper": (helper, "the helper's line"),
    "a helper, no torch": (by_itself, "a line that needs no torch"),
}


def call(way):
    return way()  # any way


def line_of(found):
    file, number = found.place
    assert file == __file__
    with open(file) as source:
        return source.readlines()[number - 1].partition("  # ")[2].strip()


@pytest.mark.parametrize("ways", list(permutations(WAYS, 2)), ids=" then ".join)
def test_one_line_may_call_one_way_and_then_another(ways):
    for way in (*ways, *ways):
        function, comment = WAYS[way]
        assert line_of(call(function)) == comment


def test_a_line_that_called_torch_before_is_known_at_one_look(monkeypatch):
    first = call(torchs["wrapper"])
    monkeypatch.setattr(position, "_user_frame", None)  # whoever looks at every frame fails
    assert call(torchs["wrapper"]) is first


def test_with_nothing_of_python_far_enough_beneath_it_is_found_all_the_same():
    assert line_of(position.position_above(*["deeper"] * 10_000)) == "here"  # here


def test_of_cells_that_ran_again_and_again_so_many_are_kept_and_no_more(monkeypatch):
    monkeypatch.setattr(position, "_REMEMBERED", 3)
    monkeypatch.setattr(position, "_positions", {})
    monkeypatch.setattr(position, "_direct", {})
    codes = []
    for cell in range(10):
        run = functions(f"<cell {cell}>", "def run(way): return way()")["run"]
        assert run(torchs["wrapper"]).place == (f"<cell {cell}>", 1)
        codes.append(weakref.ref(run.__code__))
    del run
    gc.collect()
    assert sum(code() is not None for code in codes) <= 3


BUILT_FOR_CUDA = """
import torch
torch.backends.cuda.is_built = lambda: True
import labkit.mpi
import torch.distributed as dist
from labkit.mpi.record import position, record
labkit.mpi.init()
record.start()
for turn in range(2):
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    position._user_frame = None
places = [call.place for call in record.records]
record.records = None
dist.destroy_process_group()
print(places)
"""


def test_a_torch_that_is_built_for_cuda_has_a_frame_more_for_verbs_that_take_tensors(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(BUILT_FOR_CUDA)
    finished = launcher.run(1, [str(script)], tmp_path / "output.txt", 60)
    assert str([(str(script), 10), (str(script), 11)] * 2) in finished.output, finished.output
