"""`labkit bench trace` compares with the same code without its hooks, and not with something else."""

import ast
import inspect
import textwrap

from labkit.commands.bench.recording_worker import plain_classes


def test_only_the_hooks_are_cut_out():
    for plain in plain_classes():
        methods = [name for name in vars(plain) if not name.startswith("__")]
        assert methods
        for method in methods:
            cut, hooked = getattr(plain, method).__code__, getattr(plain.__base__, method).__code__
            before = ast.parse(textwrap.dedent(inspect.getsource(getattr(plain.__base__, method))))
            asked = [n for n in ast.walk(before) if isinstance(n, ast.If) and "record" in ast.unparse(n.test)]
            assert asked, "a hook is an `if` that asks about recording"
            names = set(hooked.co_names) - set(cut.co_names)
            assert "record" in names and not {"record", "records"} & set(cut.co_names)
            assert cut.co_varnames[: cut.co_argcount] == hooked.co_varnames[: hooked.co_argcount]


def test_a_group_without_hooks_makes_works_without_hooks():
    work, group = plain_classes()
    assert group.begin.__globals__["Work"] is work
