"""The ring sums, sends what Patarasuk and Yuan say, and the schedule is the plain form."""

import pytest

from labkit.algorithms import ring
from labkit.schedule import sent_bytes, steps

from .schedules import check_in_memory, check_on_ranks, check_same_trace


def test_sums_any_length_on_any_number_of_ranks():
    check_in_memory(ring)


def test_sums_on_ranks(lab):
    check_on_ranks(lab, "ring")


@pytest.mark.slow
def test_sums_on_8_ranks(labs):
    check_on_ranks(labs(8), "ring")


def test_the_plain_form_has_the_same_trace(lab):
    check_same_trace(lab, "ring", ring)


def test_also_through_gloo(labs):
    check_on_ranks(labs(3), "ring", group='dist.new_group(backend="gloo")')


@pytest.mark.parametrize("ranks", range(1, 9))
def test_each_rank_sends_its_part_twice_but_for_one_chunk(ranks):
    size = 840 * 4
    assert sent_bytes(ring(ranks), size) == (2 * (ranks - 1) * size // ranks,) * ranks
    assert steps(ring(ranks)) == 2 * (ranks - 1)
