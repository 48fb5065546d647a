"""A conversation with ranks that have stopped in pdb, from a script of what is typed."""

import builtins
import re

import pytest
from IPython.utils.capture import capture_output

COLOUR = re.compile(r"\x1b\[\d+m")
NEXT = "total = torch.ones(1)\ndist.all_reduce(total)\nassert total == world_size"


@pytest.fixture
def session(labs, shell, monkeypatch):
    """`session(cell, *typed)` runs a cell on a lab and types that; the transcript, and how the cell ended.

    What is typed is a line; or what to do with the lab instead, after which nothing is typed; or both in a
    pair: the first is done, then the second is typed. Ranks that are told to go on are waited for until they
    have stopped again, or wait for others, however long that takes.
    """

    from labkit import LabError
    from labkit.lab import conversation
    from labkit.lab.outcome import CellError
    from labkit.lab.px import PxMagics

    monkeypatch.setattr(conversation, "ANSWERED", 30.0)

    def session(cell: str, *typed, line: str = "", ranks: int = 3, lab=None):
        script, lab = list(typed), lab or labs(ranks)

        def type_in(prompt):
            answer = script.pop(0)
            if isinstance(answer, tuple):
                first, answer = answer
                first(lab)
            print(prompt + repr(answer) if callable(answer) else prompt + answer)
            if callable(answer):
                answer(lab)
                return ""
            return answer

        monkeypatch.setattr(builtins, "input", type_in)
        magics, error = PxMagics(shell, lab), None
        with capture_output() as captured:
            try:
                magics.cell_px(line, cell)
            except (CellError, LabError) as raised:
                error = raised
        assert not script, f"never asked for {script}\n{captured.stdout}"
        if lab.is_running():
            magics.cell_px("", NEXT)
        return COLOUR.sub("", captured.stdout), error

    return session
