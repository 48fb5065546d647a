"""The tree sums in 2 log2 R steps, and the schedule is the plain form."""

from math import ceil, log2

import pytest

from labkit.algorithms import tree
from labkit.schedule import sent_bytes, steps

from .schedules import check_in_memory, check_on_ranks, check_same_trace


def test_sums_any_length_on_any_number_of_ranks():
    check_in_memory(tree)


def test_sums_on_ranks(lab):
    check_on_ranks(lab, "tree")


@pytest.mark.slow
def test_sums_on_8_ranks(labs):
    check_on_ranks(labs(8), "tree")


def test_the_plain_form_has_the_same_trace(lab):
    check_same_trace(lab, "tree", tree)


@pytest.mark.parametrize("ranks", range(1, 20))
def test_steps_and_bytes(ranks):
    assert steps(tree(ranks)) == 2 * ceil(log2(ranks))
    assert sum(sent_bytes(tree(ranks), 400)) == 2 * (ranks - 1) * 400
