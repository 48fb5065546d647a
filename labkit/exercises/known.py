"""Which names of mistakes are labkit's own: what a class is shown, where a learner could have written the
rest.

Known are the names that `labkit.exercises.mistake` gives, errors that Python has, and what an exercise's
judge can say, with nothing in its gaps but numbers. An error's class that a learner has made is none of
these.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from functools import cache

from labkit.exercises import judge, mistake
from labkit.exercises.catalogue import exercise_named
from labkit.exercises.describe import Exercise
from labkit.exercises.measure import MEASURES

_GAP = r"(?:[\d… .,:;()\[\]*/x-]|a rank|ranks?|None|True|False){0,60}"
_BUILTINS = ((name, kind) for name, kind in vars(builtins).items() if isinstance(kind, type))
_ERRORS = {name for name, kind in _BUILTINS if issubclass(kind, BaseException)}
_ERRORS |= {"CellError", "LabError", "DistBackendError", "DistNetworkError", "OutOfMemoryError"}
_MARK = "\0"
"""Where a text has a gap."""
_LESSONS = "labkit.exercises.lessons."
_REQUESTS = {"isend", "irecv", "request", "requests"}


def is_known(name: str, exercise: str) -> bool:
    """Whether a mistake of that name can be made in that exercise, whoever says so."""
    return name in _ERRORS or any(re.fullmatch(pattern, name) for pattern in _patterns(exercise))


@cache
def _patterns(exercise: str) -> tuple[str, ...]:
    """What names of mistakes look like."""
    asked = exercise_named(exercise)
    units = "|".join(re.escape(measure.unit) for measure in MEASURES.values())
    arguments = "|".join(map(re.escape, asked.untouched.values())) or "(?!)"
    usual = (re.escape(called) for _, called in mistake.NAMES if "\\1" not in called)
    own = (
        re.escape(mistake.WRONG),
        rf"(?:over budget|too little): (?:{units})",
        rf"never waits for its (?:{'|'.join(_REQUESTS)})",
        rf"changes `(?:{arguments})`, which is its caller's",
    )
    said = [line for made in asked.wrong for line in made.says.splitlines()]
    named = (re.escape(mistake.without_numbers(line)) for line in said)
    return (*usual, *own, *named, *(said for module in sorted(_modules(asked)) for said in _says(module)))


def _modules(exercise: Exercise) -> set[str]:
    """Where what a judge says is written: beside the exercise, or where that file has it from."""
    lessons = [module for name, module in sys.modules.items() if name.startswith(_LESSONS)]
    beside = [m for m in lessons if any(value is exercise for value in vars(m).values())]
    found = {getattr(value, "__module__", None) for module in beside for value in vars(module).values()}
    return {judge.__name__, *(name for name in found if isinstance(name, str) and name.startswith(_LESSONS))}


@cache
def _says(module: str) -> tuple[str, ...]:
    """The lines of all texts in a module's source, as patterns."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, KeyError, TypeError):
        return ()
    texts = (_pattern(node) for node in ast.walk(tree) if isinstance(node, ast.Constant | ast.JoinedStr))
    lines = dict.fromkeys(line.rstrip(".") for text in texts for line in text.split("\n") if " " in line)
    return tuple(re.escape(line).replace(re.escape(_MARK), _GAP) for line in lines)


def _pattern(node: ast.Constant | ast.JoinedStr) -> str:
    """A text as a mistake is called that says it, with a mark for each gap."""
    parts = [part for part in ast.iter_child_nodes(node)] if isinstance(node, ast.JoinedStr) else [node]
    texts = (getattr(part, "value", None) for part in parts)
    return mistake.without_numbers("".join(text if isinstance(text, str) else _MARK for text in texts))
