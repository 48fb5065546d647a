"""%%px: one result per cell in rank order, a verdict where it cannot end, and the next cell runs."""

import time

import pytest
from IPython.utils.capture import capture_output

from labkit import LabError
from labkit.lab import remote
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from tests.waiting import NO_HURRY


@pytest.fixture
def px(labs, shell):
    """Run a cell on a lab of n ranks; returns the text that the notebook would store."""

    def run(code, line="", ranks=4, lab=None):
        magics = PxMagics(shell, lab or labs(ranks))
        with capture_output() as captured:
            magics.cell_px(line, code)
        assert not captured.stdout and not captured.stderr
        return "\n".join(output.data["text/plain"] for output in captured.outputs)

    return run


def test_output_comes_in_rank_order(px):
    assert px("import time; time.sleep(0.1 * (3 - rank)); print('hello from rank', rank)") == "\n".join(
        f"[rank {r}] hello from rank {r}" for r in range(4)
    )


def test_equal_output_once(px):
    assert px("print(world_size)") == "[ranks 0-3] 4"
    assert px("print(rank % 2)") == "[ranks 0, 2] 0\n[ranks 1, 3] 1"


def test_last_expression(px):
    assert px("torch.full((2, 2), 7)", ranks=2) == "[ranks 0-1] tensor([[7, 7],\n                    [7, 7]])"


@pytest.mark.parametrize(
    "line, who", [("--targets 1", "rank 1"), ("--targets 0,2", "ranks 0, 2"), ("-t 1:3", "ranks 1-2")]
)
def test_targets(px, line, who):
    assert px("'here'", line) == f"[{who}] 'here'"


@pytest.mark.parametrize("leave", ["exit()", "quit()"])
def test_a_rank_does_not_leave_a_moment_after_the_cell(labs, px, leave):
    """It ends the cell, as it ends a script."""
    lab = labs(2)
    told = px(f"print('above')\n{leave}\nprint('below')", lab=lab)
    assert told.startswith("[ranks 0-1] above\nranks 0-1: exit() has ended the cell") and "lab.stop()" in told
    assert px("rank", lab=lab) == "[rank 0] 0\n[rank 1] 1"


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(0)", "raise SystemExit", "sys.exit(dist.barrier())"])
def test_an_end_in_good_order_is_no_error(px, end):
    assert px(f"import sys\nprint('above')\n{end}\nprint('below')", ranks=2) == "[ranks 0-1] above"


@pytest.mark.parametrize("end", ["sys.exit(3)", "sys.exit('no data')", "exit(3)"])
def test_an_end_that_reports_a_failure_is_one(px, end):
    with pytest.raises(CellError, match=r"SystemExit: (3|no data) \(line 3"):
        px(f"import sys\n{end}", ranks=2)


def test_who_waits_for_a_rank_that_has_ended_in_good_order_is_told(px):
    with pytest.raises(CellError, match=r"deadlock: rank 1 finished the cell"):
        px("import sys\nif rank == 1:\n    sys.exit(0)\ndist.barrier()", ranks=2)


@pytest.mark.parametrize("asked", ["99", "abc", "[0", "0,9", "[]", "7:", "1.5", "{}", "__import__('os')"])
def test_targets_that_are_none_are_told(labs, shell, asked):
    with pytest.raises(LabError, match=r"ranks 0 to 1(?s:.*)write one as 1"):
        PxMagics(shell, labs(2)).cell_px(f"--targets {asked}", "rank")


def test_a_long_message_is_cut_and_costs_no_time(labs, shell):
    lab, start = labs(2), time.process_time()
    with pytest.raises(CellError, match="98,002 characters") as caught:
        PxMagics(shell, lab).cell_px("", "raise ValueError('x' * 100_000 + 'yz')")
    assert time.process_time() - start < 3
    assert len(str(caught.value)) < 3000 and "xyz" in str(caught.value)


def test_silence(px):
    assert px("x = 1") == ""


def test_noblock_then_pxresult(labs, shell):
    magics = PxMagics(shell, labs(2))
    assert magics.cell_px("--noblock", "rank") is not None
    with capture_output() as captured:
        magics.result("")
    assert captured.outputs[0].data["text/plain"] == "[rank 0] 0\n[rank 1] 1"


def test_pxresult_before_any_cell_says_so(labs, shell):
    with pytest.raises(LabError, match="these ranks have run no cell yet"):
        PxMagics(shell, labs(2)).result("")


def test_out_names_the_result(px, shell):
    px("rank", "-o answer", ranks=2)
    assert len(shell.user_ns["answer"].get()) == 2


def test_an_error_names_rank_and_line_and_loses_nothing(px):
    with pytest.raises(CellError) as caught:
        px("kept = rank\nif rank == 2:\n    raise ValueError('bad')")
    assert str(caught.value) == "rank 2: ValueError: bad (line 4: raise ValueError('bad'))"
    rendered = "\n".join(caught.value._render_traceback_())
    assert rendered.count("ValueError: bad") >= 1 and rendered.endswith(str(caught.value))


def test_one_cause_on_all_ranks_is_shown_once(px):
    with pytest.raises(CellError, match=r"^ranks 0-3: ZeroDivisionError") as caught:
        px("1 / 0")
    assert "\n".join(caught.value._render_traceback_()).count("Cell In [") == 1


def test_a_syntax_error_is_an_error_of_every_rank(px):
    with pytest.raises(CellError, match=r"^ranks 0-3: SyntaxError"):
        px("if rank = 0: pass")


def test_the_deadline_ends_a_loop_and_keeps_the_namespace(px, labs, monkeypatch):
    monkeypatch.setattr(remote, "RETURN_DEADLINE", NO_HURRY)
    lab = labs(4)
    px("kept = 10 * rank", lab=lab)
    with pytest.raises(CellError) as caught:
        px("import time\nwhile True:\n    time.sleep(100)", "--deadline 3", lab=lab)
    assert str(caught.value) == "the deadline of 3 s passed\nranks 0-3 at line 4: time.sleep(100)"
    assert lab[:]["kept"] == [0, 10, 20, 30]


@pytest.mark.parametrize("seconds", [1.5])
def test_a_straggler_is_no_fault(px, seconds):
    start = time.monotonic()
    assert (
        px(f"import time; time.sleep({seconds} * rank); dist.barrier(); print('met')", ranks=3)
        == "[ranks 0-2] met"
    )
    assert time.monotonic() - start > 2 * seconds


def test_trace_draws_after_the_cell_and_keeps_the_trace(labs, shell):
    lab = labs(2)
    with capture_output() as captured:
        PxMagics(shell, lab).cell_px("--trace", "x = torch.zeros(2)\ndist.all_reduce(x)\nx.sum()")
    text, figure = captured.outputs
    assert text.data["text/plain"].endswith("tensor(0.)") and "Figure" in figure.data["text/plain"]
    events = [(e.rank, e.verb, e.place) for e in lab.last.trace.events if e.verb != "compute"]
    assert sorted(events) == [(r, "all_reduce", "line 3: dist.all_reduce(x)") for r in (0, 1)]


def test_trace_of_a_cell_that_fails(labs, shell):
    lab = labs(2)
    magics = PxMagics(shell, lab)
    with capture_output() as captured, pytest.raises(CellError, match="deadlock"):
        magics.cell_px("--trace", "dist.barrier()\nif rank == 0:\n    dist.recv(torch.zeros(1), src=1)")
    assert "Figure" in captured.outputs[-1].data["text/plain"]
    verbs = [(e.rank, e.verb) for e in lab.last.trace.events if e.verb != "compute"]
    assert sorted(verbs) == [(0, "barrier"), (0, "recv"), (1, "barrier")]
    (stuck,) = [e for e in lab.last.trace.events if e.verb == "recv"]
    assert stuck.waiting == pytest.approx(stuck.end - stuck.start) and stuck.waiting > 0.5
    with capture_output() as captured:
        magics.cell_px("", "dist.barrier()\n'usable'")
    assert captured.outputs[0].data["text/plain"] == "[ranks 0-1] 'usable'"


def test_trace_needs_somebody_who_waits(labs, shell):
    with pytest.raises(LabError, match="--noblock"):
        PxMagics(shell, labs(2)).cell_px("--trace --noblock", "1")


@pytest.mark.ranks
def test_a_stopped_lab_says_so(shell):
    from labkit import launch
    from labkit.lab.lab import Lab

    lab = Lab(launch.plan(1))
    magics = PxMagics(shell, lab)
    lab.stop()
    with pytest.raises(LabError, match="lab.restart()"):
        magics.cell_px("", "rank")
    lab.restart()
    try:
        with capture_output() as captured:
            PxMagics(shell, lab).cell_px("", "rank")
        assert captured.outputs[0].data["text/plain"] == "[rank 0] 0"
    finally:
        lab.stop()
