"""All-reduce by way of rank 0 sums, at every world size, and sends what lesson 02 says."""

import pytest

from .sums import check_cost, check_sum

ALL_REDUCE = "all_reduce_reduce_broadcast"


def test_sums_in_place_on_every_rank(lab):
    check_sum(lab, ALL_REDUCE)


def test_all_messages_go_to_or_from_rank_0(lab):
    ranks = len(lab)
    check_cost(lab, ALL_REDUCE, [ranks - 1] + [1] * (ranks - 1))


@pytest.mark.parametrize("root", ["first", "last"])
def test_reduce_leaves_the_sum_on_the_root_only(lab, ask, root):
    root = 0 if root == "first" else len(lab) - 1
    run = f"from labkit.algorithms import reduce_to\nx = torch.tensor([2.0**rank])\nreduce_to({root}, x)"
    expected = [2.0**rank for rank in range(len(lab))]
    expected[root] = 2.0 ** len(lab) - 1
    assert ask(lab[:], "x.item()", run) == expected


@pytest.mark.parametrize("root", ["first", "last"])
def test_broadcast_copies_from_the_root(lab, ask, root):
    root = 0 if root == "first" else len(lab) - 1
    run = "from labkit.algorithms import broadcast_from\nx = torch.tensor([2.0**rank])"
    run += f"\nbroadcast_from({root}, x)"
    assert ask(lab[:], "x.item()", run) == [2.0**root] * len(lab)
