"""The naive all-reduce sums, at every world size, and sends what lesson 02 says."""

from labkit.algorithms import naive

from .schedules import check_in_memory, check_on_ranks, check_same_trace
from .sums import check_cost, check_sum

ALL_REDUCE = "all_reduce_naive"


def test_sums_in_place_on_every_rank(lab):
    check_sum(lab, ALL_REDUCE)


def test_sums_are_equal_bit_for_bit(lab):
    lab[:].execute(f"from labkit.algorithms import {ALL_REDUCE} as all_reduce", block=True)
    lab[:].execute("x = torch.randn(1000)\nall_reduce(x)", block=True)
    first, *others = lab[:]["x"]
    assert all(first.equal(other) for other in others)


def test_every_rank_sends_its_tensor_to_every_other(lab):
    ranks = len(lab)
    check_cost(lab, ALL_REDUCE, [ranks - 1] * ranks)


def test_the_schedule_sums_any_length_on_any_number_of_ranks():
    check_in_memory(naive)


def test_the_schedule_sums_on_ranks(lab):
    check_on_ranks(lab, "naive")


def test_the_plain_form_has_the_same_trace(lab):
    check_same_trace(lab, "naive", naive)
