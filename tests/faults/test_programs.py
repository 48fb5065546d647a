"""Each small wrong program is told in time, by cause, rank and line; mended it gives no alarm."""

import re
import time

import pytest
from IPython.utils.capture import capture_output

from labkit import LabError
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from tests.conftest import in_tiers

from . import written
from .programs import PROGRAMS, Program

LIMIT = 3.0  # seconds until the verdict
FILE = written.FILE.with_name("PROGRAMS.md")
HEAD = """# Small wrong programs, and what is told of each

By the categories of the MPI Bugs Initiative, in `torch.distributed`, each in a cell of two or three ranks.
The programs are in [programs.py](programs.py), each with the same one as it should be, of which nothing is
told. The seconds are those to the verdict, in one run; the next cell is right. This is the backend "mpi" in
checked mode, as in a lab. With gloo it is only what never ends or ends a process, and messages never waited
for. To renew this file:

    $ python -m pytest tests/faults/test_programs.py -m "" -s --write

"""
seconds_to: dict[str, tuple[str, float]] = {}


@pytest.fixture(scope="module", autouse=True)
def printed(pytestconfig):
    yield
    if pytestconfig.getoption("--write", False):
        rows = [(p.category, p.name, *_row(*seconds_to[p.name])) for p in PROGRAMS]  # a KeyError: one failed
        written.write_table(FILE, HEAD, ("category", "program", "what is told", "seconds"), rows)


def _row(verdict: str, seconds: float) -> tuple[str, str]:
    """Without what is of this run, of its warnings and of how to go on."""
    left_out = r"fix: |what was under way|.*Warning: |\s*return func\("
    lines = [line.strip() for line in verdict.splitlines() if not re.match(left_out, line)]
    return re.sub(r" \(pid \d+ on [^)]*\)| object at 0x\w+", "", "<br>".join(lines)), f"{seconds:.1f}"


def test_what_is_written_of_the_programs_is_what_is_tried():
    assert [name for _, name, *_ in written.read(FILE)] == [p.name for p in PROGRAMS]
    assert len({p.name for p in PROGRAMS}) == len(PROGRAMS) >= 40


def told(shell, lab, code: str, options: str = "") -> str:
    """All that the notebook shows of a cell."""
    error = ""
    with capture_output() as captured:
        try:
            PxMagics(shell, lab).cell_px(options, code)
        except (CellError, LabError) as raised:
            error = str(raised)
    shown = [output.data["text/plain"] for output in captured.outputs if "image/png" not in output.data]
    return "\n".join(filter(None, [*shown, error]))


def next_cell_is_right(shell, lab, new_ranks: bool) -> None:
    pids = [r.pid for r in lab.ranks]
    if not lab.is_running():
        lab.restart()
    code = (
        "x, y = torch.ones(3), torch.zeros(3)\ndist.all_reduce(x)\n"
        "w = dist.isend(x, (rank + 1) % world_size)\ndist.recv(y, (rank - 1) % world_size)\nw.wait()\n"
        "z = torch.ones(1)\ndist.all_reduce(z, group=dist.new_group())\n[y[0].item(), z.item()]"
    )
    n = float(len(lab))
    assert told(shell, lab, code).endswith(f"] [{n}, {n}]")
    assert ([r.pid for r in lab.ranks] != pids) == new_ranks


@pytest.mark.parametrize("program", in_tiers(PROGRAMS, 5, 12))
def test_a_wrong_program_is_told(labs, shell, in_time, program: Program):
    lab, start = labs(program.ranks), time.monotonic()
    verdict = told(shell, lab, program.wrong, program.options)
    seconds = time.monotonic() - start
    missing = [says for says in program.says if not re.search(says, verdict)]
    assert not missing, f"{missing} not in:\n{verdict}"
    assert len(re.findall(r"^ranks? .*: MismatchError$", verdict, re.MULTILINE)) <= 1, verdict
    assert in_time(seconds, LIMIT)
    seconds_to[program.name] = verdict, seconds
    next_cell_is_right(shell, lab, program.new_ranks)


@pytest.mark.parametrize("program", in_tiers(PROGRAMS, 8, 12))
def test_a_right_program_gives_no_alarm(labs, shell, program: Program):
    assert told(shell, labs(program.ranks), program.right + "\npass", program.options) == ""
