"""Whatever a cell does to its streams, or sends through them, it ends, and the next cell is right."""

import re

import pytest
from IPython.utils.capture import capture_output

from labkit import launch
from labkit.lab.display.long_output import MAX_CHARACTERS
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics

pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module")
def lab():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_CURRENT_TEST", raising=False)  # ipykernel would leave native output alone
        lab = Lab(launch.plan(2))
    yield lab
    lab.stop()


@pytest.fixture
def run(lab, shell):
    """Run a cell, and the next one, which is right on the same ranks; what the first has told."""

    def shown(cell: str) -> str:
        with capture_output() as captured:
            PxMagics(shell, lab).cell_px("--deadline 30", cell)
        return "\n".join(output.data.get("text/plain", "") for output in captured.outputs)

    def run(cell: str) -> str:
        pids = [r.pid for r in lab.ranks]
        try:
            told = shown(f"import contextlib, io, os, sys, time, IPython.display\n{cell}")
        except CellError as error:
            told = str(error)
        after = shown("import os, sys\nprint('after'); print('wrong', file=sys.stderr); 40 + 2")
        assert after == "[ranks 0-1] after\n            wrong\n            42"
        assert [r.pid for r in lab.ranks] == pids
        return told

    return run


BROKEN = """
class Broken(io.StringIO):
    def flush(self): raise OSError("no")
    write = flush
sys.stdout = sys.stderr = Broken()
"""
STREAMS = {  # what a cell does to a stream, and what is told of it
    "sys.stdout.close()": "",
    "print('before'); sys.stdout = None; print('lost')": "[ranks 0-1] before",
    "sys.stdout = sys.stderr = sys.stdin = None": "",
    "sys.stdin.close()": "",
    "sys.stdout = open(os.devnull, 'w'); sys.stdout.close()": "",
    "del sys.stdout, sys.stderr": "ranks 0-1: AttributeError: module 'sys' has no attribute 'stdout'",
    "sys.__stdout__ = sys.__stderr__ = None": "",
    "contextlib.redirect_stdout(io.StringIO()).__enter__(); print('lost')": "",
    "sys.stderr.close()\n1 / 0": "ranks 0-1: ZeroDivisionError: division by zero (line 4: 1 / 0)",
    "sys.stdout = None\nraise ValueError('x')": "ranks 0-1: ValueError: x (line 4: raise ValueError('x'))",
    BROKEN: "",
    f"{BROKEN}1 / 0": "ranks 0-1: ZeroDivisionError: division by zero (line 8: 1 / 0)",
    "sys.stdout = 'text'": "",
    "sys.stdout = io.TextIOWrapper(sys.stdout.buffer); sys.stdout.close()": "",
    "sys.stdout.flush = sys.stdout.write = None": "",
    "os.close(0)": "",
    "_ = os.dup2(os.open(os.devnull, os.O_WRONLY), 1)": "",
    "_ = os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())": "",
    "os.closerange(0, 3)": "",
    "sys.setrecursionlimit(45)": "",
}


@pytest.mark.parametrize("cell", STREAMS)
def test_streams_are_put_back_at_the_end_of_a_cell(run, cell):
    assert run(cell) == STREAMS[cell]


@pytest.mark.parametrize("cell", ["os.close(1)", "os.closerange(1, 3)", "_ = os.dup2(2, 1)"])
def test_what_native_code_writes_is_heard_after_its_descriptor_was_closed(run, cell):
    run(cell)
    assert run("_ = os.system('echo native'); time.sleep(0.5)") == "[ranks 0-1] native"


def test_a_call_has_its_streams_put_back(lab, run):
    def ends() -> int:
        import sys

        sys.stdout = sys.stderr = None
        return 1

    assert lab[:].apply_sync(ends) == [1, 1]
    assert run("print('heard')") == "[ranks 0-1] heard"


SHOWN = """
class Shown:
    def {method}(self, *args, **options):
        {does}
"""


def raises(method: str, does: str = 'raise RuntimeError("mine")') -> str:
    return SHOWN.format(method=method, does=does)


OUTPUT = {  # what a cell sends, and what is told of it
    r"print('half \ud83d')": r"[ranks 0-1] half \ud83d",
    r"print('half \ud83d', file=sys.stderr)": r"[ranks 0-1] half \ud83d",
    r"raise ValueError('half \ud83d')": r"ranks 0-1: ValueError: half \ud83d (line 3",
    r"display({'text/plain': 'half \ud83d'}, raw=True)": r"[ranks 0-1] half \ud83d",
    "display({'text/plain': 'x'}, metadata={'a': float('nan'), (1,): {2}}, raw=True)": "[ranks 0-1] x",
    raises("__repr__") + "Shown()": 'ranks 0-1: RuntimeError: mine (line 6: raise RuntimeError("mine"))',
    raises("__repr__")
    + "display(Shown())": 'ranks 0-1: RuntimeError: mine (line 6: raise RuntimeError("mine"))',
    raises("__repr__")
    + "print([Shown()])": 'ranks 0-1: RuntimeError: mine (line 6: raise RuntimeError("mine"))',
    raises("__repr__", "return 3") + "Shown()": "ranks 0-1: TypeError: __repr__ returned non-string",
    raises("_repr_html_") + "Shown()": 'ranks 0-1: RuntimeError: mine (line 6: raise RuntimeError("mine"))',
    raises("_repr_mimebundle_", "return {'text/plain': 'mine', 'application/json': {1: object}}")
    + "Shown()": "mine",
    "class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E": "E: <its __str__ raised",
}


@pytest.mark.parametrize("cell", OUTPUT)
def test_what_cannot_be_sent_as_it_is_is_told(run, cell):
    assert OUTPUT[cell] in run(cell)


MUCH = {
    "stderr": "print('x' * 30_000_000, file=sys.stderr)",
    "lines of stderr": "for n in range(5_000): print(n, file=sys.stderr)",
    "a result": "'x' * 30_000_000",
    "a page": "IPython.display.HTML('x' * 30_000_000)",
    "an error": "raise ValueError('x' * 30_000_000)",
    "lines of an error": "raise ValueError('x\\n' * 1_000_000)",
    "displays": "for n in range(3_000): display(n)",
    "a recursion": "def f(n): return f(n + 1)\nf(0)",
    "a recursion of two": "def f(n): return g(n)\ndef g(n): return f(n)\nf(0)",
    "a group": "raise ExceptionGroup('several', [ValueError(n) for n in range(10_000)])",
    "a chain": """
def f(n):
    try: f(n - 1) if n else 1 / 0
    except Exception as e: raise ValueError('x' * 999) from e
f(200)
""",
    "a long chain": "e = None\nfor n in range(9_999): f = ValueError(n); f.__context__ = e; e = f\nraise e",
    "notes": "e = ValueError()\nfor n in range(9_999): e.add_note('x' * 99)\nraise e",
}


@pytest.mark.parametrize("cell", MUCH)
def test_much_output_is_cut(lab, shell, run, cell):
    with capture_output() as captured:
        try:
            PxMagics(shell, lab).cell_px("--deadline 60", "import sys, IPython.display\n" + MUCH[cell])
        except CellError as error:
            told = len(str(error)) + len("\n".join(error._render_traceback_()))
        else:
            told = sum(len(str(output.data)) for output in captured.outputs)
    assert 0 < told < 4 * MAX_CHARACTERS
    assert run("print('heard')") == "[ranks 0-1] heard"


def test_the_line_that_recurses_is_shown_and_how_often(lab, shell):
    with pytest.raises(CellError) as caught, capture_output():
        PxMagics(shell, lab).cell_px("", "def f(n): return f(n + 1)\nf(0)")
    lines = "\n".join(caught.value._render_traceback_())
    assert "----> 2" in re.sub(r"\x1b\[\d+m", "", lines) and re.search(
        r"\.\.\. [\d,]+ calls in between", lines
    )
