"""Races of traces in which it can be seen whose message comes first, and that of real ones."""

from dataclasses import replace

import pytest

from tests.trace.test_chains import collective, message, trace


def from_any(pair):
    send, recv = pair
    return [send, replace(recv, any_source=True, place="line 1: recv")]


def told(*parts, world_size=3):
    return [str(race) for race in trace(*parts, world_size=world_size).races()]


WHO = "a receive from any rank gets rank 1's or rank 2's message, whoever is first"
RACE = f"rank 0: {WHO}: a race (line 1: recv)"


def test_two_messages_that_nothing_orders_are_a_race_though_they_came_one_after_the_other():
    assert told(from_any(message(1, 0, 0, 1.0)), from_any(message(2, 0, 5.0, 6.0))) == [RACE]


def test_a_receive_from_any_rank_after_one_that_says_from_whom():
    first, second = message(1, 0, 0, 1.0), from_any(message(2, 0, 2.0, 3.0))
    assert told(first, second) == []
    assert told(from_any(message(1, 0, 0, 1.0)), message(2, 0, 2.0, 3.0)) == [RACE]


def test_two_messages_of_one_rank_do_not_overtake_each_other():
    assert told(from_any(message(1, 0, 0, 1.0)), from_any(message(1, 0, 2.0, 3.0, sequence=2))) == []


def test_another_tag_is_no_rival():
    assert told(from_any(message(1, 0, 0, 1.0)), from_any(message(2, 0, 2.0, 3.0, tag=1))) == []


def test_a_barrier_and_a_message_put_sends_in_an_order():
    first, second = from_any(message(1, 0, 0, 1.0)), from_any(message(2, 0, 7.0, 8.0))
    assert told(first, collective([2, 3, 4], 5.0), second) == []
    assert told(first, message(0, 2, 3.0, 4.0), second) == []
    assert told(first, message(1, 2, 3.0, 4.0), second) == [RACE], "rank 1 may send before it was received"


@pytest.mark.parametrize(("verb", "ordered"), [("broadcast", True), ("reduce", False), ("all_reduce", True)])
def test_what_a_collective_with_a_root_orders(verb, ordered):
    first, second = from_any(message(1, 0, 0, 1.0)), from_any(message(2, 0, 7.0, 8.0))
    between = [replace(event, verb=verb, root=0) for event in collective([2, 3, 4], 5.0)]
    assert (told(first, between, second) == []) == ordered


def test_one_sentence_for_each_line():
    pairs = [from_any(message(1 + n % 2, 0, n, n + 0.5, sequence=1 + n // 2)) for n in range(6)]
    assert told(*pairs) == [RACE]


def test_a_message_that_nobody_received_is_a_rival():
    lost = message(2, 0, 3.0, 4.0)[:1]
    assert told(from_any(message(1, 0, 0, 1.0)), lost) == [RACE]
