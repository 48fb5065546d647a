"""The source of an answer, as it stands in the notebook's cells, with whatever else of them it needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from IPython.core.inputtransformer2 import TransformerManager

from labkit.exercises.newest import PX, cells

_PX = rf"{PX}(\s|$)"


def in_notebook(name: str) -> str:
    """Return the source that this kernel's %%px cells define under that name; "" if none does."""
    return source(name, cells())


def source(name: str, cells: Iterable[str]) -> str:
    """The latest definition of `name` in these %%px cells, below the definitions and imports that it needs.

    Only what defines is taken, never what computes or communicates: functions, classes, imports, constants.
    Not there is a name that the ranks have from elsewhere, such as `rank` or `dist`.

    >>> print(source("half", ["%%px\\nimport math\\nTWO = 2\\ndef half(x):\\n    return x / TWO\\nhalf(4)"]))
    TWO = 2
    <BLANKLINE>
    def half(x):
        return x / TWO
    """
    there: dict[str, tuple[int, str, set[str]]] = {}  # its place, its text, and the names that it uses
    for number, (statement, text) in enumerate(_statements(cells)):
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        there |= {defined: (number, text, used) for defined in _defined(statement)}
    wanted, left = set(), [name]
    while left:
        wanted.add(now := left.pop())
        left += there.get(now, (0, "", set()))[2] & there.keys() - wanted
    texts = {there[defined][:2] for defined in wanted & there.keys()}
    return "\n\n".join(text for _, text in sorted(texts)) if name in there else ""


def _statements(cells: Iterable[str]) -> Iterable[tuple[ast.stmt, str]]:
    """The statements at the top of the cells that ranks run, with their text, comments and all."""
    for cell in cells:
        first, _, body = cell.lstrip().partition("\n")
        while first.startswith("%%") and not re.match(_PX, first):  # as %%time, above it
            first, _, body = body.lstrip().partition("\n")
        if not re.match(_PX, first):
            continue
        body = TransformerManager().transform_cell(body)
        try:
            tree = ast.parse(body)
        except SyntaxError:
            continue
        lines = body.splitlines()
        for statement in tree.body:
            decorators = [node.lineno for node in getattr(statement, "decorator_list", [])]
            begin = min([statement.lineno, *decorators])
            yield statement, "\n".join(lines[begin - 1 : statement.end_lineno])


def _defined(statement: ast.stmt) -> list[str]:
    """The names that it defines, if that is all that it does."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Assign) and _only_defines(statement.value):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return []


def _only_defines(value: ast.expr) -> bool:
    """Whether it is a constant, or a function."""
    if isinstance(value, ast.Lambda):
        return True
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
