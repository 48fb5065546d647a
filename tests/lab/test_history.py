"""Back through a cell that did not end well: what the ranks called, step by step."""

import re
from dataclasses import replace
from operator import attrgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.utils.capture import capture_output

from labkit import LabError, launch
from labkit.lab.diagnosis import stuck
from labkit.lab.history import History
from labkit.lab.lab import Lab
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from labkit.lab.replay import replay
from labkit.rank.protocol import COMPUTING, FINISHED, RAISED, WAITING, Called, Remembered, State
from labkit.trace import Trace
from tests.conftest import in_tiers
from tests.faults.programs import PROGRAMS

# What ranks call, without ranks


def send(to, tag=0):
    return Called("send", (to,), tag=tag)


def recv(*sources, tag=0, source=None):
    return Called("recv", sources, tag=tag, source=source)


def all_reduce(number, size):
    return Called("all_reduce", tuple(range(size)), "world", number)


def at_once(*calls):
    """A rank that waits for each call before the next."""
    return Remembered(calls, tuple(k for k in range(len(calls)) for _ in range(2)))


def waiting(rank, call):
    return State(rank, WAITING, call.verb, call.peers, call.number, call.group, call.tag)


@st.composite
def programs(draw):
    """For each of 2 to 4 ranks what it calls, whether that fits together or not."""
    size = draw(st.integers(2, 4))
    calls = [[] for _ in range(size)]
    number = 0
    for kind in draw(st.lists(st.sampled_from(["message", "together", "half"]), max_size=12)):
        source, to = draw(st.permutations(range(size)))[:2]
        tag = draw(st.integers(0, 1))
        if kind == "together":
            number += 1
            for mine in calls:
                mine.append(all_reduce(number, size))
        else:
            calls[source].append(send(to, tag))
            if kind == "message" or draw(st.booleans()):
                calls[to].append(recv(source, tag=tag))
    return calls


def executed(calls):
    """How far each rank comes with synchronous calls; found one pair at a time, in another order."""
    at = [0] * len(calls)

    def head(rank):
        return calls[rank][at[rank]] if at[rank] < len(calls[rank]) else None

    moved = True
    while moved:
        moved = False
        heads = [head(rank) for rank in range(len(calls))]
        if all(h is not None and h.verb == "all_reduce" and h == heads[0] for h in heads):
            at, moved = [k + 1 for k in at], True
            continue
        for rank in reversed(range(len(calls))):
            one = head(rank)
            if one is None or one.verb != "send":
                continue
            other = head(one.peers[0])
            if other is not None and other.verb == "recv" and other.peers == (rank,) and other.tag == one.tag:
                at[rank], at[one.peers[0]], moved = at[rank] + 1, at[one.peers[0]] + 1, True
    return at


@settings(deadline=None)
@given(programs())
def test_a_replay_comes_as_far_as_the_ranks_did_and_marks_the_step_from_which_they_could_not(calls):
    at = executed(calls)
    ended = [
        waiting(rank, mine[k]) if k < len(mine) else State(rank, FINISHED)
        for rank, (mine, k) in enumerate(zip(calls, at, strict=True))
    ]
    remembered = [at_once(*mine[: k + 1]) for mine, k in zip(calls, at, strict=True)]
    history = replay(remembered, ended)
    for rank, (mine, k) in enumerate(zip(calls, at, strict=True)):
        played = [(one.call, one.end is not None) for one in history.calls if one.rank == rank]
        assert played == [(call, n < k) for n, call in enumerate(mine[: k + 1])]
    last = [turn.state.doing for turn in history.steps[-1].turns]
    assert last == [s.doing for s in ended]
    held = {s.rank for s in ended if s.doing == WAITING}
    assert set(history.stuck) == held
    if not held:
        assert history.stuck_from is None
        return
    moves = [any(step.turns[r].goes_on for r in held) for step in history.steps]
    assert not any(moves[history.stuck_from :])
    for k, step in enumerate(history.steps):  # the diagnosis that a lab makes, on each step
        assert (held <= {s.rank for s in stuck(step.states)}) == (k >= history.stuck_from)


def test_what_is_not_waited_for_holds_nobody_up():
    """Both send first and wait later; the second waits for a message that the first never sends."""
    first = Remembered((send(1), recv(1)), (0, 1, 1, 0))
    second = Remembered((send(0), recv(0), recv(0)), (0, 1, 1, 0, 2, 2))
    history = replay([first, second], [State(0, FINISHED), waiting(1, recv(0))])
    assert [[t.state.verb for t in step.turns] for step in history.steps[:2]] == [["isend"] * 2, ["recv"] * 2]
    assert [len(step.under_way) for step in history.steps] == [2, 0, 0]
    assert [len(step.received) for step in history.steps] == [0, 2, 0]
    assert (history.stuck_from, history.stuck) == (2, (1,))


def test_a_send_that_was_over_without_a_receive_is_seen_as_under_way():
    """Where sends are not checked a small one is over at once: who has called more has gone on."""
    remembered = [at_once(send(1), recv(1)), at_once(send(0), recv(0))]
    history = replay(remembered, [State(0, FINISHED), State(1, FINISHED)])
    assert history.stuck_from is None
    assert [t.state.doing for t in history.steps[-1].turns] == [FINISHED] * 2
    assert sum(len(step.received) for step in history.steps) == 2


def test_a_receive_from_any_rank_gets_what_it_got():
    anybody = recv(0, 2, source=2)
    history = replay(
        [at_once(send(1)), at_once(anybody, recv(0)), at_once(send(1))],
        [State(rank, FINISHED) for rank in range(3)],
    )
    assert [(m.source, m.to) for m in history.steps[0].received] == [(2, 1)]
    assert history.stuck_from is None


def test_ranks_that_have_forgotten_begin_together():
    """One made more calls than another: each begins with the first collective that all remember."""
    size = 2
    calls = [[all_reduce(number, size) for number in range(first, 9)] for first in (3, 5)]
    remembered = [replace(at_once(*mine), forgotten=True) for mine in calls]
    history = replay(remembered, [State(0, FINISHED), State(1, RAISED)])
    assert history.forgotten and history.stuck_from is None
    assert [t.state.number for t in history.steps[0].turns] == [5, 5]
    assert [t.state.doing for t in history.steps[-1].turns] == [FINISHED, RAISED]
    assert "and there were more before" in repr(history)


def test_without_calls_it_says_so():
    assert repr(History()) == "the ranks had called nothing"
    computing = replay([Remembered(), Remembered()], [State(0, COMPUTING), State(1, COMPUTING)])
    assert len(computing.steps) == 1 and computing.stuck_from is None


# On ranks

DEADLOCKS = [p for p in PROGRAMS if p.says[0].startswith("deadlock") and not p.new_ranks]
OF_TORCH = [p for p in DEADLOCKS if "mpi4py" not in p.wrong]


def history_of(shell, lab, code, options=""):
    with capture_output(), pytest.raises(CellError) as caught:
        PxMagics(shell, lab).cell_px(options, code)
    return lab.last.history, str(caught.value)


def without_numbers(history):
    """A group counts its collectives from cell to cell."""
    return re.sub(" +", " ", re.sub(r"number \d+", "number n", repr(history)))


@pytest.mark.parametrize("program", in_tiers(DEADLOCKS, 2, 6, attrgetter("name")))
def test_a_deadlock_is_gone_back_through(labs, shell, program):
    """The ranks that its verdict names, in the lines that it names; and the same in every run."""
    lab = labs(program.ranks)
    history = told_and_marked(shell, lab, program)
    again, _ = history_of(shell, lab, program.wrong, program.options)
    assert without_numbers(again) == without_numbers(history)


def told_and_marked(shell, lab, program):
    """The history of a deadlock, which names whom its verdict names, from the first step on that it may."""
    history, verdict = history_of(shell, lab, program.wrong, program.options)
    places = {who: place for who, place in re.findall(r"(ranks? [\d, -]+) in .*?, (line \d+)", verdict)}
    assert places and history.stuck_from is not None
    for who, place in places.items():
        for rank in numbers(who):
            assert rank in history.stuck
            assert history.steps[-1].turns[rank].state.place.startswith(place + ":")
    for k, step in enumerate(history.steps):
        assert (set(history.stuck) <= {s.rank for s in stuck(step.states)}) == (k >= history.stuck_from)
    return history


def numbers(who):
    spans = (part.split("-") for part in who.split(" ", 1)[1].split(", "))
    return [rank for span in spans for rank in range(int(span[0]), int(span[-1]) + 1)]


CELL = """
x = torch.ones(1)
dist.all_reduce(x)
if rank == 0:
    work = dist.isend(x, dst=1)
    dist.recv(x, src=1)
else:
    dist.recv(x, src=0)
    dist.all_reduce(x)
"""
TEXT = """3 steps; from step 3 on ranks 0-1 could never go on
step  ranks  call                 line                                 then
1     0-1    all_reduce number n line 4: dist.all_reduce(x)           goes on
2     0      isend to rank 1      line 6: work = dist.isend(x, dst=1)  goes on
      1      recv from rank 0     line 9: dist.recv(x, src=0)          goes on
3     0      recv from rank 1     line 7: dist.recv(x, src=1)          waits for ever
      1      all_reduce number n line 10: dist.all_reduce(x)          waits for ever"""


def test_the_text_form(labs, shell):
    history, _ = history_of(shell, labs(2), CELL)
    assert without_numbers(history) == re.sub(" +", " ", TEXT)
    waited = CELL + "if rank == 0:\n    work.wait()"
    history, _ = history_of(shell, labs(2), waited)
    assert without_numbers(history) == re.sub(" +", " ", TEXT), "nobody has come to that wait"


@pytest.fixture(scope="module")
def gloo():
    """A lab of so many ranks over gloo, the same each time."""
    running = {}

    def lab_of(size):
        if size not in running:
            running[size] = Lab(launch.plan(size, backend="gloo"))
        return running[size]

    yield lab_of
    for lab in running.values():
        lab.stop()


@pytest.mark.parametrize("program", in_tiers(OF_TORCH, 0, 4, attrgetter("name")))
def test_a_deadlock_of_gloo_is_gone_back_through(gloo, shell, program):
    told_and_marked(shell, gloo(program.ranks), program)


@pytest.mark.slow
def test_of_gloo_it_is_the_same(shell):
    lab = Lab(launch.plan(2, backend="gloo"))
    try:
        history, _ = history_of(shell, lab, CELL)
    finally:
        lab.stop()
    assert without_numbers(history) == re.sub(" +", " ", TEXT)


def test_of_mpi4py_it_is_the_same(labs, shell):
    cell = """
from mpi4py import MPI
world = MPI.COMM_WORLD
world.barrier()
if rank == 0:
    request = world.isend("a", dest=1)
    world.recv(source=1)
    request.wait()
else:
    world.recv()
    world.barrier()
"""
    history, _ = history_of(shell, labs(2), cell)
    verbs = [[turn.state.verb for turn in step.turns] for step in history.steps]
    assert verbs == [["Barrier"] * 2, ["isend", "recv"], ["recv", "Barrier"]]
    assert history.stuck == (0, 1) and history.stuck_from == 2


def test_an_error_has_one_too_and_a_good_end_has_none(labs, shell):
    lab = labs(2)
    history, _ = history_of(shell, lab, "dist.barrier()\nif rank == 1:\n    1 / 0\ndist.barrier()")
    assert [t.state.doing for t in history.steps[-1].turns] == [WAITING, RAISED]
    assert history.stuck == (0,)
    with capture_output():
        PxMagics(shell, lab).cell_px("", "dist.barrier()")
    with pytest.raises(LabError, match="ended well"):
        repr(lab.last.history)


def test_who_was_not_in_the_cell_has_no_part_in_it(labs, shell):
    lab = labs(3)
    with capture_output():
        PxMagics(shell, lab).cell_px("", "for _ in range(3):\n    dist.barrier()")
    history, _ = history_of(shell, lab, "dist.recv(torch.ones(1), src=2)", "--targets 0")
    assert len(history.calls) == 1 and history.stuck == (0,)


def test_a_long_cell_is_told_by_its_last_steps(labs, shell):
    cell = "for _ in range(1000):\n    dist.all_reduce(torch.ones(1))\nif rank == 0:\n    dist.barrier()"
    history, _ = history_of(shell, labs(3), cell)
    assert 200 < len(history.steps) <= 257 and history.forgotten
    head, _, *rows = repr(history).splitlines()
    assert head.startswith(f"the last 8 of {len(history.steps)} steps, and there were more before; from step")
    assert len(rows) == 7 + 2


WRONG = {
    "a rank is missing": (
        "x = torch.ones(4)\ndist.all_reduce(x)\nif rank != 2:\n    dist.all_reduce(x)",
        ["Not all ranks joining collective, sequence number: 2", "missing ranks: {2}"],
    ),
    "another verb": (
        "x = torch.ones(4)\ndist.all_reduce(x) if rank else dist.broadcast(x, src=0)",
        ["sequence number: 1 has errors", "does not match found collective type"],
    ),
    "another size": (
        "dist.all_reduce(torch.ones(4 + rank))",
        ["sequence number: 1 has errors", "does not match found input sizes"],
    ),
    "another order": (
        "if rank:\n    dist.barrier()\ndist.all_reduce(torch.ones(4))\nif not rank:\n    dist.barrier()",
        ["sequence number: 1 has errors", "does not match found collective type"],
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "a rank is missing")) for name in WRONG]
)
def test_torchs_analyser_names_the_same_rank_and_number(labs, shell, name, analysed, tmp_path):
    cell, sentences = WRONG[name]
    lab = labs(3)
    lab.restart()  # a group counts from 1 again
    history, _ = history_of(shell, lab, cell)
    said = analysed(history.save(tmp_path / "fr"))
    for sentence in sentences:
        assert sentence in said
    loaded = Trace.load(tmp_path / "fr")
    assert len(loaded.events) == len(history.calls)
