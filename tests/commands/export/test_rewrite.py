"""A cell's source as part of a script."""

import sys

import pytest

from labkit.commands.export.rewrite import indented, shown, undefined


@pytest.mark.parametrize("source, printed", [
    ("1 + 1", "2\n"),
    ("x = 3\nx, 'a'", "(3, 'a')\n"),
    ("(1,\n 2)", "(1, 2)\n"),
    ("'é' + 'ü'  # ö", "'éü'\n"),
    ("None", ""),
    ("[].append(1)", ""),
    ("1;", ""),
    ("print('once')", "once\n"),
    ("x = 1", ""),
    ("# nothing", ""),
])  # fmt: skip
def test_a_last_expression_is_shown_as_in_a_session(source, printed, capsys, monkeypatch):
    monkeypatch.setattr(sys, "displayhook", sys.__displayhook__)
    exec(shown(source), {"sys": sys})
    assert capsys.readouterr().out == printed


def test_strings_over_several_lines_keep_their_text():
    source = "x = '''a\n b\n'''\ny = f\"\"\"{x}\nc\"\"\""
    plain, inside = {}, {}
    exec(source, plain)
    exec("if True:\n" + indented(source), inside)
    assert (plain["x"], plain["y"]) == (inside["x"], inside["y"])


@pytest.mark.parametrize("source, names", [
    ("print(a)", ["a"]),
    ("def f(x, *y, **z): return x, y, z, w", ["w"]),
    ("import os.path, numpy as np\nos, np, numpy", ["numpy"]),
    ("[i for i in range(3)]\nfor k, (v, w) in {}: k, v, w", []),
    ("try: pass\nexcept OSError as error: error", []),
    ("with open('f') as f: f\n(n := 1), n\nclass C: pass\nC", []),
])  # fmt: skip
def test_names_that_nothing_binds(source, names):
    assert undefined(source) == names
