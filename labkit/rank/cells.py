"""Where code of cells is: by the notebook's number of the cell, and by the line in its editor."""

import linecache
import os
from types import FrameType

from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from labkit.rank.wording import THE_CELL, cell_of, cut, in_the_cell

_running = ""
"""The file that the cell which was run last is compiled as."""


def install(shell: InteractiveShell) -> None:
    """Compile a cell that says its name under that name; it is the same on every rank."""
    own = shell.compile.get_code_name

    def get_code_name(raw: str, transformed: str, number: int) -> str:
        global _running
        _running = cell_of(raw) or own(raw, transformed, number)
        return _running

    def format_code_name(name: str) -> tuple[str, str] | None:
        return ("Cell", name) if cell_of(f"# {name}\n") else None

    shell.compile.get_code_name, shell.compile.format_code_name = get_code_name, format_code_name
    first = _FirstLines()
    shell.input_transformers_cleanup.insert(0, first.take)
    shell.input_transformers_cleanup.append(first.give_back)


class _FirstLines:
    """The line that names a cell, away while IPython looks how it begins: an indent, a prompt, a magic."""

    def __init__(self) -> None:
        self._taken: list[str] = []

    def take(self, lines: list[str]) -> list[str]:
        named = lines and cell_of(lines[0])
        begin = next((n for n, line in enumerate(lines) if n and line.strip()), len(lines)) if named else 0
        self._taken = lines[:begin]
        return lines[begin:]

    def give_back(self, lines: list[str]) -> list[str]:
        is_magic = lines and lines[0].startswith("%%")
        return lines if is_magic else self._taken + lines


def in_cell(frame: FrameType) -> bool:
    """Whether a frame runs code of a cell, or of a function defined in one."""
    shell = get_ipython()
    return shell is not None and frame.f_globals is shell.user_ns and frame.f_code.co_filename != "<string>"


def name(file: str) -> str:
    """Some code's file as a learner knows it: "In [10]", "the cell" if it has no number, or "mine.py"."""
    return THE_CELL if in_the_cell(file) == THE_CELL or file.startswith("<") else os.path.basename(file)


def place(file: str, line: int) -> str:
    """ "line 3: dist.recv(x, src=1)", after the name of where it is if that is not the cell that runs."""
    elsewhere = file != _running and name(file) != THE_CELL
    code = cut(linecache.getline(file, line).strip())  # none of a function that came from ranks before these
    text = f"line {line}: {code}" if code else f"line {line}"
    return f"{name(file)}, {text}" if elsewhere else text
