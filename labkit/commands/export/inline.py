"""What a cell imports from labkit, put in its place as source: for scripts that run where labkit is not.

Works on the text of the package alone and imports none of it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import labkit
from labkit import LabError

PACKAGE = Path(labkit.__file__).parent
PRESENT = ("import torch", "import torch.distributed as dist")
"""What every exported script imports before its first cell."""


def inlined(source: str) -> str:
    """The same source with each `from labkit... import name` replaced by the source of that name.

    What the name needs from its module comes before it. LabError for an import that has no such form.
    """
    lines = source.split(
        "\n"
    )  # as ast counts them: other signs that end a line may be in a text or a comment
    nodes = ast.walk(ast.parse(source))
    found = [node for node in nodes if _is_ours(node)]
    for node in sorted(found, key=lambda node: node.lineno, reverse=True):
        pieces = dict.fromkeys(piece for alias in node.names for piece in _imported(node, alias, set()))
        in_order = sorted(pieces, key=lambda piece: not piece.startswith(("import ", "from ")))
        margin = " " * node.col_offset
        text = [margin + line if line else "" for line in "\n".join(in_order).split("\n")]
        lines[node.lineno - 1 : node.end_lineno] = text
    return "\n".join(lines).strip("\n")


def _is_ours(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "labkit" for alias in node.names):
        raise _no_source(ast.unparse(node))
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "labkit"


def _imported(node: ast.ImportFrom, alias: ast.alias, done: set) -> Iterator[str]:
    """The sources behind one name of an import from labkit."""
    yield from _defined(node.module, alias.name, done)
    if alias.asname not in (None, alias.name):
        yield f"{alias.asname} = {alias.name}"


def _defined(module: str, name: str, done: set) -> Iterator[str]:
    """The sources that define `name` of `module`, what it needs first; each once."""
    if (module, name) in done:
        return
    done.add((module, name))
    text = _text(module, name)
    bound = _bindings(ast.parse(text))
    if name not in bound:
        raise _no_source(f"from {module} import {name}")
    node = bound[name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        alias = next(a for a in node.names if name == (a.asname or a.name.split(".")[0]))
        if _is_ours(node):
            yield from _imported(node, alias, done)
            return
        node.names = [alias]
        if ast.unparse(node) not in PRESENT:
            yield ast.unparse(node)
        return
    for needed in sorted({n.id for n in ast.walk(node) if isinstance(n, ast.Name)} & bound.keys()):
        yield from _defined(module, needed, done)
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    own = text.splitlines()[first - 1 : node.end_lineno]
    spaced = ["", *own, ""] if isinstance(node, ast.FunctionDef | ast.ClassDef) else own
    yield "\n".join(spaced)


def _bindings(tree: ast.Module) -> dict[str, ast.stmt]:
    """The names that a module binds at its top level, and the statement that does so."""
    bound: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name.split(".")[0]: node for alias in node.names}
        else:
            stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            bound |= {n.id: node for n in stored}
    return bound


def _text(module: str, name: str) -> str:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    files = [f for f in (path.with_suffix(".py"), path / "__init__.py") if f.exists()]
    if not files:
        raise _no_source(f"from {module} import {name}")
    return files[0].read_text()


def _no_source(asked: str) -> LabError:
    return LabError(
        f"a script without labkit, from a cell with `{asked}`",
        "only functions, classes and constants of labkit can be put into a script",
        "import them by name, as in `from labkit.algorithms import shard`",
    )
