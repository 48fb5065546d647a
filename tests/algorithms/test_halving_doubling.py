"""Recursive halving and doubling sums in 2 log2 R steps, and the schedule is the plain form."""

from math import log2

import pytest

from labkit.algorithms import halving_doubling
from labkit.schedule import sent_bytes, steps

from .schedules import check_in_memory, check_on_ranks, check_same_trace


def test_sums_any_length_on_any_number_of_ranks():
    check_in_memory(halving_doubling)


def test_sums_on_ranks(lab):
    check_on_ranks(lab, "halving_doubling")


@pytest.mark.slow
def test_sums_on_8_ranks(labs):
    check_on_ranks(labs(8), "halving_doubling")


@pytest.mark.slow
def test_sums_on_6_ranks(labs):
    check_on_ranks(labs(6), "halving_doubling")


def test_the_plain_form_has_the_same_trace(lab):
    check_same_trace(lab, "halving_doubling", halving_doubling)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
def test_a_power_of_two_sends_as_little_as_the_ring_in_fewer_steps(ranks):
    size = 64 * 4
    assert sent_bytes(halving_doubling(ranks), size) == (2 * (ranks - 1) * size // ranks,) * ranks
    assert steps(halving_doubling(ranks)) == 2 * log2(ranks)


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 12])
def test_others_fold_the_excess_in_two_more_steps(ranks):
    assert steps(halving_doubling(ranks)) == 2 * int(log2(ranks)) + 2
