"""`labkit bench trace` compares with the same code without its hooks, and not with something else."""

import ast
import inspect
import textwrap

import pytest

from labkit.bench.trace_rank import HOOKED, without


@pytest.mark.parametrize("module, name, method", HOOKED)
def test_only_the_hooks_are_cut_out(module, name, method):
    from importlib import import_module

    cls = getattr(import_module(f"labkit.mpi.{module}"), name)
    before = ast.parse(textwrap.dedent(inspect.getsource(getattr(cls, method))))
    asked = [n for n in ast.walk(before) if isinstance(n, ast.If) and "record" in ast.unparse(n.test)]
    assert asked, "a hook is an `if` that asks about recording"
    plain, hooked = without(cls, method).__code__, getattr(cls, method).__code__
    names = set(hooked.co_names) - set(plain.co_names)
    assert "record" in names and not {"record", "records"} & set(plain.co_names)
    assert plain.co_varnames[: plain.co_argcount] == hooked.co_varnames[: hooked.co_argcount]
