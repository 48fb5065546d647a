"""How ranks and cells are named in what a learner reads, and what of a long message is told. Pure."""

import re
from collections.abc import Iterable
from itertools import groupby

THE_CELL = "the cell"
"""What a cell without a number is called."""
_CELL_FILE = re.compile(r"(?<!\S)\S*/ipykernel_\d+/\d+\.py")  # where ipykernel says that a cell's code is
_NUMBERED = re.compile(r"# (In \[\d+\])\n")
_CALLS = re.compile(r"ranks? \d+(?:, \d+)*: ")
LONG_LINE, LONG_MESSAGE = 2_000, 40_000
"""Characters that are told of a line of the user's, and of a message."""
_NOTE = 50  # as many are added where it is cut: what was is not cut once more


def numbered(cell: str, number: int) -> str:
    """A cell as ranks get it: a line that names it is in the place of its %%px line, the others stay.

    >>> numbered("dist.barrier()", 10)
    '# In [10]\\ndist.barrier()'
    """
    return f"# In [{number}]\n{cell}"


def cell_of(code: str) -> str:
    """The name of a cell that `numbered` has given it, "In [10]", or none."""
    found = _NUMBERED.match(code)
    return found[1] if found else ""


def tells_calls(message: str) -> bool:
    """Whether a message lists what ranks have called."""
    return _CALLS.match(message) is not None


def in_the_cell(message: str) -> str:
    """A message that speaks of "the cell" and not of the file that ipykernel gives it."""
    return _CELL_FILE.sub(THE_CELL, message)


def cut(message: str) -> str:
    """A message without the middle of what is too long to read."""
    readable = "\n".join(_without_middle(line) for line in message.split("\n"))
    rest = len(readable) - LONG_MESSAGE
    return f"{readable[:LONG_MESSAGE]}\n... {rest:,} characters more" if rest > _NOTE else readable


def _without_middle(line: str) -> str:
    if len(line) <= LONG_LINE + _NOTE:
        return line
    half = LONG_LINE // 2
    return f"{line[:half]} ... {len(line) - LONG_LINE:,} characters ... {line[-half:]}"


def ranks(numbers: Iterable[int]) -> str:
    """ "rank 2", "ranks 0-3", "ranks 0, 2-3"."""
    numbers = sorted(numbers)
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    spans = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ("rank " if len(numbers) == 1 else "ranks ") + ", ".join(spans)
