"""isend, irecv and their batches: work objects that end, in any order of waiting."""

import torch
import torch.distributed as dist

from .table import case
from .world import equal


@case()
def isend_and_irecv_complete_whatever_the_order_of_waiting(w):
    got = {r: torch.empty(9) for r in w.others}
    receives = [dist.irecv(got[r], r) for r in w.others]
    sends = [dist.isend(w.mine(9, salt=r), r) for r in w.others]
    for work in reversed(receives + sends):
        assert work.wait() in (True, None)
    for r in w.others:
        equal(got[r], w.data(r, 9, salt=w.rank))


@case()
def a_work_says_when_it_is_complete(w):
    got = torch.empty(4)
    receive = dist.irecv(got, w.previous)
    dist.barrier()
    send = dist.isend(w.mine(4), w.next)
    receive.wait()
    send.wait()
    assert receive.is_completed()
    assert send.is_completed()
    equal(got, w.data(w.previous, 4))


@case(gloo=False)
def a_receive_is_not_complete_before_its_send(w):
    got = torch.empty(4)
    receive = dist.irecv(got, w.previous)
    assert not receive.is_completed()
    dist.barrier()
    send = dist.isend(w.mine(4), w.next)
    while not receive.is_completed():
        pass
    send.wait()
    equal(got, w.data(w.previous, 4))


@case()
def irecv_from_any_source(w):
    if w.rank:
        dist.isend(w.mine(3), 0).wait()
        return
    senders = []
    for _ in w.others:
        got = torch.empty(3)
        work = dist.irecv(got)
        work.wait()
        sender = work._source_rank()
        equal(got, w.data(sender, 3))
        senders.append(sender)
    assert sorted(senders) == w.others


@case()
def batch_isend_irecv_exchanges_in_a_ring(w):
    got = torch.empty(3, 5)
    operations = [
        dist.P2POp(dist.isend, w.mine(3, 5), w.next),
        dist.P2POp(dist.irecv, got, w.previous),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    equal(got, w.data(w.previous, 3, 5))


@case()
def batch_isend_irecv_exchanges_among_all(w):
    got = {r: torch.empty(1000) for r in w.others}
    operations = [dist.P2POp(dist.irecv, got[r], r) for r in w.others]
    operations += [dist.P2POp(dist.isend, w.mine(1000, salt=r), r) for r in w.others]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for r in w.others:
        equal(got[r], w.data(r, 1000, salt=w.rank))


@case()
def large_exchanges_in_both_directions_do_not_wait_for_each_other(w):
    n = 1_000_000
    got = torch.empty(n)
    send = dist.isend(w.mine(n), w.next)
    receive = dist.irecv(got, w.previous)
    send.wait()
    receive.wait()
    equal(got, w.data(w.previous, n))


@case()
def many_sends_in_flight(w):
    got = [torch.empty(8) for _ in range(100)]
    receives = [dist.irecv(t, w.previous, tag=i) for i, t in enumerate(got)]
    sends = [dist.isend(w.mine(8, salt=i), w.next, tag=i) for i in reversed(range(100))]
    for work in sends + receives:
        work.wait()
    for i, t in enumerate(got):
        equal(t, w.data(w.previous, 8, salt=i))
