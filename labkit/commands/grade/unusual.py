"""What an answer names and no exercise needs, found in its source, for somebody to look at.

Whoever hides it well is not found; and nothing here runs beside an answer, which could have a say in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from labkit.exercises.describe import Exercise

USUAL = {
    "torch",
    "math",
    "numpy",
    "random",
    "time",
    "functools",
    "itertools",
    "collections",
    "dataclasses",
    "copy",
}
"""What answers import."""
NAMES = {
    "exec",
    "eval",
    "compile",
    "open",
    "globals",
    "locals",
    "vars",
    "getattr",
    "setattr",
    "delattr",
    "get_ipython",
}
MODULES = {
    "os",
    "sys",
    "builtins",
    "importlib",
    "subprocess",
    "ctypes",
    "socket",
    "shutil",
    "pickle",
    "inspect",
    "gc",
}
"""What answers have no need to call; and modules that others have in them, as in `torch.os`."""
LONGEST = 100_000
"""Characters of a source that is taken apart."""


def unusual(source: str, exercise: Exercise) -> list[str]:
    """What it names, each once."""
    if len(source) > LONGEST:
        return [f"{len(source):,} characters"]
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ["what is no Python alone"]
    ours = ast.parse("\n".join([*exercise.imports, exercise.solution]))  # also what only a solution imports
    needed = [imported for node in ast.walk(ours) for imported in _imported(node)]
    return list(dict.fromkeys(name for node in nodes for name in _named(node, needed)))


def _named(node: ast.AST, needed: list[tuple[str, str]]) -> Iterator[str]:
    if isinstance(node, ast.Name) and (node.id in NAMES or node.id.startswith("__")):
        yield node.id
    elif isinstance(node, ast.Attribute) and (node.attr in MODULES or node.attr.startswith("__")):
        yield f".{node.attr}"
    for module, imported in _imported(node):
        if module.partition(".")[0] not in USUAL and (module, imported) not in needed:
            yield f"import {module}"


def _imported(node: ast.AST) -> list[tuple[str, str]]:
    """Modules, and what of each; "" is the module itself."""
    if isinstance(node, ast.Import):
        return [(alias.name, "") for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [("." * node.level + (node.module or ""), alias.name) for alias in node.names]
    return []
