"""With the knob on messages are as slow as asked, collectives right, and nothing else changes."""

from math import inf

import ipyparallel as ipp
import pytest

import labkit
from labkit import LabError
from labkit.lab.network import network
from labkit.simulate.cost import ring_cost
from tests.waiting import WITHIN, until_ranks, waits

TRIES = 3
"""What else a machine does makes a measurement worse, never better: the best of so many counts."""
SLOW = """
import time
dist.barrier()
begin = time.perf_counter()
{}
dist.barrier()
seconds = time.perf_counter() - begin
"""


def seconds(lab, code: str) -> float:
    """Of the slowest rank, and so from the first that began to the last that ended."""

    def once() -> float:
        lab[:].execute(SLOW.format(code), block=True)
        return max(lab[:]["seconds"])

    return min(once() for _ in range(TRIES))


@pytest.fixture
def slowed(labs):
    """`slowed(ranks, bandwidth, latency)`; the limit is taken off in the end."""
    used = []

    def slowed(ranks, *limits, **hosts):
        lab = labs(ranks)
        used.append(lab)
        lab.network(*limits, **hosts)
        return lab

    yield slowed
    for lab in used:
        lab.network()


def test_limits_are_read():
    assert (network().bandwidth, network().alpha) == (inf, 0)
    assert network("1Gbit/s", "50us").alpha == 50e-6 and network("1Gbit/s").beta == 8e-9
    assert network(bandwidth="1.5 kB/s").bandwidth == 1500


@pytest.mark.parametrize("wrong", ["100", "fast", "-1Mbit/s", "0Mbit/s", "100mbit/s", 100])
def test_other_words_are_refused(wrong):
    with pytest.raises(LabError, match="a bandwidth of"):
        network(bandwidth=wrong)
    with pytest.raises(LabError, match="a latency of"):
        network(latency=wrong)


@pytest.mark.timed
@pytest.mark.parametrize("rate, bytes_per_second", [("20Mbit/s", 2.5e6), ("100Mbit/s", 12.5e6)])
def test_ping_pong_measures_what_was_asked(slowed, rate, bytes_per_second):
    lab = slowed(2, rate, "1ms")
    pair = lab[:]
    pair.execute("from labkit.algorithms import fit_alpha_beta, ping_pong", block=True)
    pair.execute("sizes = [1, 250_000, 500_000]; times = [ping_pong(n, 9) for n in sizes]", block=True)
    pair.execute("alpha, beta = fit_alpha_beta(sizes, times)", block=True)
    assert 1 / pair["beta"][0] == pytest.approx(bytes_per_second, rel=0.05)
    assert 1e-3 <= pair["alpha"][0] < 3e-3


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_collectives_are_right(slowed, ask, size):
    lab = slowed(size, "1Gbit/s", "10us")
    total, root = sum(range(size)), size - 1
    work = """
x = torch.arange(10.) + rank
dist.all_reduce(x)
m = torch.full((3, 2), float(rank)).t()
dist.all_reduce(m, op=dist.ReduceOp.AVG)
b = torch.full((5,), rank); dist.broadcast(b, src=world_size - 1)
t = torch.full((5,), rank); dist.reduce(t, dst=world_size - 1)
g = torch.empty(world_size, 2, dtype=torch.long); dist.all_gather_into_tensor(g, torch.tensor([rank, 7]))
parts = [torch.empty(2, dtype=torch.long) for _ in range(world_size)]
dist.all_gather(parts, torch.tensor([rank, 7]))
s = torch.empty(2); dist.reduce_scatter_tensor(s, torch.arange(2. * world_size))
found = [None] * world_size; dist.all_gather_object(found, {"rank": rank})
dist.barrier()
rows = [rank, world_size] if rank else [world_size]
sums = torch.sparse_coo_tensor([rows], torch.ones(len(rows)), (9,))
dist.all_reduce(sums)
later = torch.sparse_coo_tensor([[rank]], torch.full((1, 2), float(world_size)), (world_size, 2))
dist.all_reduce(later, dist.ReduceOp.AVG, async_op=True).wait()
"""
    found = ask(
        lab[:], "[x.tolist(), m.tolist(), b.tolist(), t.tolist(), g.tolist(), s.tolist(), found]", work
    )
    for rank, (x, m, b, t, g, s, objects) in enumerate(found):
        assert x == [size * i + total for i in range(10)] and m == [[total / size] * 3] * 2
        assert b == [root] * 5 and t == [total if rank == root else rank] * 5
        assert g == [[r, 7] for r in range(size)] and s == [size * 2 * rank, size * (2 * rank + 1)]
        assert objects == [{"rank": r} for r in range(size)]
    added = [0.0] + [1.0] * (size - 1) + [float(size)] + [0.0] * (8 - size)
    sparse = ask(lab[:], "[sums.to_dense().tolist(), later.to_dense().tolist()]")
    assert sparse == [[added, [[1.0] * 2] * size]] * size
    assert all(ask(lab[:], "all(p.tolist() == [r, 7] for r, p in enumerate(parts))"))


@pytest.mark.timed
@pytest.mark.parametrize("size", [2, 4])
def test_an_all_reduce_takes_the_time_of_its_ring(slowed, size):
    """Two latencies come on top for each barrier's round."""
    lab = slowed(size, "50Mbit/s", "0ms")
    expected = ring_cost(size).seconds(2e6, 0.0, 8 / 50e6)
    assert seconds(lab, "dist.all_reduce(torch.ones(500_000))") == pytest.approx(expected, rel=0.15)


@pytest.mark.timed
def test_a_receiver_shares_its_link_among_senders(slowed):
    lab = slowed(4, "50Mbit/s")
    gather = "x = torch.ones(62_500)\nfor other in range(1, 4):\n    if rank == other: dist.send(x, 0)\n"
    gather += "    if rank == 0: dist.recv(x, other)"
    assert seconds(lab, gather) == pytest.approx(3 * 250_000 * 8 / 50e6, rel=0.15)


ON_A_HOST = """
pairs = dist.new_group([0, 1]), dist.new_group([2, 3])
seconds = []
mine = pairs[rank // 2]
for size, group, late in (10_000, mine, False), (10_000, mine, True), (100, None, False):
    dist.barrier()
    begin = time.perf_counter()
    work = dist.all_reduce(torch.ones(size), group=group, async_op=late)
    if late: work.wait()
    seconds.append(time.perf_counter() - begin)
"""


def test_what_stays_on_a_host_is_not_held_back(slowed):
    """Over the link the first two would take 40 s each, the last takes 0.6 s."""
    lab = slowed(4, "1kB/s", ranks_per_host=2)
    lab[:].execute("import time\n" + ON_A_HOST, block=True)
    within, in_background, between = map(max, zip(*lab[:]["seconds"], strict=True))
    assert max(within, in_background) < 20 and between > 0.5


@pytest.mark.parametrize("wrong", [0, -1, 2.0, "2", True, None])
def test_hosts_have_a_number_of_ranks(labs, wrong):
    with pytest.raises(LabError, match="a network of hosts with"):
        labs(2).network("1Gbit/s", ranks_per_host=wrong)


@pytest.mark.timed
def test_messages_move_while_the_sender_computes(slowed):
    lab = slowed(2, "20Mbit/s")
    overlap = """
x = torch.ones(62_500)
if rank == 0:
    sent = time.perf_counter(); work = dist.isend(x, 1); time.sleep(0.3); work.wait()
else:
    dist.recv(x, 0); arrived = time.perf_counter()  # the clock of both
"""

    def once() -> float:
        lab[:].execute(SLOW.format(overlap), block=True)
        return lab[1]["arrived"] - lab[0]["sent"]

    assert min(once() for _ in range(TRIES)) == pytest.approx(0.1, abs=0.05)


def test_a_trace_shows_the_messages(slowed):
    lab = slowed(4, "1Gbit/s")
    with lab.trace() as trace:
        lab[:].execute("dist.all_reduce(torch.ones(1000))", block=True)
    assert trace.bytes_sent == (6000,) * 4 and {event.verb for event in trace.events} >= {"send", "recv"}
    assert not any(event.verb == "all_reduce" for event in trace.events)


def test_what_has_no_schedule_is_refused_and_works_without_the_knob(slowed):
    lab = slowed(2, "1Gbit/s")
    both = "y = torch.empty(2); dist.all_to_all_single(y, torch.ones(2))"
    with pytest.raises(ipp.error.CompositeError, match="all_to_all_single"):
        lab[:].execute(both, block=True)
    with pytest.raises(ipp.error.CompositeError, match="op=MAX"):
        lab[:].execute("dist.all_reduce(torch.ones(2), dist.ReduceOp.MAX)", block=True)
    lab.network()
    lab[:].execute(both, block=True)


def test_ranks_that_disagree_are_told(slowed):
    lab = slowed(2, "1Gbit/s")
    with pytest.raises(ipp.error.CompositeError, match="MismatchError"):
        lab[:].execute("dist.all_reduce(torch.ones(2 + rank))", block=True)
    lab[:].execute("x = torch.ones(2); dist.all_reduce(x)", block=True)


def test_a_held_message_can_be_given_up(slowed, ask):
    lab = slowed(2, "1kB/s")
    stuck = lab[:].execute("dist.all_reduce(torch.ones(100_000))", block=False)
    until_ranks(lab, waits)
    assert not stuck.ready()
    lab.interrupt()
    with pytest.raises(ipp.error.CompositeError, match="KeyboardInterrupt"):
        stuck.get(WITHIN)
    lab.recover()
    lab.network()
    lab[:].execute("x = torch.ones(2); dist.all_reduce(x)", block=True)
    assert ask(lab[:], "x.tolist()") == [[2.0, 2.0]] * 2


def test_a_taken_over_lab_has_no_limit(slowed):
    """With the limit the 1 MB would take 50 s."""
    lab = slowed(2, "20kB/s")
    lab.take_over()
    lab[:].execute(SLOW.format("dist.all_reduce(torch.ones(250_000))"), block=True)
    assert max(lab[:]["seconds"]) < 20


def behind(lab, code: str):
    """The trace of a cell that computes while a collective moves; and in how many seconds it had called, and
    was over, and what share of the collective was hidden, each at its best.
    """
    tries = []
    for _ in range(TRIES):
        with lab.trace() as trace:
            lab[:].execute(SLOW.format(code), block=True)
        of_tensors = labkit.Trace(len(lab), tuple(e for e in trace.events if e.bytes != 1))
        hidden = of_tensors.overlap() if len(lab) > 1 else 1.0
        tries.append((max(lab[:]["called"]), max(lab[:]["seconds"]), hidden))
    called, over, hidden = zip(*tries, strict=True)
    return trace, min(called), min(over), max(hidden)


HIDDEN = """
x = torch.arange(250_000.) + rank
work = dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True)
called = time.perf_counter() - begin
time.sleep(0.4); work.wait()
"""


@pytest.mark.timed
@pytest.mark.parametrize("size", [1, 2, 3])
def test_an_asynchronous_all_reduce_moves_while_its_rank_computes(slowed, ask, size):
    lab = slowed(size, "50Mbit/s")
    trace, called, over, hidden = behind(lab, HIDDEN)
    right = "torch.allclose(x, torch.arange(250_000.) + (world_size - 1) / 2)"
    assert ask(lab[:], right) == [True] * size
    assert called < 0.1 and over < 0.55 and hidden > 0.9  # the ring alone takes up to 0.21
    sums = [e for e in trace.events if e.verb == "all_reduce"]
    assert [e.bytes for e in sums] == [1_000_000] * size


GATHERED = """
part = torch.arange(125_000.) + rank
whole, mean = torch.empty(world_size * 125_000), torch.empty(125_000)
gathering = dist.all_gather_into_tensor(whole, part, async_op=True)
adding = dist.reduce_scatter_tensor(mean, part.repeat(world_size), dist.ReduceOp.AVG, async_op=True)
called = time.perf_counter() - begin
time.sleep(0.7); gathering.wait(); adding.wait()
"""


@pytest.mark.timed
@pytest.mark.parametrize("size", [1, 3])
def test_asynchronous_halves_of_a_ring_move_while_their_rank_computes(slowed, ask, size):
    lab = slowed(size, "50Mbit/s")
    trace, called, over, hidden = behind(lab, GATHERED)
    right = "torch.equal(whole, torch.cat([torch.arange(125_000.) + r for r in range(world_size)]))"
    assert ask(lab[:], right) == [True] * size
    right = "torch.allclose(mean, torch.arange(125_000.) + (world_size - 1) / 2)"
    assert ask(lab[:], right) == [True] * size
    assert called < 0.1 and over < 0.85 and hidden > 0.9  # the two alone take up to 0.32
    halves = {"all_gather_into_tensor", "reduce_scatter_tensor"}
    assert {e.verb for e in trace.events if e.bytes > 1} == halves


def test_asynchronous_all_reduces_of_several_groups_keep_their_order(slowed, ask):
    lab = slowed(3, "1Gbit/s", "1ms")
    work = """
pair = dist.new_group([0, 1])
mine = [torch.full((n,), float(rank + n)) for n in (5, 0, 7, 7)]
works = [dist.all_reduce(x, async_op=True) for x in mine]
if rank < 2: works.append(dist.all_reduce(y := torch.ones(3), group=pair, async_op=True))
late = torch.ones(2); dist.all_reduce(late)
for w in reversed(works): w.wait()
"""
    found = ask(lab[:], "[late.tolist(), [x.tolist() for x in mine]]", work)
    assert found == [[[3.0] * 2, [[3.0 + 3 * n] * n for n in (5, 0, 7, 7)]]] * 3
    assert lab[:2]["y"][1].tolist() == [2.0] * 3


DDP = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
class Device(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: x.clone())
    @staticmethod
    def backward(ctx, g):
        time.sleep(0.05); return g
class Layer(nn.Linear):
    def forward(self, x): return Device.apply(super().forward(x))
torch.manual_seed(0)
model = nn.Sequential(*(Layer(100, 100) for _ in range(4)))
replica = DistributedDataParallel(model, bucket_cap_mb=0.0385)
x = torch.randn(8, 100)[rank::world_size]
for _ in range(2): replica(x).square().mean().backward()  # the first pass arranges the buckets
model.zero_grad(); dist.barrier()
"""


@pytest.mark.timed
def test_ddp_hides_its_all_reduces_behind_the_backward_pass(slowed, ask):
    lab = slowed(2, "50Mbit/s")
    lab[:].execute("import time\n" + DDP, block=True)
    hidden = []
    for _ in range(TRIES):
        with lab.trace() as trace:
            step = "model.zero_grad(); loss = replica(x).square().mean(); loss.backward()"
            lab[:].execute(step, block=True)
        hidden.append(trace.overlap())
    assert max(hidden) > 0.5
    alone = """
sums = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
for part in range(world_size):
    torch.manual_seed(0); [Layer(100, 100) for _ in range(4)]; every = torch.randn(8, 100)
    (model(every[part::world_size]).square().mean() / world_size).backward()
"""
    lab[:].execute(alone, block=True)
    right = "max((s - p.grad).abs().max() for s, p in zip(sums, model.parameters())).item() < 1e-6"
    assert ask(lab[:], right) == [True, True]


def test_ddp_that_waits_for_a_rank_hears_an_interrupt(slowed, ask):
    lab = slowed(2, "50Mbit/s")
    lab[:].execute("import time\n" + DDP, block=True)
    stuck = lab[:].execute("if rank == 0: replica(x).square().mean().backward()", block=False)
    until_ranks(lab, waits, [0])
    assert not stuck.ready()
    lab.interrupt()
    with pytest.raises(ipp.error.CompositeError, match="KeyboardInterrupt"):
        stuck.get(WITHIN)
    lab.recover()
    lab[:].execute("x = torch.ones(2); dist.all_reduce(x, async_op=True).wait()", block=True)
    assert ask(lab[:], "x.tolist()") == [[2.0, 2.0]] * 2


def test_asynchronous_all_reduces_that_disagree_are_told(slowed, ask):
    lab = slowed(2, "1Gbit/s")
    with pytest.raises(ipp.error.CompositeError, match="MismatchError"):
        lab[:].execute("dist.all_reduce(torch.ones(2 + rank), async_op=True).wait()", block=True)
    lab[:].execute("x = torch.ones(2); dist.all_reduce(x, async_op=True).wait()", block=True)
    assert ask(lab[:], "x.tolist()") == [[2.0, 2.0]] * 2
