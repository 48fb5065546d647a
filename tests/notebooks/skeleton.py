"""What a new lesson begins with: the frame's cells, its exercises, and answers to them. All of it runs."""

from nbformat.v4 import new_code_cell, new_markdown_cell

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

TODO: a figure of what happened: its title states the finding."""
SEEN = """with lab.trace() as trace:
    %px dist.all_reduce(x)

trace.plot("TODO: the finding")"""
BREAK = """## Break it

TODO: the classic mistake, run under a deadline. What will labkit say?"""
BROKEN = """%%px --deadline 5
x = torch.zeros(1)
if rank != 0:
    dist.all_reduce(x)"""
CHECK = """## Check yourself

Put a letter in place of `None`."""
END = """**Key points**

- TODO

**Where to read on**

- TODO"""

TASK = "TODO: what to do. Now: return the sum of all ranks' tensors, on every rank ({name})."
STUB = "def {name}(mine):  # a tensor, another on each rank\n    ...  # your code\n"

EXERCISES = '''"""{title}."""

from labkit.exercises.describe import Choice, Exercise, Lesson, Limit, Prediction, Question
from labkit.exercises.judge import Mistake, compare


def _tensors(generator, size):
    """The arguments of every rank's call."""
    import torch

    return [(torch.randn(4, generator=generator),) for _ in range(size)]


def _sums(arguments):
    """What every rank must return."""
    return [sum(mine for (mine,) in arguments)] * len(arguments)


def _exercise(name):  # TODO: two or three Exercises that differ, in place of this function
    return Exercise(
        task=f"{task}",
        stub=f"""\\
def {{name}}(mine):  # a tensor, another on each rank
    ...  # your code
""",
        solution=f"""\\
def {{name}}(mine):
    total = mine.clone()
    dist.all_reduce(total)
    return total
""",
        why="TODO: why the solution is right.",
        hints=("TODO: where to begin.", "TODO: nearly the answer."),
        given=_tensors,
        judge=compare(
            _sums,
            Mistake("That is the rank's own tensor.", lambda arguments: [mine for (mine,) in arguments]),
        ),
        limits=(Limit("collectives", lambda arguments: 1, "TODO: why one is enough."),),
        uses=(),  # functions of labkit.algorithms that answers call, by name
    )


LESSON = Lesson(
    "{number}",
    "{title}",
    predictions=(Prediction("guess_{number}", "TODO: its unit"),),
    exercises=(_exercise("first_{number}"), _exercise("second_{number}")),
    questions=tuple(
        Question(
            f"TODO: question {{n}}",
            (
                Choice("TODO: an answer", "TODO: why it is wrong."),
                Choice("TODO: another", "TODO: why it is right."),
                Choice("TODO: a third", "TODO: why it is wrong."),
            ),
            right="b",
        )
        for n in (1, 2, 3)
    ),
)
'''

ANSWERS = '''"""Answers to the exercises of lesson {number}."""

# TODO: right ones in other styles than the solution; wrong ones, each with what a learner is told.
_RIGHT = {{
    "all_gather": "everybody = [torch.empty_like(mine) for _ in range(world_size)]\\n"
    "dist.all_gather(everybody, mine)\\nreturn sum(everybody)",
    "in place": "dist.all_reduce(mine)\\nreturn mine",
}}
_WRONG = {{
    "own tensor": ("return mine", "That is the rank's own tensor"),
    "nothing returned": ("dist.all_reduce(mine)", "Nothing came back"),
    "only rank 0 right": (
        "total = mine.clone()\\ndist.reduce(total, dst=0)\\nreturn total if rank == 0 else mine",
        "is wrong",
    ),
    "deadlock": ("if rank == 0:\\n    dist.barrier()\\nreturn mine", "deadlock"),
    "over budget": (
        "total = mine.clone()\\ndist.all_reduce(total)\\ndist.barrier()\\nreturn total",
        "over budget: collective calls on each rank 2, limit 1",
    ),
}}
RIGHT = {{"first_{number}": _RIGHT, "second_{number}": _RIGHT}}
WRONG = {{"first_{number}": _WRONG, "second_{number}": _WRONG}}
'''


def exercises(number: str, title: str) -> str:
    """The text of labkit/exercises/lessons/lesson_NN.py."""
    return EXERCISES.format(number=number, title=title, task=TASK)


def answers(number: str) -> str:
    """The text of tests/exercises/answers_NN.py."""
    return ANSWERS.format(number=number)


def cells(number: str, title: str) -> list:
    """The notebook's cells: every section in its order, and the calls for what the exercises describe."""
    md, code = new_markdown_cell, new_code_cell
    ignored, raises = {"tags": ["nbval-ignore-output"]}, {"tags": ["raises-exception"]}
    asked = []
    for place, name in enumerate((f"first_{number}", f"second_{number}"), 1):
        task = f"**{place}. TODO.** {TASK.format(name=name)}"
        asked += [
            md(f"## Exercises\n\n{task}" if place == 1 else task),
            code(f"%%px\n{STUB.format(name=name).rstrip()}"),
            code(f'labkit.check("{name}")'),
        ]
    return [
        md(HEADER.format(title=title)),
        md("## Start"),
        code("import labkit\n\nlab = labkit.start(4)\nlab", metadata=ignored),
        md(PREDICT),
        code(f'labkit.predict("guess_{number}", None)'),
        md(DERIVE),
        code("%%px\nassert 0 <= rank < world_size  # TODO: the formula"),
        md(RUN),
        code("%%px\nx = torch.tensor([float(rank)])\ndist.all_reduce(x)\nx"),
        md(SEE),
        code(SEEN, metadata=ignored),
        md(BREAK),
        code(BROKEN, metadata=raises),
        md("TODO: what the verdict says, and what to look for next time. The next cell runs:"),
        code('%%px\nprint("ready again")'),
        *asked,
        md("## Measured against predicted\n\nTODO: a figure or table with the error in per cent."),
        code(f'labkit.predict("guess_{number}", measured=len(lab))  # TODO: what was measured'),
        md("## From the literature\n\nTODO: one published number beside what ours gives: who, year, arXiv."),
        md(CHECK),
        code("\n".join(f'labkit.ask("{number}.{n}", None)' for n in (1, 2, 3))),
        md(END),
    ]
