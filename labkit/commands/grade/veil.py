"""What lessons ask, without what is right: the files that answers can read in a sandbox.

A rank needs of an exercise how its arguments are drawn and how the function is called. Its solution, its
judge, and all that only those need are left out, and go to the process that judges alone, as code that it is
given.
"""

from __future__ import annotations

import ast
import marshal
import py_compile
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import labkit
from labkit.exercises import course

LESSONS = Path(labkit.__file__).parent / "exercises" / "lessons"
_KEPT = {"stub", "given", "limits", "sizes", "answer", "uses", "becomes", "changes", "use", "calls"}
"""What a rank asks of an Exercise; all else of one is of no use to it."""
_BLANK = {"task": "''", "solution": "''", "why": "''", "hints": "()", "judge": "len"}
_OF_A_LIMIT = {"most": "len", "least": "None", "why": "''", "too_little": "''"}
_ENTRY = "LESSON"
_PACKAGE = "labkit.exercises.lessons"


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """For the files, until this process ends."""
    return tempfile.TemporaryDirectory(prefix="labkit-grade-")


@cache
def files() -> dict[str, Path]:
    """Places in a sandbox, and what is to be seen there: the lessons of labkit, and those of a course."""
    folder = Path(_folder().name)
    ours = folder / "lessons"
    (ours / "__pycache__").mkdir(parents=True)
    sources = {path.stem: path.read_text(encoding="utf-8") for path in LESSONS.glob("*.py")}
    for name, text in veiled(sources).items():
        written = ours / f"{name}.py"
        written.write_text(text, encoding="utf-8")
        # Ranks would each compile it. Nothing there changes, so nothing is to be compared.
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(
            str(written), dfile=str(LESSONS / written.name), invalidation_mode=unchecked, doraise=True
        )
    found = {str(LESSONS): ours}
    for file in _of_course():
        kept = folder / file.name
        kept.write_text(veiled({"": file.read_text(encoding="utf-8")})[""], encoding="utf-8")
        found[str(file)] = kept
    for path in folder.rglob("*"):  # root's answers are another user; the folder above is closed to others
        path.chmod(0o755 if path.is_dir() else 0o644)
    return found


@cache
def whole() -> bytes:
    """The same files with nothing left out, as code by their places: for the process that judges."""
    there = [*LESSONS.glob("*.py"), *_of_course()]
    return marshal.dumps({str(file): compile(file.read_bytes(), str(file), "exec") for file in there})


def _of_course() -> list[Path]:
    """What a course's own lessons ask."""
    found = course.current()
    return [course.description(path) for path in found.own] if found else []


def veiled(sources: Mapping[str, str]) -> dict[str, str]:
    """The modules of lessons, by name, as ranks may read them: what LESSON needs, without what is right."""
    trees = {name: _Blanks().visit(ast.parse(text)) for name, text in sources.items()}
    bound = {name: dict(_bound(tree)) for name, tree in trees.items()}
    wanted: set[tuple[str, str]] = set()
    ahead = [(name, _ENTRY) for name in trees if _ENTRY in bound[name]]
    while ahead:
        module, name = ahead.pop()
        if (module, name) in wanted or name not in bound.get(module, {}):
            continue
        wanted.add((module, name))
        node = bound[module][name]
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_PACKAGE):
            other, real = node.module[len(_PACKAGE) + 1 :], _imported(node, name)
            ahead += [(other, real)] if other else [(real, every) for every in bound.get(real, {})]
        else:
            ahead += [(module, used.id) for used in ast.walk(node) if isinstance(used, ast.Name)]
    return {
        name: ast.unparse(_left(tree, {n for m, n in wanted if m == name})) for name, tree in trees.items()
    }


def _imported(node: ast.ImportFrom, name: str) -> str:
    return next(alias.name for alias in node.names if name == (alias.asname or alias.name))


class _Blanks(ast.NodeTransformer):
    """Takes out what is right, and what is said of it."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called == "Exercise":
            kept = [word for word in node.keywords if word.arg in _KEPT]
            node.keywords = [*kept, *(_word(name, text) for name, text in _BLANK.items())]
        elif called == "Limit":
            node.args = [*node.args[:1], *map(_expression, _OF_A_LIMIT.values())]
            node.keywords = []
        elif called in ("Question", "questions"):
            return _expression("Question('', (), '')" if called == "Question" else "()")
        return node


def _word(name: str, text: str) -> ast.keyword:
    return ast.keyword(name, _expression(text))


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _bound(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """The names of a module, and the statement that binds each."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name.partition(".")[0], node) for alias in node.names)
        else:
            stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            yield from ((n.id, node) for n in stored)


def _left(tree: ast.Module, wanted: set[str]) -> ast.Module:
    """What binds one of these names; of an import only those names. Docstrings would describe what is
    gone."""
    body: list[ast.stmt] = []
    names = dict(_bound(tree))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            body.append(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [a for a in node.names if (a.asname or a.name.partition(".")[0]) in wanted]
            body += [node] if node.names else []
        elif any(names[name] is node for name in wanted):
            body.append(node)
    return ast.Module(body, [])
