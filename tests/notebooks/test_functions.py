"""What a lesson builds is what labkit.algorithms holds, to the syntax tree."""

import ast
import inspect
import re

import nbformat
import pytest

from labkit import algorithms
from labkit.exercises.catalogue import LESSONS as ASKED
from labkit.schedule import Rounds, Schedule

from .conftest import LESSONS


def bare(definition: ast.AST) -> str:
    """The syntax tree of a function or class without docstrings and annotations, which the library adds."""
    definition = ast.parse(ast.unparse(definition)).body[0]
    for node in ast.walk(definition):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
    return ast.dump(definition)


def defined_in(path) -> dict[str, str]:
    """The functions and classes that a lesson's cells define, by name."""
    found = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            source = re.sub(r"^(\s*)[%!].*$", r"\1pass", cell.source, flags=re.MULTILINE)
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    found.setdefault(node.name, bare(node))
    return found


def hearts_of(number: str) -> dict[str, str]:
    """The functions that the learner writes in a lesson, by the names under which later cells call them."""
    asked = next((lesson.exercises for lesson in ASKED if lesson.number == number), ())
    found = {}
    for exercise in asked:
        for node in ast.parse(exercise.solution).body if exercise.becomes else ():
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == exercise.name:
                node.name = exercise.becomes
                found[node.name] = bare(node)
    return found


BUILT = {path.stem: hearts_of(path.stem[:2]) | defined_in(path) for path in LESSONS}


def in_the_library(name: str) -> str:
    """The same for a function of labkit.algorithms."""
    return bare(ast.parse(inspect.getsource(getattr(algorithms, name))).body[0])


GIVEN = "data|activations|memory"  # the files of labkit.algorithms that no lesson builds


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


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_function_with_a_name_of_the_library_is_that_function(path):
    known = {name: version for name, version in BUILT[path.stem].items() if name in algorithms.__all__}
    differ = [name for name, version in known.items() if version != in_the_library(name)]
    fixes = [f"{name} differs from labkit.algorithms.{name}: rename it or import it" for name in differ]
    assert differ == [], "\n".join(fixes)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lessons_import_only_what_an_earlier_lesson_built(path):
    earlier = {name for lesson, functions in BUILT.items() if lesson < path.stem for name in functions}
    source = "\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code")
    imported = re.findall(rf"from labkit\.algorithms(?!\.(?:{GIVEN})\b)[\w.]* import (.+)", source)
    unknown = {name.strip() for names in imported for name in names.split(",")} - earlier
    assert unknown == set(), f"no earlier lesson builds {', '.join(unknown)}: build it here"
