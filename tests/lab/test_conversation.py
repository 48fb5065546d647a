"""`breakpoint()` on ranks: what is typed in the notebook, what pdb says there, and how it ends.

Lines are counted as in the editor: the first is that of %%px.
"""

import builtins
import getpass
import re
import time
from functools import partial

import pytest
from IPython.utils.capture import capture_output
from jupyter_client.manager import start_new_kernel

from labkit import LabError
from labkit.lab import remote
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from labkit.launch import processes
from tests.waiting import WITHIN, is_stopped, lasting, until, until_ranks, waits

HELP = "pdb's commands go to one rank; `rank 2` turns to another, `all p x` asks all, `go` lets all go on"


ALONE = """\
loss = torch.tensor(rank + 1.0)
if rank == 1:
    breakpoint()
    loss *= 2
dist.all_reduce(loss)
assert loss == 8"""


TRANSCRIPT = f"""\
{HELP}
[rank 1] line 4: breakpoint()
      2 loss = torch.tensor(rank + 1.0)
      3 if rank == 1:
----> 4     breakpoint()
      5     loss *= 2
      6 dist.all_reduce(loss)
rank 1 (Pdb) p loss
[rank 1] tensor(2.)
rank 1 (Pdb) n
[rank 1] line 5: loss *= 2
      3 if rank == 1:
      4     breakpoint()
----> 5     loss *= 2
      6 dist.all_reduce(loss)
      7 assert loss == 8
rank 1 (Pdb) n
[rank 1] line 6: dist.all_reduce(loss)
      4     breakpoint()
      5     loss *= 2
----> 6 dist.all_reduce(loss)
      7 assert loss == 8
rank 1 (Pdb) rank 2
rank 2 has not stopped: it is waiting, line 6: dist.all_reduce(loss)
rank 1 (Pdb) p loss
[rank 1] tensor(4.)
rank 1 (Pdb) go
"""


@pytest.mark.parametrize("backend", ["mpi", pytest.param("gloo", marks=pytest.mark.slow)])
def test_one_rank_stops_while_the_others_wait_in_all_reduce(session, labs, backend, request):
    lab = labs(3) if backend == "mpi" else request.getfixturevalue("gloo")
    typed = "p loss", "n", (partial(until_ranks, are=waits, ranks=[2]), "n"), "rank 2", "p loss", "go"
    transcript, error = session(ALONE, *typed, lab=lab)
    assert error is None
    assert transcript == TRANSCRIPT


@pytest.fixture(scope="module")
def gloo():
    import labkit

    lab = labkit.start(3, backend="gloo")
    yield lab
    lab.stop()


ALL_STOPPED = partial(until_ranks, are=is_stopped), "rank 0"
"""What is typed first, where all ranks stop: somebody is asked as soon as one has."""

EVERYWHERE = """\
def mean(x):
    total = x.clone()
    dist.all_reduce(total)
    breakpoint()
    return total / world_size
y = mean(torch.tensor([rank + 1.0]))
breakpoint()"""


@pytest.mark.parametrize("ranks", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4))])
def test_all_ranks_stop_and_go_on_to_the_next_stop(session, ranks):
    others = range(1, ranks)
    transcript, error = session(
        EVERYWHERE, ALL_STOPPED, "all p float(total)", *(f"rank {r}" for r in others), "u", "p rank", "go",
        "all y", "go", ranks=ranks,
    )  # fmt: skip
    assert error is None
    who, total = f"ranks 0-{ranks - 1}" if ranks > 1 else "rank 0", ranks * (ranks + 1) / 2
    assert (
        f"[{who}] {total}\n" in transcript
        and f"[{who}] tensor([{total / ranks:.4f}])" in transcript.replace("tensor([1.])", "tensor([1.0000])")
    )
    assert f"[rank {ranks - 1}] {ranks - 1}\n" in transcript
    assert [line for line in transcript.splitlines() if ": breakpoint()" in line][-1].endswith(
        "line 8: breakpoint()"
    )


def test_a_rank_goes_on_alone_and_is_no_deadlock(session):
    cell = "breakpoint()\ndist.barrier()"
    alone = partial(until_ranks, are=waits, ranks=[0])
    transcript, error = session(cell, ALL_STOPPED, "c", alone, "rank 0", "go", ranks=2)
    assert error is None and "rank 0 has not stopped: it is waiting, line 3: dist.barrier()" in transcript


def test_where_a_cell_fails_its_variables_can_be_asked_for(session):
    cell = "def ratio(a, b):\n    return a / b\nratio(1, rank - 1)\ndist.barrier()"
    transcript, error = session(cell, "p a, b", "u", "p rank", "c", line="--pdb")
    assert "[rank 1] line 3: return a / b" in transcript and "[rank 1] (1, 0)" in transcript
    assert "[rank 1] line 4: ratio(1, rank - 1)" in transcript
    assert "rank 1 raised an error" in str(error) and "ZeroDivisionError" not in transcript
    assert session("1 / rank", line="", ranks=2)[0] == "", "without --pdb nobody stops"


def test_no_rank_stops_at_errors_after_a_cell_with_pdb_that_a_busy_one_prevented(
    labs, shell, monkeypatch, tmp_path
):
    lab, end = labs(2), tmp_path / "end"
    busy = lab[1].execute(lasting(end), block=False)
    monkeypatch.setattr(remote, "CALL_DEADLINE", 0.5)
    with pytest.raises(LabError, match="rank 1 did not answer(?s:.*)busy"):
        PxMagics(shell, lab).cell_px("--pdb --targets 0", "1 / 0")
    end.touch()
    busy.get(WITHIN)
    lab[:].execute("from labkit.rank import debugger\nasked = debugger._after_errors", block=True)
    assert lab[:]["asked"] == [False, False]


def test_stepping_stays_in_the_learners_code(session):
    cell = "def twice(x):\n    return 2 * x\nbreakpoint()\ny = twice(torch.ones(2).sum())\nz = y"
    transcript, error = session(cell, "n", "s", "s", "p float(x)", "r", "n", "p float(y)", "c", ranks=1)
    places = re.findall(r"\[rank 0\] (?:--\w+--\n)?line (\d)", transcript)
    assert error is None and set(places) <= set("23456") and "[rank 0] 4.0" in transcript


def test_an_interrupt_while_somebody_is_asked_ends_the_cell(session):
    def interrupted(lab):
        raise KeyboardInterrupt

    transcript, error = session(ALONE, "p rank", interrupted)
    assert str(error).startswith("interrupted")


def test_what_comes_too_late_for_a_stop_is_not_told_to_the_next(session):
    def too_late(lab):
        remote.interrupt(lab, [0])
        until_ranks(lab, lambda state: not is_stopped(state))
        remote.tell_debugger(lab, [0], "p 'stale'")

    transcript, error = session("breakpoint()", too_late, ranks=1)
    assert isinstance(error, CellError)
    transcript, error = session("breakpoint()", "p 'fresh'", "go", ranks=1)
    assert error is None and "[rank 0] 'fresh'" in transcript and "stale" not in transcript


def test_a_rank_that_dies_while_it_is_stopped_is_told(session, labs):
    lab = labs(2)
    transcript, error = session(
        "if rank == 1:\n    breakpoint()\ndist.barrier()", lambda lab: lab.ranks[1].process().kill(), lab=lab
    )
    assert re.search(r"rank 1 \(pid .*\) died: Killed", str(error))


def test_quit_ends_the_cell(session):
    transcript, error = session("breakpoint()", ALL_STOPPED, "all q", ranks=2)
    assert isinstance(error, CellError)


def test_the_deadline_is_on_hold(session):
    transcript, error = session("breakpoint()", lambda lab: time.sleep(6), "go", line="--deadline 5", ranks=1)
    assert error is None


def test_where_nobody_can_type_ranks_go_on(labs, shell, monkeypatch):
    def nobody(prompt):
        raise OSError("reading from stdin")

    monkeypatch.setattr(builtins, "input", nobody)
    with capture_output() as captured:
        PxMagics(shell, labs(2)).cell_px("", "breakpoint()\nbreakpoint()\nprint('done')")
    assert captured.stdout.count("nobody can type here: the ranks go on") == 1
    assert "done" in captured.outputs[-1].data["text/plain"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_input_field_of_a_notebook(tmp_path):
    manager, client = start_new_kernel(startup_timeout=150)
    asked, answers = [], iter(["p rank + 40", "go"])
    try:

        def type_in(message):
            asked.append(message["content"]["prompt"])
            client.input(next(answers))

        def run(code):
            said = []
            reply = client.execute_interactive(
                code, allow_stdin=True, stdin_hook=type_in, timeout=150,
                output_hook=lambda m: said.append(m["content"].get("text", "")),
            )  # fmt: skip
            assert reply["content"]["status"] == "ok", reply
            return "".join(said)

        run("import labkit\nlab = labkit.start(2)")
        said = run("%%px\nif rank == 1:\n    breakpoint()\ndist.barrier()")
        assert asked == ["rank 1 (Pdb) "] * 2 and "[rank 1] 41" in said
        run("lab.stop()")
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("now", [True, False], ids=["killed", "asked to end"])
def test_a_kernel_that_is_restarted_while_a_rank_is_stopped_leaves_nothing(now):
    manager, client = start_new_kernel(startup_timeout=150)
    try:
        said = []
        client.execute_interactive(
            "import labkit\nlab = labkit.start(2)\nprint(lab._engines.lab_id)", timeout=150,
            output_hook=lambda m: said.append(m["content"].get("text", "")),
        )  # fmt: skip
        lab_id = "".join(said).strip()
        assert len(processes.of_lab(lab_id)) > 4
        client.execute("%%px\nif rank == 1:\n    breakpoint()\ndist.barrier()", allow_stdin=True)
        assert client.get_stdin_msg(timeout=60)["content"]["prompt"] == "rank 1 (Pdb) "
        manager.restart_kernel(now=now)
        assert until(lambda: not processes.of_lab(lab_id)), processes.of_lab(lab_id)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


WAYS = {
    "pdb": "import pdb\npdb.set_trace()",
    "pdb in one line": "import pdb; pdb.set_trace()\n0",
    "pdb with a header": "from pdb import set_trace\nset_trace(header='look')",
    "a debugger of one's own": "import pdb\npdb.Pdb().set_trace()",
    "one for children": (
        "import pdb, sys\nclass ForkedPdb(pdb.Pdb):\n    def interaction(self, *args):\n"
        "        before, sys.stdin = sys.stdin, open('/dev/stdin')\n"
        "        pdb.Pdb.interaction(self, *args)\n        sys.stdin = before\nForkedPdb().set_trace()"
    ),
    "IPython": "from IPython.core.debugger import set_trace\nset_trace()",
    "torch, on one rank": "dist.breakpoint(rank=0)",
    "after a call": "import pdb\ndef f():\n    pdb.set_trace()\nf()",
}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_stops_in_pdb_stops_in_the_notebook(session, way):
    transcript, error = session(f"n = 6 * 7\n{WAYS[way]}", "p n", "go", ranks=1)
    assert error is None and "[rank 0] 42\n" in transcript
    assert re.search(r"\[rank 0\] (look\n)?line \d+: .*(set_trace|breakpoint)\(", transcript), transcript


def test_breakpoint_of_torch_stops_one_rank_for_which_the_others_wait(session):
    cell = "for n in range(3):\n    dist.breakpoint(rank=1, skip=2)\ntotal = n"
    transcript, error = session(cell, "p n", "go", ranks=2)
    assert error is None and "[rank 1] line 3: dist.breakpoint(rank=1, skip=2)" in transcript
    assert "[rank 1] 2\n" in transcript


@pytest.mark.parametrize("look", ["import pdb; pdb.pm()", "%debug"])
def test_the_error_of_the_cell_before_can_be_looked_at(session, labs, shell, look):
    lab = labs(1)
    with capture_output(), pytest.raises(CellError):
        PxMagics(shell, lab).cell_px("", "def ratio(n):\n    return 1 / n\nratio(0)")
    transcript, error = session(look, "p n", "go", lab=lab)
    assert error is None and "[rank 0] line 3" in transcript and "[rank 0] 0\n" in transcript
    transcript, error = session(look, lab=lab)
    assert "the cell before has raised none" in str(error)


def test_an_error_that_was_caught_can_be_looked_at(session):
    cell = "import pdb\ntry:\n    n = 3\n    1 / 0\nexcept ZeroDivisionError:\n    pdb.post_mortem()"
    transcript, error = session(cell, "p n", "go", ranks=1)
    assert error is None and "[rank 0] line 5: 1 / 0" in transcript and "[rank 0] 3\n" in transcript


def test_a_debugger_that_was_quit_ends_the_cell_as_an_interrupt_does(labs, shell):
    with capture_output(), pytest.raises(CellError, match=r"KeyboardInterrupt \(line 3: raise bdb.BdbQuit\)"):
        PxMagics(shell, labs(1)).cell_px("", "import bdb\nraise bdb.BdbQuit")


def test_input_is_answered_in_the_notebook_by_rank(session):
    cell = "total = torch.tensor(int(input('how many? ')) + rank)\ndist.all_reduce(total)\nassert total == 64"
    transcript, error = session(cell, "10", "20", "31", ranks=3)
    assert error is None
    assert transcript.splitlines() == [
        f"rank {r} asks: how many? {answer}" for r, answer in enumerate((10, 20, 31))
    ]


def test_input_of_one_rank_again_and_again_and_with_nothing(session):
    cell = "said = []\nif rank == 1:\n    while line := input(f'{len(said)}> '): said.append(line)\n"
    transcript, error = session(
        f"{cell}assert rank == 0 or said == ['a b', ' c ']", "a b", " c ", "", ranks=2
    )
    assert error is None and transcript == "rank 1 asks: 0> a b\nrank 1 asks: 1>  c \nrank 1 asks: 2> \n"


def test_input_in_a_thread_in_an_await_and_in_code_interact(session):
    cell = """import asyncio, code, threading
thread = threading.Thread(target=lambda: answers.append(input('thread ')))
answers = []
thread.start()
thread.join()
answers.append(await asyncio.to_thread(input, 'await '))
code.interact(local=globals(), exitmsg='') if rank else None
assert answers == ['one', 'two'], answers"""
    transcript, error = session(cell, "one", "two", ranks=1)
    assert error is None, (transcript, error)
    assert transcript == "rank 0 asks: thread one\nrank 0 asks: await two\n"


def test_a_password_is_asked_for_as_one(session, monkeypatch):
    monkeypatch.setattr(
        getpass, "getpass", lambda prompt: "secret" if prompt == "rank 0 asks: key: " else "no"
    )
    transcript, error = session("import getpass\nassert getpass.getpass('key: ') == 'secret'", ranks=1)
    assert error is None and transcript == ""


def test_an_interrupt_while_input_is_asked_for_ends_the_cell(session):
    def interrupted(lab):
        raise KeyboardInterrupt

    transcript, error = session("input('how many? ')\ndist.barrier()", interrupted, ranks=2)
    assert str(error).startswith("interrupted")


def test_input_and_pdb_of_different_ranks_at_once(session):
    cell = "breakpoint() if rank == 0 else input('name? ')\ndist.barrier()"
    transcript, error = session(cell, (partial(until_ranks, are=is_stopped), "go"), "go", ranks=2)
    assert error is None and {"rank 1 asks: name? go", "rank 0 (Pdb) go"} <= set(transcript.splitlines())


def test_where_nobody_can_type_input_says_so(labs, shell, monkeypatch):
    def nobody(prompt):
        raise OSError("reading from stdin")

    monkeypatch.setattr(builtins, "input", nobody)
    monkeypatch.setattr(getpass, "getpass", nobody)
    for call in ("input('how many? ')", "__import__('getpass').getpass()"):
        with capture_output(), pytest.raises(CellError, match=r"on a rank(?s:.*)nobody can type here"):
            PxMagics(shell, labs(2)).cell_px("", call)
    cell = "try: name = input()\nexcept EOFError: name = 'the default'\nname"
    with capture_output() as captured:
        PxMagics(shell, labs(2)).cell_px("", cell)
    assert captured.outputs[-1].data["text/plain"] == "[ranks 0-1] 'the default'"


def test_where_nobody_follows_a_cell_input_says_so(labs):
    result = labs(2)[0].execute(
        "from labkit.rank import debugger\ndebugger.UNHEARD = 0.2\ninput()", block=False
    )
    with pytest.raises(Exception, match="nobody can type here"):
        result.get(WITHIN)
