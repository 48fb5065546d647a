"""Make the skeleton of a lesson, in the frame that every lesson has.

    python -m tests.notebooks.new_lesson 07 "Keep the weights on a server"

What is left to write is marked TODO; the tests in tests/notebooks say what is still missing.
"""

import argparse
import re
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_notebook

from . import skeleton
from .refresh import tidy

ROOT = Path(__file__).parents[2]


def make(number: int, title: str, root: Path = ROOT) -> list[Path]:
    """Write the notebook, its exercises and their answers, and say where they are.

    ValueError if there is a lesson of that number or the title names no file.
    """
    slug = re.sub(r"\W+", "_", title.split(":")[0].lower()).strip("_")
    if not re.fullmatch(r"[a-z0-9_]+", slug):
        raise ValueError(f"the title {title!r} names no file; begin it with an English verb")
    name = f"{number:02d}"
    there = sorted(root.glob(f"notebooks/{name}_*.ipynb"))
    if there:
        raise ValueError(f"lesson {name} is {there[0].name}; take another number, or remove it first")
    notebook = new_notebook(cells=skeleton.cells(name, title))
    tidy(notebook)
    files = {
        f"notebooks/{name}_{slug}.ipynb": nbformat.writes(notebook) + "\n",
        f"labkit/exercises/lessons/lesson_{name}.py": skeleton.exercises(name, title),
        f"tests/exercises/answers_{name}.py": skeleton.answers(name),
    }
    for file, text in files.items():
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [root / file for file in files]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="new_lesson", description="Make the skeleton of a lesson.")
    parser.add_argument("number", type=int, help="two digits, such as 07")
    parser.add_argument("title", help='"Keep the weights on a server", or keep_the_weights_on_a_server')
    given = parser.parse_args(arguments)
    title = given.title if " " in given.title else given.title.replace("_", " ").capitalize()
    try:
        files = [path.relative_to(ROOT) for path in make(given.number, title)]
    except ValueError as error:
        sys.exit(str(error))
    lesson = files[0]
    print(f"There are now {', '.join(map(str, files))}. What is left to write is marked TODO. Then:\n")
    print(f"  run and store it:      python tests/notebooks/refresh.py {lesson}")
    print(f"  what it still lacks:   python -m pytest tests/notebooks tests/exercises -k {lesson.name[:2]}_")
    print(f"  what the CI compares:  python -m pytest --nbval --nbval-cell-timeout=120 {lesson}")


if __name__ == "__main__":
    main()
