"""Tab, Shift+Tab and the options of %%px, in cells that run on ranks: any front end asks the kernel for them.

A rank that is idle says what its names stand for. Of one that is busy, or asked too much, nobody waits: then
there is what cells say, and what this kernel itself knows.
"""

import re
import threading
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any, Protocol

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.tokenutil import token_at_cursor

from labkit import LabError
from labkit.lab.remote import Reachable, ask_help

JEDI = "IPCompleter.jedi_matcher"
"""It reads sources, for a second or more: who types has gone on by then."""
MAGIC = re.compile(r"%%px(?=\s|$)")
_IMPORT = re.compile(r"\s*(from|import)\s")  # this kernel's completer knows what can be imported
_NAME = re.compile(r"(?:[^\W\d]\w*\.)*\w*$")
_TARGETS = re.compile(r"(?:--targets|-t)[ =](\S*)")


class Cells(Protocol):
    """What of `%%px` it takes to help with its cells."""

    @property
    def lab(self) -> Reachable: ...

    @property
    def options(self) -> ArgumentParser: ...

    @property
    def shell(self) -> InteractiveShell: ...

    def ranks(self, named: str) -> list[int]:
        """The ranks that the text after --targets names. Else LabError."""


class Help:
    """Completion and inspection in the cells of one notebook."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells

    @context_matcher(identifier="labkit", priority=100)
    def complete(self, context: CompletionContext) -> SimpleMatcherResult:
        """A matcher of IPython's completer. It leaves room for others only where no rank has answered."""
        if not MAGIC.match(context.full_text) or _IMPORT.match(context.line_with_cursor):
            return _result("", {})
        if context.cursor_line == 0:
            return _result(*option(context.text_until_cursor, self.cells.options, len(self.cells.lab.ranks)))
        typed = _NAME.search(context.text_until_cursor)[0]
        lines = ["", *context.full_text.split("\n")[1:]]
        code = "\n".join(lines)
        cursor = len("\n".join(lines[: context.cursor_line])) + 1 + context.cursor_position
        answer = self._ask(context.full_text, "complete", code, cursor)
        if answer is None:
            earlier = (cell for cell in self.cells.shell.history_manager.input_hist_raw if MAGIC.match(cell))
            part, told = words([*earlier, code], typed)
            return _result(part, told | self._own(context, part), alone={JEDI})
        start, found = answer
        fragment, here = words([code], typed)
        if fragment != code[start:cursor]:  # a key of a dict, a file
            here = {}
        return _result(code[start:cursor], here | dict(found))

    def _own(self, context: CompletionContext, part: str) -> dict[str, str]:
        """What this kernel knows such names to stand for."""
        found = self.cells.shell.Completer.python_matcher(context)["completions"]
        names = ((known.text.rpartition(".")[2], known.type or "") for known in found)
        return {name: kind for name, kind in names if name.startswith(part)}

    def inspect(self, code: str, cursor: int, detail: int) -> dict[str, str] | None:
        """What a rank says of the name at the cursor; None if that is for this kernel to say."""
        first, newline, rest = code.partition("\n")
        if not MAGIC.match(first) or cursor <= len(first):
            return None
        name = token_at_cursor(newline + rest, cursor - len(first))
        return self._ask(code, "describe", name, detail) if name else None

    def _ask(self, cell: str, *question: str | int) -> Any:
        """The answer of rank 0, or of the first that the cell's --targets name; None if it gives none."""
        if threading.current_thread() is not threading.main_thread():
            return None  # that one waits for ranks, and it alone may find that some have died
        named = _TARGETS.search(cell.split("\n", 1)[0])
        try:
            rank = self.cells.ranks(named[1])[0] if named else 0
        except LabError:
            rank = 0
        return ask_help(self.cells.lab, rank, *question)


def option(line: str, options: ArgumentParser, world_size: int) -> tuple[str, dict[str, str]]:
    """What the last word of %%px's own line can become: an option, or what an option takes."""
    before, _, typed = line.rpartition(" ")
    taking = before.rsplit(" ", 1)[-1]
    known = {name: action for action in options._actions for name in action.option_strings}
    if taking in ("--targets", "-t"):
        typed = typed.rpartition(",")[2]
        offered: Iterable[str] = [*map(str, range(world_size)), "all"]
    elif taking in known and known[taking].nargs is None:
        offered = map(str, known[taking].choices or ())
    else:
        offered = (name for name in known if name.startswith("--"))
    return typed, {word: "param" for word in offered if before and word.startswith(typed)}


def words(texts: Iterable[str], typed: str) -> tuple[str, dict[str, str]]:
    """What the last part of a dotted name can become, for all that these texts say.

    >>> words(["dist.all_reduce(x); dist.barrier(); allowed = 1"], "dist.al")
    ('al', {'all_reduce': ''})
    """
    known, dot, part = typed.rpartition(".")
    pattern = re.compile(rf"(?<![\w.]){re.escape(known + dot)}({re.escape(part)}\w*)")
    found = (match[1] for text in texts for match in pattern.finditer(text))
    return part, {word: "" for word in found if word.isidentifier() and word != part}


def _result(fragment: str, found: dict[str, str], alone: bool | set[str] = True) -> SimpleMatcherResult:
    completions = [SimpleCompletion(text=text, type=kind or None) for text, kind in found.items()]
    about: SimpleMatcherResult = {
        "completions": completions, "matched_fragment": fragment, "suppress": alone, "do_not_suppress": set(),
        "ordered": False,
    }  # fmt: skip
    return about


def install(cells: Cells) -> None:
    """Complete and inspect in these cells from now on, in the place of those before."""
    matchers = cells.shell.Completer.custom_matchers
    for there in (getattr(matcher, "__self__", None) for matcher in matchers):
        if isinstance(there, Help):
            there.cells = cells
            return
    helper, kernel = Help(cells), getattr(cells.shell, "kernel", None)
    matchers.append(helper.complete)
    if kernel is None:
        return
    own = kernel.do_inspect

    def do_inspect(code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()) -> dict:
        bundle = helper.inspect(code, cursor_pos, detail_level)
        if bundle is None:
            return own(code, cursor_pos, detail_level, omit_sections)
        return {"status": "ok", "found": True, "data": bundle, "metadata": {}}

    kernel.do_inspect = do_inspect
