"""Sub-groups: made from any ranks, in any order, as many as wanted, beside gloo's own."""

import torch
import torch.distributed as dist

from .table import case
from .world import equal, fold, usable


@case()
def a_new_group_reduces_over_its_members_only(w):
    for members in ([0], [1, 0], list(range(w.size)), [0, w.size - 1]):
        members = sorted(set(members))
        group = dist.new_group(members)
        t = w.mine(6)
        if w.rank in members:
            assert dist.get_world_size(group) == len(members)
            assert dist.get_group_rank(group, w.rank) == members.index(w.rank)
            dist.all_reduce(t, group=group)
            equal(t, fold(torch.add, [w.data(r, 6) for r in members]))
            dist.destroy_process_group(group)
        else:
            assert group is dist.GroupMember.NON_GROUP_MEMBER or dist.get_rank(group) == -1
    usable(w)


@case(sizes=(3, 4))
def overlapping_groups_do_not_hear_each_other(w):
    left, right = dist.new_group([0, 1]), dist.new_group([1, 2])
    works = []
    a, b = w.mine(5, salt="a"), w.mine(5, salt="b")
    if w.rank in (0, 1):
        works.append(dist.all_reduce(a, group=left, async_op=True))
    if w.rank in (1, 2):
        works.append(dist.all_reduce(b, group=right, async_op=True))
    for work in reversed(works):
        work.wait()
    if w.rank in (0, 1):
        equal(a, w.data(0, 5, salt="a") + w.data(1, 5, salt="a"))
    if w.rank in (1, 2):
        equal(b, w.data(1, 5, salt="b") + w.data(2, 5, salt="b"))


@case()
def roots_are_global_ranks(w):
    members = [w.size - 2, w.size - 1]
    group = dist.new_group(members)
    if w.rank in members:
        t = w.mine(3)
        dist.broadcast(t, w.size - 1, group=group)
        equal(t, w.data(w.size - 1, 3))
        dist.broadcast(t, group_src=0, group=group)
        out = [torch.empty(3), torch.empty(3)] if w.rank == w.size - 1 else None
        dist.gather(w.mine(3), out, w.size - 1, group=group)
        if out:
            equal(torch.stack(out), torch.stack([w.data(r, 3) for r in members]))


@case()
def messages_in_a_sub_group_do_not_meet_those_of_the_world(w):
    group = dist.new_group([0, 1])
    if w.rank == 0:
        works = [
            dist.isend(torch.tensor([1]), 1),
            dist.isend(torch.tensor([2]), 1, group=group),
        ]
        for work in works:
            work.wait()
    if w.rank == 1:
        got = torch.empty(1, dtype=torch.int64)
        dist.recv(got, 0, group=group)
        assert got.item() == 2
        dist.recv(got, 0)
        assert got.item() == 1


@case(sizes=(2, 4))
def new_subgroups_cut_the_world_into_pieces(w):
    mine, all_groups = dist.new_subgroups(group_size=w.size // 2 or 1)
    assert len(all_groups) == 2
    t = torch.tensor([w.rank])
    dist.all_reduce(t, group=mine)
    first = w.rank // (w.size // 2) * (w.size // 2)
    assert t.item() == sum(range(first, first + w.size // 2))


@case(sizes=(4,))
def new_subgroups_by_enumeration(w):
    mine, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    t = torch.tensor([w.rank])
    dist.all_reduce(t, group=mine)
    assert t.item() == {0: 2, 1: 4}[w.rank % 2]


@case(gloo=False)
def split_group_works_or_is_refused_by_torch_itself(w):
    """torch 2.13 splits only where an accelerator is; a refusal must leave the group as it was."""
    half = [list(range(w.size // 2)), list(range(w.size // 2, w.size))]
    try:
        group = dist.split_group(split_ranks=half)
    except RuntimeError as error:
        assert "split" in str(error), error
    else:
        members = next(ranks for ranks in half if w.rank in ranks)
        t = torch.tensor([w.rank])
        dist.all_reduce(t, group=group)
        assert t.item() == sum(members)
    usable(w)


@case(gloo=False)
def a_gloo_group_works_beside_mpi(w):
    group = dist.new_group(backend="gloo")
    assert dist.get_backend(group) == "gloo"
    t, u = w.mine(6, salt="gloo"), w.mine(6, salt="mpi")
    work = dist.all_reduce(t, group=group, async_op=True)
    dist.all_reduce(u)
    work.wait()
    equal(t, fold(torch.add, w.all(6, salt="gloo")))
    equal(u, fold(torch.add, w.all(6, salt="mpi")))
    dist.destroy_process_group(group)


@case(gloo=False)
def a_gloo_group_of_some_ranks_works_beside_mpi(w):
    group = dist.new_group([0, 1], backend="gloo")
    if w.rank < 2:
        t = torch.tensor([w.rank + 1.0])
        dist.all_reduce(t, group=group)
        assert t.item() == 3
    usable(w)


@case()
def a_group_has_a_name_and_a_description(w):
    group = dist.new_group(group_desc="halves")
    assert group.group_name and group.group_name != dist.group.WORLD.group_name
    assert group.group_desc == "halves"
    assert dist.get_process_group_ranks(group) == list(range(w.size))


@case(deadline=120)
def groups_are_made_and_ended_again_and_again(w):
    for i in range(30):
        group = dist.new_group(list(range(w.size)))
        t = torch.tensor([i])
        dist.all_reduce(t, group=group)
        assert t.item() == i * w.size
        dist.destroy_process_group(group)
