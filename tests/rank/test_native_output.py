"""What native code writes reaches the notebook, and what it wrote last is told of a rank that ended."""

import os

import pytest
from IPython.utils.capture import capture_output

from labkit import LabError, launch
from labkit.lab.lab import Lab
from labkit.lab.px import PxMagics
from labkit.launch import endings
from labkit.rank.native_output import LastWords
from tests.conftest import in_tiers

WRITES = """
import ctypes, os
python = ctypes.PyDLL(None)  # keeps the interpreter to itself: no thread of Python's can read what is written
if rank == 1:
    {}
dist.barrier()
"""
ENDS = {  # how a rank ends, and what is told of it
    "ctypes.PyDLL('libstdc++.so.6')._ZSt9terminatev()": "Aborted (signal 6), and wrote: "
    "terminate called without an active exception",
    "python.dprintf(2, b'one\\ntwo\\n'); python.abort()": "Aborted (signal 6), and wrote: two",
    "python.abort()": "Aborted (signal 6)",
}


@pytest.fixture
def lab(monkeypatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)  # ipykernel would leave native output alone
    lab = Lab(launch.plan(2))
    yield lab
    lab.stop()


def run(lab: Lab, shell, cell: str) -> str:
    with capture_output() as captured:
        PxMagics(shell, lab).cell_px("", cell)
    return "\n".join(output.data["text/plain"] for output in captured.outputs)


@pytest.mark.ranks
@pytest.mark.parametrize("end", in_tiers(ENDS, 1, 2))
def test_a_rank_that_is_aborted_has_its_last_words_told(lab, shell, end):
    with pytest.raises(LabError) as caught:
        run(lab, shell, WRITES.format(end))
    assert caught.value.found.partition(" died: ")[2] == ENDS[end]


@pytest.mark.ranks
def test_what_processes_and_libraries_write_is_shown(lab, shell):
    many = "yes | head -c 100000; yes n | head -c 100000 >&2"  # more than pipes hold
    cell = f"import os\nos.write(1, b'one')\nos.write(2, b'two')\n_ = os.system('{many}')"
    text = run(lab, shell, cell)
    assert "one" in text and "two" in text and min(text.count("y"), text.count("n")) > 100
    assert run(lab, shell, "print('next')") == "[ranks 0-1] next"


@pytest.mark.ranks
def test_streams_are_those_of_a_script(lab, shell):
    """Half a character, a file descriptor for a child and for Python's own tracebacks, and other settings."""
    cell = (
        "import faulthandler, subprocess, sys\n"
        "sys.stdout.reconfigure(encoding='utf-8', line_buffering=True)\n"
        "for half in (b'\\xc3', b'\\xa4\\n'): sys.stdout.buffer.write(half)\n"
        "_ = subprocess.run(['echo', 'of a child'], stdout=sys.stdout, stderr=sys.stderr)\n"
        "faulthandler.dump_traceback(sys.stderr)"
    )
    text = run(lab, shell, cell)
    assert all(said in text for said in ("ä", "of a child", "most recent call first"))


@pytest.mark.parametrize("given", [True, False])
def test_what_is_left_in_the_pipe_is_heard_once_the_child_has_ended(given):
    words = LastWords()
    child = os.fork()
    if child == 0:
        reading, writing = os.pipe()
        if given:
            words.give(reading)
        os.write(writing, b"read")
        os.read(reading, 4)
        os.write(writing, b"left")
        os._exit(0)
    os.waitpid(child, 0)
    before = len(os.listdir("/proc/self/fd"))
    assert words.heard() == ("left" if given else "")
    assert len(os.listdir("/proc/self/fd")) == before - 2


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("", ""),
        (" \n", ""),
        ("a\nb\x1b[0m\n\n", ", and wrote: b [0m"),
        ("terminate called after throwing an instance of 'E'\n  what():  no\nframe #0\n", ", and wrote: no"),
        ("labkit: PID 9 ON b ENDED: 3", ", and wrote: labkit: PID 9 ON b ENDED: 3"),
        ("y" * 1000, ", and wrote: " + "y" * 300),
    ],
)
def test_the_line_that_says_why_is_told(written, told):
    found = endings.first(endings.said(71, -6, written))
    assert (found.how, found.pid) == ("Aborted (signal 6)" + told, 71)
