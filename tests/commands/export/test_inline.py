"""What labkit defines can be put into a script as source, with what it needs."""

import inspect
import subprocess
import sys

import pytest

from labkit import LabError, algorithms
from labkit.commands.export.inline import inlined
from labkit.schedule import Rounds, Schedule
from labkit.trace import Trace

LABKITS_OWN = Schedule, Rounds, Trace
"""Who makes or takes one of these needs labkit's runner or recorder, which a script does not have."""


def is_plain(function):
    """Whether a script can have it."""
    signature = inspect.signature(function)
    types = [signature.return_annotation, *(p.annotation for p in signature.parameters.values())]
    return not any(type in LABKITS_OWN for type in types)


TAUGHT = [name for name in algorithms.__all__ if is_plain(getattr(algorithms, name))]


@pytest.mark.parametrize("name", TAUGHT)
def test_every_algorithm_of_a_lesson_defines_itself(name):
    source = inlined(f"from labkit.algorithms import {name}")
    found = {}
    exec("import torch\nimport torch.distributed as dist\n" + source, found)
    assert callable(found[name]) and "labkit" not in source


@pytest.mark.slow
def test_the_source_computes_what_the_package_does(tmp_path):
    """In a process that cannot import labkit."""
    code = (
        "import torch\n"
        + inlined("from labkit.algorithms.data import digits as d")
        + "\nprint([t.sum().item() for t in d()])"
    )
    from labkit.algorithms.data import digits

    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str([t.sum().item() for t in digits()]), done.stderr


def test_only_what_is_needed_comes_along():
    source = inlined("from labkit.algorithms import gradient")
    assert "def gradient" in source and "def distance" not in source
    assert "import cross_entropy" in source and "import torch.distributed" not in source


def test_a_name_that_two_others_need_comes_once():
    source = inlined("from labkit.algorithms import all_reduce_reduce_broadcast, reduce_to")
    assert source.count("def reduce_to(") == 1


def test_lines_around_an_import_stay_in_place():
    source = inlined("a = 1\nif a:\n    from labkit.algorithms import shard\nb = 2")
    found = {}
    exec(source, found)
    assert found["shard"]([1, 2, 3], 0, 2) == [1, 3] and found["b"] == 2


def test_source_without_labkit_is_unchanged():
    assert inlined("import torch\nx = 1  # é") == "import torch\nx = 1  # é"


@pytest.mark.parametrize(
    "source",
    [
        "import labkit",
        "import labkit.algorithms.data as d",
        "from labkit.algorithms.data import no_such",
        "from labkit.nowhere import x",
    ],
)
def test_what_has_no_source_is_refused(source):
    with pytest.raises(LabError, match="fix:   import them by name"):
        inlined(source)
