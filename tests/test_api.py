"""The public API is what `__all__` says, and fits on one screen."""

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import labkit

PUBLIC = ("labkit", "labkit.algorithms", "labkit.figures", "labkit.mpi", "labkit.schedule", "labkit.simulate")


def functions(module):
    """The functions and methods that a module offers, by name."""
    for name in import_module(module).__all__:
        offered = getattr(import_module(module), name)
        if inspect.isfunction(offered):
            yield name, offered
        elif inspect.isclass(offered):
            methods = inspect.getmembers(offered, inspect.isfunction)
            own = [(n, m) for n, m in methods if m.__module__.startswith("labkit")]  # torch's have no types
            yield from ((f"{name}.{n}", method) for n, method in own if not n.startswith("_"))


def test_all_names_what_is_there():
    assert sorted([*labkit._HOME, "LabError"]) == sorted(labkit.__all__) == labkit.__all__
    assert all(getattr(labkit, name).__name__ == name for name in labkit.__all__)
    assert set(dir(labkit)) == {*labkit.__all__, "__version__"}


def test_importing_labkit_is_light():
    heavy = {"torch", "ipyparallel", "IPython", "mpi4py", "matplotlib", "numpy", "psutil"}
    code = f"import sys, labkit, labkit.mpi.entry; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_public_name_is_documented():
    for name in labkit.__all__:
        assert getattr(labkit, name).__doc__, name


def test_one_screen():
    assert len(Path(labkit.__file__).read_text().splitlines()) <= 60


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_function_says_its_types(module):
    """What mypy then holds them to; without annotations it would not look inside."""
    untyped = []
    for name, function in functions(module):
        signature = inspect.signature(function)
        hints = [p.annotation for p in signature.parameters.values() if p.name not in ("self", "cls")]
        if inspect.Parameter.empty in (*hints, signature.return_annotation):
            untyped.append(f"{name}{signature}")
    assert untyped == []


def test_the_package_says_that_it_is_typed():
    assert Path(labkit.__file__).with_name("py.typed").exists()
