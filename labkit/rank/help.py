"""Completion and help for what cells have defined on this rank, for the notebook to ask while it is idle.

The control thread answers, so a cell that begins meanwhile does not wait. To find an answer nothing is
called: attributes and items are looked up where that runs no code of the learner's.
"""

import os
from functools import cache
from typing import Any

import torch
from IPython import get_ipython
from IPython.core.completer import IPCompleter, provisionalcompleter, rectify_completions
from IPython.core.guarded_eval import EVALUATION_POLICIES
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from labkit.rank import state


def install(shell: InteractiveShell) -> None:
    """`x?` and `x??` in a cell are output of it: a rank has no pager."""
    shell.set_hook("show_in_pager", _show)


def _show(shell: InteractiveShell, found: dict[str, str] | str, **screen: int) -> None:
    display(_with_cells({"text/plain": found} if isinstance(found, str) else found), raw=True)


def answer(question: str, *arguments: Any) -> Any:
    """What `complete` or `describe` returns; None if this rank runs a cell."""
    return None if state.runs_a_cell() else {"complete": complete, "describe": describe}[question](*arguments)


def complete(code: str, cursor: int) -> tuple[int, list[tuple[str, str]]]:
    """Where the last name before the cursor begins, and what it can become: each a text and its kind."""
    with provisionalcompleter():
        found = list(rectify_completions(code, _completer().completions(code, cursor)))
    if not found:
        return cursor, []
    typed = code[found[0].start : cursor]
    known = typed.rfind(".") + 1  # some versions of IPython repeat what the attribute is of
    kinds = [(c.text[known:], "" if c.type == "<unknown>" else c.type) for c in found]
    told = [
        (text, kind) for text, kind in kinds if text.startswith(typed[known:])
    ]  # a magic is none of Python
    return found[0].start + known, told


def describe(name: str, detail: int) -> dict[str, str] | None:
    """Signature, docstring and, with `detail`, source of a name, as a MIME bundle; None if unknown."""
    try:
        return _with_cells(get_ipython().object_inspect_mime(name, detail_level=detail))
    except KeyError:
        return None


def _with_cells(bundle: dict[str, str]) -> dict[str, str]:
    """Without the folder in which IPython takes the cells to be."""
    return {mime: text.replace(os.path.join(os.getcwd(), "In ["), "In [") for mime, text in bundle.items()}


@cache
def _completer() -> IPCompleter:
    completer = get_ipython().Completer
    completer.use_jedi = False  # it reads torch's sources for seconds
    policy: Any = EVALUATION_POLICIES["limited"]
    nn = torch.nn
    policy.allowed_getattr.add(nn.Module)
    policy.allowed_getitem.update({nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList})
    return completer
