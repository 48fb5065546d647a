"""What a lesson builds is what labkit.algorithms holds, to the syntax tree."""

import ast
import inspect
import re

import nbformat
import pytest

from labkit import algorithms
from labkit.schedule import Rounds, Schedule

from .conftest import LESSONS


def bare(function: ast.AST) -> str:
    """The syntax tree without the docstring and the annotations, which the library adds."""
    function = ast.parse(ast.unparse(function)).body[0]
    if ast.get_docstring(function) is not None:
        function.body = function.body[1:] or [ast.Pass()]
    function.returns = None
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return ast.dump(function)


def defined_in(path) -> dict[str, str]:
    """The functions that a lesson's cells define, by name."""
    found = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            source = re.sub(r"^(\s*)[%!].*$", r"\1pass", cell.source, flags=re.MULTILINE)
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef):
                    found.setdefault(node.name, bare(node))
    return found


BUILT = {path.stem: defined_in(path) for path in LESSONS}


def lesson_of(name: str) -> str:
    """The number of the lesson that builds a function, as its docstring says; "" for a schedule."""
    told = re.search(r"Built in\s+lesson (\d+)", inspect.getdoc(getattr(algorithms, name)) or "")
    return told[1] if told else ""


@pytest.mark.parametrize("name", algorithms.__all__)
def test_the_library_holds_what_a_lesson_built(name):
    versions = {lesson: functions[name] for lesson, functions in BUILT.items() if name in functions}
    if not versions:
        returned = inspect.signature(getattr(algorithms, name)).return_annotation
        assert returned in (Schedule, Rounds), f"no lesson builds {name}, and it is no schedule"
        return
    assert lesson_of(name) == min(versions)[:2], "the docstring names the first lesson that builds it"
    library = bare(ast.parse(inspect.getsource(getattr(algorithms, name))).body[0])
    assert {lesson for lesson, version in versions.items() if version != library} == set()


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lessons_import_only_what_an_earlier_lesson_built(path):
    earlier = {name for lesson, functions in BUILT.items() if lesson < path.stem for name in functions}
    source = "\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code")
    imported = re.findall(r"from labkit\.algorithms[\w.]* import (.+)", source)
    assert {name.strip() for names in imported for name in names.split(",")} <= earlier
