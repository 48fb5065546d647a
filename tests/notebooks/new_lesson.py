"""Make the skeleton of a lesson, in the frame that every lesson has.

    python tests/notebooks/new_lesson.py 07 "Keep the weights on a server"

What is left to write is marked TODO; tests/notebooks/test_frame.py says what of the frame is still missing.
"""

import argparse
import re
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

FOLDER = Path(__file__).parents[2] / "notebooks"

HEADER = """# {title}

| | |
|---|---|
| **Question** | TODO: the one question that this lesson answers |
| **You will be able to** | TODO: verbs: derive, write, measure, say when |
| **Minutes** | 40 |
| **Needs** | TODO: the lessons before it |
| **Exact?** | TODO: is the method exact, or what does it give up? |"""
PREDICT = """## Predict

TODO: a number that the learner writes down now and meets again under *Measured against predicted*."""
DERIVE = """## Derive

TODO: at most a screen of mathematics, with a table of symbols. The next cell asserts each formula.

| symbol | meaning |
|---|---|
| $R$ | number of ranks |"""
RUN = """## Run

TODO: the smallest code that does it, one idea a cell."""
SEE = """## See

TODO: a figure of what happened, from `labkit.figures`: its title states the finding."""
BREAK = """## Break it

TODO: the classic mistake, run under a deadline. What will labkit say?"""
BROKEN = """%%px --deadline 5
x = torch.zeros(1)
if rank != 0:
    dist.all_reduce(x)"""
EXERCISES = """## Exercises

**1.** TODO: what to do, and how it will be checked."""
HINTS = """<details><summary>Hint 1</summary>TODO</details>
<details><summary>Hint 2</summary>TODO</details>
<details><summary>Solution</summary>

```python
%%px
answer = rank  # TODO
```
</details>"""
CHECK = """## Check yourself

**1.** TODO: a question (a) one answer (b) another (c) a third

<details><summary>Answer</summary>

**b**. TODO: why.
</details>

**2.** TODO

<details><summary>Answer</summary>

TODO
</details>

**3.** TODO

<details><summary>Answer</summary>

TODO
</details>

**Key points**

- TODO

**Where to read on**

- TODO"""


def cells(title: str) -> list:
    """The cells of a skeleton: every section in its order, and code that runs as it stands."""
    md, code = new_markdown_cell, new_code_cell
    ignored, raises = {"tags": ["nbval-ignore-output"]}, {"tags": ["raises-exception"]}
    return [
        md(HEADER.format(title=title)),
        md("## Start"),
        code("import labkit\n\nlab = labkit.start(4)\nlab", metadata=ignored),
        code("assert [row[0] for row in lab.status()] == [0, 1, 2, 3]"),
        md(PREDICT),
        code("guess = None  # your number"),
        md(DERIVE),
        code("%%px\nassert 0 <= rank < world_size  # TODO: the formula"),
        md(RUN),
        code("%%px\nx = torch.tensor([float(rank)])\ndist.all_reduce(x)\nx"),
        md(SEE),
        code("%%px --trace\ndist.all_reduce(x)", metadata=ignored),
        md(BREAK),
        code(BROKEN, metadata=raises),
        md("TODO: what the verdict says, and what to look for next time. The next cell runs:"),
        code('%%px\nprint("ready again")'),
        md(EXERCISES),
        code("%%px\nanswer = None  # your answer"),
        code('%%px\nprint("not solved yet" if answer is None else "right")'),
        md(HINTS),
        md("## Measured against predicted\n\nTODO: a figure or table with the error in per cent."),
        code('if guess is None:\n    print("no guess: write one down above")'),
        md("## From the literature\n\nTODO: one published number beside what ours gives, with its source."),
        md(CHECK),
        code("lab.stop()"),
    ]


def make(number: int, title: str, folder: Path = FOLDER) -> Path:
    """Write the skeleton; ValueError if there is a lesson of that number or the title names no file."""
    slug = re.sub(r"\W+", "_", title.split(":")[0].lower()).strip("_")
    if not re.fullmatch(r"[a-z0-9_]+", slug):
        raise ValueError(f"the title {title!r} names no file; begin it with an English verb")
    there = sorted(folder.glob(f"{number:02d}_*.ipynb"))
    if there:
        raise ValueError(f"lesson {number:02d} is {there[0].name}; take another number, or remove it first")
    path = folder / f"{number:02d}_{slug}.ipynb"
    notebook = new_notebook(cells=cells(title))
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{i:02d}"
    nbformat.write(notebook, path)
    return path


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Make the skeleton of a lesson.")
    parser.add_argument("number", type=int, help="two digits, such as 07")
    parser.add_argument("title", help='"Keep the weights on a server", or keep_the_weights_on_a_server')
    given = parser.parse_args(arguments)
    title = given.title if " " in given.title else given.title.replace("_", " ").capitalize()
    try:
        path = make(given.number, title)
    except ValueError as error:
        sys.exit(str(error))
    name = path.relative_to(FOLDER.parent)
    print(f"{name} is there. Now:\n")
    print(f"  1. write it: `jupyter lab {name}`; what is left is marked TODO")
    print(f"  2. run and store it: python tests/notebooks/refresh.py {name}")
    print(f"  3. what the frame lacks: python -m pytest tests/notebooks/test_frame.py -k {path.stem[:2]}")
    print(f"  4. what the CI compares: python -m pytest --nbval --nbval-cell-timeout=120 {name}")


if __name__ == "__main__":
    main()
