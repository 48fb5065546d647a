"""From states to a diagnosis, with no cluster."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.lab.diagnosis import (
    ABSENT,
    AWAIT,
    BELOW,
    BELOW_ELSEWHERE,
    COMPUTING,
    FINISHED,
    RAISED,
    WAITING,
    State,
    Watch,
    diagnose,
    stuck,
)
from labkit.rank.protocol import STOPPED, Below


def computing(rank):
    return State(rank, COMPUTING)


def finished(rank):
    return State(rank, FINISHED)


def recv(rank, *source, tag=0, place="line 1: recv"):
    return State(rank, WAITING, "recv", source, tag=tag, place=place)


def send(rank, to, tag=0):
    return State(rank, WAITING, "send", (to,), tag=tag, place="line 2: send")


def collective(rank, world=4, verb="all_reduce", number=1):
    return State(rank, WAITING, verb, tuple(range(world)), number, "world", place=f"line 3: {verb}")


def ranks(states):
    return tuple(s.rank for s in states)


NEVER_STUCK = {
    "all compute": [computing(0), computing(1)],
    "waiting for one that computes": [recv(0, 1), computing(1)],
    "waiting for one that waits for one that computes": [recv(0, 1), recv(1, 2), computing(2)],
    "a send meets its receive": [recv(0, 1), send(1, 0)],
    "a send meets a receive from anybody": [recv(0), send(1, 0)],
    "all have entered the same collective": [collective(r) for r in range(4)],
    "all have named the same root": [replace(collective(r, verb="reduce"), root=2) for r in range(4)],
    "one is still on its way to the collective": [*map(collective, range(3)), computing(3)],
    "one is still in an earlier message on its way": [
        *map(collective, range(2)),
        recv(2, 3),
        computing(3),
    ],
    "all are done": [finished(0), finished(1)],
}

AWAITS = State(0, WAITING, AWAIT, place="line 4: await")
"""Of a rank whose loop has nothing left that could wake it."""

STUCK = {
    "an await that nothing can end": (
        [AWAITS, finished(1)],
        (0,),
        "nothing is left that could end the await of rank 0",
    ),
    "an await, for whose rank others wait": (
        [AWAITS, recv(1, 0)],
        (0, 1),
        "nothing is left that could end the await of rank 0",
    ),
    "an await of all": (
        [AWAITS, replace(AWAITS, rank=1)],
        (0, 1),
        "nothing is left that could end the await of ranks 0-1",
    ),
    "recv from one that finished": (
        [recv(0, 1), finished(1)],
        (0,),
        "rank 1 finished the cell, and others wait for it",
    ),
    "a cycle of two": ([recv(0, 1), recv(1, 0)], (0, 1), "each waits for another"),
    "a cycle of four": ([recv(r, (r + 1) % 4) for r in range(4)], (0, 1, 2, 3), "each waits for another"),
    "tags that do not meet": (
        [send(0, 1, tag=2), recv(1, 0, tag=1)],
        (0, 1),
        "each waits for another, with another tag\nrank 0 in send to rank 1 with tag 2, line 2: send\n"
        "rank 1 in recv from rank 0 with tag 1",
    ),
    "crossed tags": ([send(0, 1, tag=2), recv(1, 0), recv(2, 1)], (0, 1, 2), "with another tag\n"),
    "messages of two groups": (
        [replace(send(0, 1), group="1"), replace(recv(1, 0), group="0")],
        (0, 1),
        "each waits for another, with another group\nrank 0 in send to rank 1 on group '1', line 2: send\n"
        "rank 1 in recv from rank 0 on group '0'",
    ),
    "collectives of two groups": (
        [replace(collective(0, 2), group="1"), replace(collective(1, 2), group="2")],
        (0, 1),
        "collectives of different groups\nrank 0 in all_reduce number 1 on group '1', line 3: all_reduce",
    ),
    "all send first": ([send(0, 1), send(1, 0)], (0, 1), "each waits for another"),
    "tags differ": ([recv(0, 1, tag=1), send(1, 0, tag=2)], (0, 1), "each waits for another"),
    "one never enters": (
        [*map(collective, range(3)), finished(3)],
        (0, 1, 2),
        "rank 3 finished the cell, and others wait for it",
    ),
    "one was not asked": ([collective(0, 2), State(1, ABSENT)], (0,), "rank 1 not in this cell (--targets)"),
    "different collectives": (
        [collective(0, 2), collective(1, 2, "broadcast")],
        (0, 1),
        "the ranks are in different collectives",
    ),
    "roots that differ": (
        [replace(collective(rank, 2, "reduce"), root=rank) for rank in (0, 1)],
        (0, 1),
        "the ranks name different roots\nrank 0 in reduce number 1 with root 0, line 3: reduce\n",
    ),
    "one is a collective ahead": (
        [collective(0, 2, number=2), collective(1, 2, number=1)],
        (0, 1),
        "in different",
    ),
    "a rank raised": (
        [State(0, RAISED, error="ValueError"), collective(1, 2)],
        (1,),
        "rank 0 raised an error",
    ),
    "recv from anybody when all are done": (
        [recv(0), finished(1), finished(2)],
        (0,),
        "ranks 1-2 finished the cell",
    ),
}


@pytest.mark.parametrize("states", NEVER_STUCK.values(), ids=NEVER_STUCK)
def test_what_can_still_end_is_no_fault(states):
    assert stuck(states) == () and diagnose(states) is None


@pytest.mark.parametrize("states, who, why", STUCK.values(), ids=STUCK)
def test_what_can_never_end_is_named(states, who, why):
    diagnosis = diagnose(states)
    assert diagnosis.stuck == who and why in diagnosis.sentence
    for s in stuck(states):
        assert s.what() in diagnosis.sentence and s.place in diagnosis.sentence


def test_a_verdict_names_each_rank_and_its_line():
    headline, line = diagnose([recv(0, 1, place="line 4: recv(x, 1)"), finished(1)]).sentence.split("\n")
    assert headline == "deadlock: rank 1 finished the cell, and others wait for it"
    assert line == "rank 0 in recv from rank 1, line 4: recv(x, 1)"


def test_a_verdict_needs_patience_and_stillness():
    watch, still = Watch(patience=1.0), STUCK["a cycle of two"][0]
    assert watch.look(still, now=0.0) is None
    assert watch.look(still, now=0.9) is None
    assert watch.look([recv(0, 1, tag=7), recv(1, 0)], now=1.1) is None, "something moved"
    assert watch.look(still, now=1.2) is None
    assert watch.look(still, now=2.2).stuck == (0, 1)


def test_waits_that_follow_each_other_are_no_stillness():
    """In a ping-pong over a slow link both ranks wait for the other nearly always, and never for long."""
    watch, still = Watch(patience=1.0), STUCK["a cycle of two"][0]
    for turn in range(20):
        assert watch.look([replace(s, since=float(turn)) for s in still], now=0.5 * turn) is None


def test_no_verdict_while_a_rank_computes():
    watch = Watch(patience=0.0)
    states = [recv(0, 1), finished(1), computing(2)]
    assert stuck(states)
    assert all(watch.look(states, now=float(t)) is None for t in range(100))


def test_ranks_that_meet_and_yet_never_move_are_told_if_all_rest():
    busy = [collective(r, 2) for r in range(2)]
    resting = [replace(s, rests=True) for s in busy]
    for states, one_machine, told in ((resting, True, True), (busy, True, False), (resting, False, False)):
        watch = Watch(stalled=5.0, one_machine=one_machine)
        assert all(watch.look(states, now=float(t)) is None for t in range(5))
        assert bool(watch.look(states, now=5.0)) == told
    watch = Watch(stalled=5.0)
    for t in range(20):  # one of them moves bytes now and then
        assert watch.look([resting[0], replace(resting[1], rests=t % 3 > 0)], now=float(t)) is None
    finished_one = [*resting, finished(2)]
    watch = Watch(stalled=0.0)
    assert watch.look(finished_one, now=0.0) is None
    assert "nothing moves" in watch.look(finished_one, now=1.0).sentence


def blocked(rank, call="Win.Fence", seconds=BELOW + 1, **what):
    what = {"collective": True, "sure": True, "deaf": True, **what}
    return State(rank, COMPUTING, place=f"line 4: {call}", below=Below(call, seconds, **what))


OF_A_LOCK = {"collective": False, "sure": False, "deaf": False}
MAY_END = {
    "not for long": [blocked(0, seconds=BELOW - 1), finished(1)],
    "another computes": [blocked(0), computing(1)],
    "another has just begun its call": [blocked(0), blocked(1, "lock.acquire", 1.0, **OF_A_LOCK)],
    "another has stopped in a debugger": [blocked(0), State(1, STOPPED)],
    "all are in the same collective": [blocked(0), blocked(1)],
    "all who have the window are": [blocked(0, peers=(0, 1)), blocked(1, peers=(0, 1)), finished(2)],
    "it needs nobody else": [blocked(0, "Comm.Spawn", peers=(0,)), finished(1)],
    "others are in a collective of their own": [
        blocked(0),
        *(replace(collective(r), peers=(1, 2)) for r in (1, 2)),
    ],
}
NEVER_ENDS = {
    "one is missing": (
        [blocked(0), finished(1)],
        (0,),
        "deadlock: nobody can end it: rank 1 finished the cell\nrank 0 in Win.Fence for 6 s, line 4: Win",
    ),
    "one is missing of those who have the window": (
        [blocked(0, peers=(0, 1)), finished(1), blocked(2, "lock.acquire", **OF_A_LOCK)],
        (0, 2),
        "ranks 0, 2 wait below what labkit sees, and nothing moves: rank 1 finished the cell",
    ),
    "different collectives": ([blocked(0), blocked(1, "Win.Free")], (0, 1), "deadlock: nobody can end it\n"),
    "a collective that is watched": (
        [collective(0, 2), blocked(1)],
        (0, 1),
        "deadlock: nobody can end it\nrank 0 in all_reduce number 1, line 3: all_reduce\nrank 1 in Win.Fence",
    ),
    "one raised": ([State(0, RAISED), blocked(1)], (1,), "nobody can end it: rank 0 raised an error"),
    "each in a lock": (
        [blocked(rank, "gate.wait", 6.4 + rank, wants="a lock of its own", **OF_A_LOCK) for rank in (0, 1)],
        (0, 1),
        "ranks 0-1 wait below what labkit sees, and nothing moves\n"
        "ranks 0-1 in gate.wait for 6 s, for a lock of its own, line 4",
    ),
    "a lock that another has": (
        [blocked(0, "flock", wants="a file lock", holders=(7,), peers=(1,), **OF_A_LOCK), finished(1)],
        (0,),
        "rank 0 in flock for 6 s, for a file lock of rank 1, line 4",
    ),
}


@pytest.mark.parametrize("states", MAY_END.values(), ids=MAY_END)
def test_a_call_below_that_may_end_is_not_told(states):
    watch = Watch(patience=1.0)
    assert all(watch.look(states, now=float(t)) is None for t in range(4))


@pytest.mark.parametrize("states, who, why", NEVER_ENDS.values(), ids=NEVER_ENDS)
def test_a_call_below_that_never_ends_is_told(states, who, why):
    watch = Watch(patience=1.0)
    assert watch.look(states, now=0.0) is None and watch.look(states, now=0.9) is None
    diagnosis = watch.look(states, now=1.0)
    assert diagnosis.stuck == who and why in diagnosis.sentence


def test_between_hosts_only_what_is_sure_is_told_and_later():
    def told(*states):
        watch = Watch(patience=0.0, one_machine=False)
        return watch.look(states, now=0.0) or watch.look(states, now=1.0)

    assert told(blocked(0, seconds=BELOW_ELSEWHERE), finished(1))
    assert not told(blocked(0, seconds=BELOW_ELSEWHERE - 1), finished(1))
    assert not told(blocked(0, seconds=BELOW_ELSEWHERE, sure=False), finished(1))


@st.composite
def worlds(draw):
    size = draw(st.integers(1, 5))
    one = st.one_of(
        st.builds(lambda: computing),
        st.builds(lambda: finished),
        st.builds(lambda p: lambda r: recv(r, p), st.integers(0, size - 1)),
        st.builds(lambda p: lambda r: send(r, p), st.integers(0, size - 1)),
        st.builds(lambda n: lambda r: collective(r, size, number=n), st.integers(1, 2)),
    )
    return [draw(one)(r) for r in range(size)]


@given(worlds())
def test_only_waiting_ranks_are_stuck_and_more_progress_frees_no_fewer(world):
    held = ranks(stuck(world))
    assert all(world[r].doing == WAITING for r in held)
    for i, s in enumerate(world):
        if s.doing == FINISHED:
            revived = [*world[:i], computing(i), *world[i + 1 :]]
            assert set(ranks(stuck(revived))) <= set(held)
