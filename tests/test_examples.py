"""Every example in a docstring of labkit gives what it says."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import labkit
from labkit.exercises import grade
from labkit.lab import session

PACKAGE = Path(labkit.__file__).parent
EXAMPLE = ">>> "


def examples(path):
    """The lines to try; what only a rank that waits can answer is marked."""
    lines = path.read_text().splitlines()
    return [line for line in lines if line.lstrip().startswith(EXAMPLE) and "+SKIP" not in line]


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py")) if examples(path)}
ON_RANKS = [
    name
    for name, path in FILES.items()
    if re.search(r"\blab[.[]|labkit\.(start|check)", "".join(examples(path)))
]


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What examples may name without an import; what they note of a learner goes nowhere."""
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path))
    return {"labkit": labkit}


@pytest.fixture
def names_and_lab(names, labs, monkeypatch):
    """The same, and four ranks: `lab`, which is what `labkit.start(4)` returns too."""
    lab = labs(4)
    monkeypatch.setattr(session, "_lab", lab)
    monkeypatch.setattr(grade, "_runs", {})  # of answers that other tests had judged
    return names | {"lab": lab}


def every_example_holds(name, names):
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0 and found.attempted >= len(examples(FILES[name])), "said above"


@pytest.mark.parametrize("name", sorted(FILES.keys() - set(ON_RANKS)))
def test_examples(name, names):
    every_example_holds(name, names)


@pytest.mark.parametrize("name", ON_RANKS)
def test_examples_on_ranks(name, names_and_lab):
    every_example_holds(name, names_and_lab)
