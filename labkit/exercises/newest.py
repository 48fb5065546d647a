"""What the notebook's own cells say of a name: has its latest definition reached the ranks?"""

from __future__ import annotations

import re

from IPython import get_ipython
from IPython.core.inputtransformer2 import TransformerManager

PX = "%%px"


def not_on_the_ranks(name: str) -> str:
    """Why the ranks do not have the learner's latest function or class of this name, in a sentence, or "".

    A cell that defines it without %%px defines it in the notebook, and one with a syntax error nowhere: the
    ranks would go on with an older one, and nobody would know.
    """
    shell, latest = get_ipython(), _latest(rf"^(?:def|class) {re.escape(name)}\b")
    if not latest:
        return ""
    number, source = latest
    magic = source.split(maxsplit=1)[0]
    if magic.startswith("%%") and magic != PX:
        return ""
    if wrong := _syntax_error(source):
        return f"In [{number}], which defines {name}, has a {wrong}, so none of it has run"
    if magic == PX or not callable(shell.user_ns.get(name)):
        return ""
    return (
        f"You defined `{name}` in the notebook: put {PX} in the first line of In [{number}], and run it again"
    )


def defined_by(error: str) -> str:
    """Which cell defines the name that ranks miss in this error, as a sentence; "" if there is none."""
    missing = re.search(r"name '(\w+)' is not defined", error)
    if not missing:
        return ""
    name = missing[1]
    here = rf"^(?:def|class) {name}\b|^{name}\b[^=\n(]*=(?!=)|\bimport\b.*\b{name}\b"
    latest = _latest(here)
    if not latest:
        return ""
    number, source = latest
    if source.lstrip().startswith(PX):
        return f"\nIn [{number}] defines {name}: run it again, the ranks are new"
    return f"\nIn [{number}] defines {name} in the notebook, not on the ranks: bring it into a {PX} cell"


def _latest(pattern: str) -> tuple[int, str] | None:
    """The number and the text of the last cell that has such a line."""
    numbered = list(enumerate(cells()))[1:]
    return next((cell for cell in reversed(numbered) if re.search(pattern, cell[1], re.MULTILINE)), None)


def cells() -> list[str]:
    """The cells of this kernel that ran, each at its number; none outside a notebook."""
    shell = get_ipython()
    return shell.history_manager.input_hist_raw if shell and shell.history_manager else []


def _syntax_error(source: str) -> str:
    """ "syntax error in line 3", counted as the cell is, or ""."""
    first, _, rest = source.lstrip().partition("\n")
    body, above = (rest, 1) if first.startswith(PX) else (source, 0)
    try:
        compile(TransformerManager().transform_cell(body), "cell", "exec")
    except SyntaxError as error:
        return f"syntax error in line {(error.lineno or 0) + above}: {error.msg}"
    return ""
