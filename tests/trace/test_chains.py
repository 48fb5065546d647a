"""Steps and critical path of traces whose answer can be seen."""

import pytest

from labkit.trace import COMPUTE, Event, Trace


def message(sender, receiver, start, end, sequence=1, tag=0):
    return [
        Event(sender, "send", start, end, (receiver,), 8, sequence=sequence, tag=tag),
        Event(receiver, "recv", start, end, (sender,), 8, sequence=sequence, tag=tag),
    ]


def collective(starts, end, sequence=1):
    ranks = tuple(range(len(starts)))
    return [Event(r, "barrier", s, end, ranks, sequence=sequence) for r, s in enumerate(starts)]


def trace(*parts, world_size=4):
    return Trace(world_size, tuple(sorted((e for p in parts for e in p), key=lambda e: (e.start, e.rank))))


def test_nothing():
    empty = trace()
    assert empty.steps == 0 and empty.critical_path() == () and empty.messages == ()
    assert empty.bytes_sent == (0, 0, 0, 0)


def test_a_chain_and_what_goes_beside_it():
    chain = [message(r, r + 1, r, r + 1.0) for r in range(3)]
    assert trace(*chain).steps == 3
    assert trace(message(0, 1, 0, 1.0), message(2, 3, 0, 1.0)).steps == 1


def test_an_exchange_is_one_step():
    assert trace(message(0, 1, 0, 1.0), message(1, 0, 0, 1.0)).steps == 1


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_ring_in_which_all_send_at_once(size):
    """reduce-scatter and all-gather of the ring: 2 (P - 1) steps, P messages in each."""
    parts = [
        message(r, (r + 1) % size, step, step + 1.0, sequence=step)
        for step in range(2 * (size - 1))
        for r in range(size)
    ]
    assert trace(*parts).steps == 2 * (size - 1)


def test_buffered_messages_received_in_the_other_order():
    crossed = [
        Event(0, "send", 0, 0.1, (1,), tag=1), Event(0, "send", 1, 1.1, (1,), tag=2),
        Event(1, "recv", 2, 2.1, (0,), tag=2), Event(1, "recv", 3, 3.1, (0,), tag=1),
    ]  # fmt: skip
    assert trace(crossed).steps == 3


def test_collectives_count_once():
    assert trace(collective((0, 0, 0), 1), collective((1, 1.5, 2), 3, sequence=2)).steps == 2


def test_the_critical_path_goes_through_the_rank_that_was_late():
    late = Event(2, COMPUTE, 0, 5)
    parts = [Event(r, COMPUTE, 0, 1) for r in (0, 1)], [late], collective((1, 1, 5), 6)
    path = trace(*parts).critical_path()
    assert late in path and {e.rank for e in path if e.verb == COMPUTE} == {2}
    assert [e.start for e in path] == sorted(e.start for e in path) or path[0] is late


def test_a_send_that_nobody_received_is_no_message():
    assert trace([Event(0, "send", 0, 1, (1,), 8, sequence=1)]).messages == ()


def test_bytes_sent():
    assert trace(message(0, 1, 0, 1), message(0, 2, 1, 2), message(3, 0, 1, 2)).bytes_sent == (16, 0, 0, 8)
