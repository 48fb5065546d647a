"""A pipeline's slots as a schedule: what comes before what, what is stored, and sends that do not wait."""

import pytest

from labkit.algorithms import gpipe, one_forward_one_backward
from labkit.schedule import Compute, Forward, Recv, Schedule, Send, pipeline_schedule, stored, violations
from labkit.simulate import ETHERNET_1G, Network, simulate

FREE = Network(alpha=0.0, bandwidth=1.0)


def passes(trace):
    return {(e.rank, e.label): e for e in trace.events if e.verb == "compute"}


@pytest.mark.parametrize("make", [gpipe, one_forward_one_backward])
@pytest.mark.parametrize("network", [FREE, ETHERNET_1G], ids=["free", "1 Gbit/s"])
@pytest.mark.parametrize("stages, microbatches", [(1, 3), (2, 1), (2, 5), (3, 3), (4, 7)])
def test_every_pass_comes_after_what_it_needs(make, network, stages, microbatches):
    times = [1 + stage % 2 for stage in range(stages)]
    trace = simulate(pipeline_schedule(make(stages, microbatches), times, 2.0), network, 1_000_000)
    found = passes(trace)
    assert len(found) == 2 * stages * microbatches
    for m in range(microbatches):
        way = [found[s, f"F{m}"] for s in range(stages)] + [
            found[s, f"B{m}"] for s in reversed(range(stages))
        ]
        assert all(one.end <= next_.start for one, next_ in zip(way, way[1:], strict=False))
        assert [one.end - one.start for one in way] == pytest.approx([*times, *[2.0] * stages])


def test_what_is_stored_during_each_slot():
    assert stored(one_forward_one_backward(2, 3)) == ((1, 2, 2, 2, 2, 1), (1, 1, 1, 1, 1, 1))


def test_stages_have_their_own_times():
    trace = simulate(pipeline_schedule([[Forward(0)], [Forward(0)]], forward=[1.0, 5.0]), FREE, 0)
    assert [event.end for event in passes(trace).values()] == [1.0, 6.0]


def test_a_slot_says_what_it_is():
    assert [str(slot) for slot in gpipe(1, 2)[0]] == ["F0", "F1", "B0", "B1"]


TO_EACH_OTHER = [[Send(1, 0, wait=False), Recv(1, 0)], [Send(0, 0, wait=False), Recv(0, 0)]]


def test_sends_that_do_not_wait_are_no_deadlock():
    assert violations(Schedule(TO_EACH_OTHER)) == ()


def test_receives_that_wait_for_each_other_still_are():
    steps = [[Recv(1, 0), Send(1, 0, wait=False)], [Recv(0, 0), Send(0, 0, wait=False)]]
    (found,) = violations(Schedule(steps))
    assert (found.kind, found.ranks) == ("deadlock", (0, 1))
    assert "rank 0 in step 0 expects chunk 0 from rank 1" in str(found)


def test_a_send_that_does_not_wait_is_not_lost_unnoticed():
    (found,) = violations(Schedule([[Send(1, 0, wait=False)], []]))
    assert found.kind == "lost message"


def test_who_does_not_wait_goes_on_while_the_message_waits():
    steps = [[Send(1, 0, wait=False), Compute("busy", 3.0)], [Compute("late", 2.0), Recv(0, 0)]]
    trace = simulate(Schedule(steps), FREE, 4)  # four seconds for the message
    ends = {event.label or event.verb: (event.start, event.end) for event in trace.events if event.rank == 0}
    assert ends["busy"] == (0.0, 3.0), "it did not wait for rank 1"
    assert [(e.verb, e.waiting, e.end) for e in trace.events if e.label == "chunk 0"] == [
        ("send", 2.0, 6.0),
        ("recv", 0.0, 6.0),
    ]


def test_ranks_that_send_to_each_other_without_waiting(labs, ask):
    statements = """
from labkit.schedule import Recv, Schedule, Send, run
def swap(other):
    return [Send(other, 0, wait=False), Recv(other, 0, into="theirs")]
left = run(Schedule([swap(1), swap(0)]), torch.full((100_000,), float(rank)))
"""
    assert ask(labs(2)[:], "left['theirs'].unique().tolist()", statements) == [[1.0], [0.0]]
