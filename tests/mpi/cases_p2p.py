"""Blocking send and recv: who, which tag, which source, which layout."""

import torch
import torch.distributed as dist

from labkit.mpi.wire import steps
from labkit.mpi.wire.channel import Channel
from labkit.mpi.wire.runtime import MPI

from .table import case
from .world import COMPLEX, FLOATS, INTS, World, equal

EVERY_DTYPE = (*FLOATS, *INTS, torch.bool, *COMPLEX)


def pass_on(w: World, t: torch.Tensor, into: torch.Tensor) -> None:
    """Even ranks send first, so that a ring of blocking sends never waits for itself."""
    if w.rank % 2 == 0 and not (w.size % 2 and w.rank == w.size - 1):
        dist.send(t, w.next)
        dist.recv(into, w.previous)
    else:
        dist.recv(into, w.previous)
        dist.send(t, w.next)


@case()
def send_and_recv_go_round_a_ring(w):
    got = torch.empty(3, 4)
    pass_on(w, w.mine(3, 4), got)
    equal(got, w.data(w.previous, 3, 4))


@case(gloo=False)
def every_dtype_arrives_bit_for_bit(w):
    for dtype in EVERY_DTYPE:
        got = torch.zeros(17, dtype=dtype)
        pass_on(w, w.mine(17, dtype=dtype), got)
        equal(got, w.data(w.previous, 17, dtype=dtype))


@case()
def large_messages_arrive(w):
    n = w.number(1_000_000, 2_000_000)
    got = torch.empty(n)
    pass_on(w, w.mine(n), got)
    equal(got, w.data(w.previous, n))


@case(gloo=False)
def non_contiguous_tensors_are_sent_and_filled_in_place(w):
    base = w.mine(6, 8)
    target = torch.full((8, 12), -99.0)
    pass_on(w, base.t(), target[:, ::2])
    equal(target[:, ::2], w.data(w.previous, 6, 8).t())
    equal(target[:, 1::2], torch.full((8, 6), -99.0))


@case()
def a_message_of_no_elements_is_a_message(w):
    got = torch.empty(0, 3)
    pass_on(w, torch.empty(0, 3), got)
    after = torch.empty(2)
    pass_on(w, w.mine(2), after)
    equal(after, w.data(w.previous, 2))


@case()
def tags_select_among_waiting_messages(w):
    if w.rank == 0:
        works = [dist.isend(w.data(0, 5, salt=tag), 1, tag=tag) for tag in (3, 1, 2)]
        for work in works:
            work.wait()
    if w.rank == 1:
        for tag in (1, 2, 3):
            got = torch.empty(5)
            assert dist.recv(got, 0, tag=tag) == 0
            equal(got, w.data(0, 5, salt=tag))


@case()
def messages_with_one_tag_keep_their_order(w):
    if w.rank == 0:
        for work in [dist.isend(torch.tensor([i]), 1) for i in range(50)]:
            work.wait()
    if w.rank == 1:
        got = [torch.empty(1, dtype=torch.int64) for _ in range(50)]
        for t in got:
            dist.recv(t, 0)
        assert [int(t) for t in got] == list(range(50))


@case()
def recv_from_any_source_says_who_sent(w):
    if w.rank:
        dist.send(w.mine(7), 0)
        return
    seen = []
    for _ in w.others:
        got = torch.empty(7)
        sender = dist.recv(got)
        equal(got, w.data(sender, 7))
        seen.append(sender)
    assert sorted(seen) == w.others


@case()
def recv_from_any_source_keeps_to_its_tag(w):
    if w.rank:
        works = [dist.isend(w.mine(2, salt=tag), 0, tag=tag) for tag in (8, 9)]
        for work in works:
            work.wait()
        return
    for tag in (9, 8):
        seen = []
        for _ in w.others:
            got = torch.empty(2)
            sender = dist.recv(got, tag=tag)
            equal(got, w.data(sender, 2, salt=tag))
            seen.append(sender)
        assert sorted(seen) == w.others


@case(gloo=False)
def recv_from_any_source_where_some_ranks_are_on_another_host(w):
    """There the backend looks for a message before it receives; here it is made to."""
    Channel.both_ways = True
    try:
        recv_from_any_source_says_who_sent(w)
        recv_from_any_source_keeps_to_its_tag(w)
        got, channel = torch.zeros(3), dist.group.WORLD.data
        unmet = steps.receive(got, MPI.ANY_SOURCE, 77)
        channel.post(unmet)
        assert not channel.test(unmet) and channel.cancel(unmet)
        dist.barrier()
        equal(got, torch.zeros(3))
    finally:
        Channel.both_ways = False


@case(sizes=(3, 4))
def any_source_in_a_sub_group_names_the_global_rank(w):
    members = list(range(1, w.size))
    group = dist.new_group(members)
    if w.rank == 1:
        for _ in members[1:]:
            got = torch.empty(3)
            sender = dist.recv(got, group=group)
            equal(got, w.data(sender, 3))
            assert sender in members[1:]
    elif w.rank > 1:
        dist.send(w.mine(3), 1, group=group)
    if w.rank:
        dist.destroy_process_group(group)


@case()
def send_and_recv_take_ranks_of_the_group(w):
    if w.rank == 0:
        dist.send(w.mine(2), group_dst=1)
    if w.rank == 1:
        got = torch.empty(2)
        dist.recv(got, group_src=0)
        equal(got, w.data(0, 2))
