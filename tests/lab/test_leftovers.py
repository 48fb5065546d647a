"""What a cell leaves under way is told, and does not reach the next cell."""

import re
import tempfile
import time

import pytest
from IPython.utils.capture import capture_output

from labkit import launch
from labkit.lab.lab import Lab
from labkit.lab.leftovers import faults, lost, notes, uneven, unlike
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from labkit.rank.protocol import Leftover
from tests.faults.notebook import NEXT_RIGHT, crowded

FROM_WIRE, UNTIL_IT_WAITS = "; from labkit.mpi.wire.waiting import waits", "while not waits: time.sleep(0.01)"
"""After the imports, and when a thread has begun: until that waits in labkit's own backend."""
LATE = "ranks 0-1: all_reduce was never waited for (line 3: w = dist"
SENT = "rank 0: isend to rank 1 was never waited for (line 3"


def run(shell, lab, code, line=""):
    """The text that the notebook would store."""
    with capture_output() as captured:
        PxMagics(shell, lab).cell_px(line, code)
    return "\n".join(output.data["text/plain"] for output in captured.outputs)


def next_cells_are_right(shell, lab, ranks_kept=True):
    """Messages, collectives and a new group, on the same ranks."""
    pids = [r.pid for r in lab.ranks]
    code = (
        "x = torch.full((4,), 1.0 + rank)\n"
        "w = dist.isend(x, (rank + 1) % world_size)\n"
        "y = torch.zeros(4)\ndist.recv(y, (rank - 1) % world_size)\nw.wait()\n"
        "dist.all_reduce(y)\n"
        "dist.broadcast(x, src=1)\n"
        "z = torch.ones(1)\ndist.all_reduce(z, group=dist.new_group())\n"
        "[y[0].item(), x[0].item(), z.item()]"
    )
    n = len(lab)
    assert run(shell, lab, code).endswith(f"[{n * (n + 1) / 2}, 2.0, {float(n)}]")
    assert pids == [r.pid for r in lab.ranks] or not ranks_kept


UNMATCHED = {
    "a collective of one rank": (
        "x = torch.ones(4)\nif rank == 0:\n    w = dist.broadcast(100 * x, src=0, async_op=True)",
        r"rank 0: broadcast was never waited for; ranks? 1(, 2)? never called it \(line 4: w = dist",
    ),
    "an isend": (
        "if rank == 0:\n    w = dist.isend(torch.ones(1), dst=1)",
        r"rank 0: isend to rank 1 was never waited for; nobody received it \(line 3: w = dist",
    ),
    "an irecv": (
        "if rank == 1:\n    w = dist.irecv(torch.ones(1), src=0, tag=3)",
        r"rank 1: irecv from rank 0 with tag 3 was never waited for; nothing was sent \(line 3: w = dist",
    ),
    "a request that nobody has": (
        "if rank == 0:\n    dist.isend(torch.ones(1000), dst=1)",
        r"rank 0: isend to rank 1 was never waited for; nobody received it",
    ),
    "what a rank that raises leaves": (
        "if rank == 0:\n    w = [dist.all_reduce(torch.ones(5), async_op=True) for _ in range(5)]\n    1 / 0",
        r"rank 0: ZeroDivisionError.*\nrank 0: 5 times all_reduce was never waited for; ranks? 1(, 2)? never",
    ),
    "beside a deadlock": (
        "x = torch.ones(1)\nif rank == 0:\n    w = dist.isend(x, dst=1)\n"
        "if rank == 1:\n    dist.recv(x, src=0, tag=7)",
        r"deadlock(.*\n)*rank 0: isend to rank 1 was never waited for; nobody received it",
    ),
    "on a group of its own": (
        "g = dist.new_group([0, 1])\nif rank == 1:\n    w = dist.barrier(group=g, async_op=True)",
        r"rank 1: barrier was never waited for; rank 0 never called it",
    ),
    "a thread in a collective": (
        f"import threading, time{FROM_WIRE}\nif rank == 0:\n"
        f"    threading.Thread(target=lambda: dist.barrier()).start()\n    {UNTIL_IT_WAITS}",
        r"rank 0: barrier in a thread: rank 1 never called it \(line 4: threading",
    ),
    "a thread in a receive": (
        f"import threading, time{FROM_WIRE}\nif rank == 0:\n"
        f"    threading.Thread(target=lambda: dist.recv(torch.ones(3), 1)).start()\n    {UNTIL_IT_WAITS}",
        r"rank 0: recv from rank 1 in a thread: nothing was sent",
    ),
    "calls that differ": (
        "x = torch.ones(2 + rank)\nw = dist.all_reduce(x, async_op=True)",
        # or raised by the call itself, if the other rank has come by then
        r"(never waited for differs|MismatchError\nfound): *\n? *rank 0: all_reduce\(float32\[2\].*line 3",
    ),
}  # fmt: skip


DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
JOINED = f"{DDP}from torch.distributed.algorithms.join import Join\nmodel = DDP(torch.nn.Linear(2, 1))\n"
UNEVEN = "    for step in range(3 + rank):\n        model(torch.ones(4, 2)).sum().backward()\n"
FUNCTIONAL = "import torch.distributed._functional_collectives as f\n"
OF_TORCH = {
    "uneven inputs": f"{JOINED}with Join([model]):\n{UNEVEN}",
    "uneven inputs, as of old": f"{JOINED}with model.join():\n{UNEVEN}",
    "uneven inputs, by those that are left": (
        f"{JOINED}with model.join(divide_by_initial_world_size=False):\n{UNEVEN}"
        "assert model.module.bias.grad == 16 - 4 * (rank == 0)"
    ),
    "uneven inputs and buffers": (
        f"{JOINED}model = DDP(torch.nn.BatchNorm1d(2))\nwith Join([model]):\n{UNEVEN}"
    ),
    "uneven inputs and a sharded optimiser": (
        f"{JOINED}from torch.distributed.optim import ZeroRedundancyOptimizer\n"
        "by = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)\n"
        f"with Join([model, by]):\n{UNEVEN}        by.step()"
    ),
    "a gradient reduced on its own": (
        f"{DDP}net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))\n"
        "model = DDP(net, delay_all_reduce_named_params=[('1.weight', net[1].weight)],\n"
        "            param_to_hook_all_reduce=net[0].bias)\n"
        "model(torch.full((1, 3), float(rank))).sum().backward()\n"
        "both = [net[1].weight.grad.clone() for _ in range(world_size)]\n"
        "dist.all_gather(both, net[1].weight.grad)\nassert torch.equal(*both)"
    ),
    "a functional collective that is let go of": (
        f"{FUNCTIONAL}y = f.all_reduce(torch.ones(3), 'sum', dist.group.WORLD)\ndel y"
    ),
    "a functional collective that is kept": (
        f"{FUNCTIONAL}y = f.all_gather_tensor(torch.ones(3), 0, dist.group.WORLD)"
    ),
    "several functional collectives": (
        f"{FUNCTIONAL}ys = f.reduce_scatter_tensor_coalesced([torch.ones(4)] * 3, 'sum', [0] * 3,\n"
        "                                        dist.group.WORLD)"
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_TORCH)
def test_what_torch_itself_does_not_wait_for_is_not_told(labs, shell, name):
    code = f"import warnings\nwarnings.simplefilter('ignore')\n{OF_TORCH[name]}\npass"
    assert run(shell, labs(2), code) == ""


@pytest.mark.parametrize("name", UNMATCHED)
def test_what_can_never_end_is_told_and_discarded(labs, shell, name):
    code, says = UNMATCHED[name]
    lab = labs(3 if name == "a collective of one rank" else 2)
    with pytest.raises(CellError, match=says):
        run(shell, lab, code)
    next_cells_are_right(shell, lab)


def on_the_ranks(lab, name, value):
    """From now on "labkit.module.NAME" has another value on all ranks; returns the one before."""
    module = name.rpartition(".")[0]
    lab[:].execute(f"import {module}\nbefore = {name}\n{name} = {value!r}", block=True)
    return lab[0]["before"]


def test_what_another_rank_has_given_up_is_not_waited_for(labs, shell):
    lab, longest = labs(2), "labkit.mpi.repair.leftovers._LONGEST"  # for what all ranks have called
    before = on_the_ranks(lab, longest, 60.0)
    code = (
        "import time\nfrom datetime import timedelta\ntime.sleep(0.3 * rank)\n"
        "w = dist.all_reduce(torch.ones(10**6), async_op=True)\n"
        "if rank == 1:\n    w.wait(timedelta(seconds=0.2))\ntime.sleep(1)"
    )
    says = r"rank 1: DeadlineError(.*\n)*rank 0: all_reduce was never waited for; rank 1 gave it up \(line 5"
    begun = time.monotonic()
    with pytest.raises(CellError, match=says):
        run(shell, lab, code)
    assert time.monotonic() - begun < 30
    on_the_ranks(lab, longest, before)
    next_cells_are_right(shell, lab)


MATCHED = {
    "a send that is received": (
        "x = torch.ones(9)\n_ = dist.isend(x, dst=1) if rank == 0 else dist.recv(x, src=0)", SENT
    ),
    "a send that is received late": (
        "x, late = torch.ones(9), __import__('time')\n_ = rank == 0 and dist.isend(x, dst=1)\n"
        "if rank == 1:\n    late.sleep(0.3)\n    dist.recv(x, src=0)", SENT
    ),
    "both sides drop a large one": (
        "x = torch.ones(10**6)\nw = dist.isend(x, dst=1) if rank == 0 else dist.irecv(x, src=0)", SENT
    ),
    "many of one line": (
        "for i in range(3):\n    x = torch.ones(1)\n"
        "    dist.isend(x, dst=1) if rank == 0 else dist.recv(x, src=0)",
        "rank 0: 3 times isend to rank 1 was never waited for (line 4",
    ),
    "a collective": ("x = torch.ones(4)\nw = dist.all_reduce(x, async_op=True)", LATE),
    "waited for": ("x = torch.ones(4)\n_ = dist.all_reduce(x, async_op=True).wait()", ""),
    "its future waited for": (
        "x = torch.ones(4)\n_ = dist.all_reduce(x, async_op=True).get_future().wait()", ""
    ),
    "looked at until it has ended": (
        "w = dist.all_reduce(torch.ones(4), async_op=True)\nwhile not w.is_completed():\n    pass", ""
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MATCHED)
def test_what_all_ranks_have_called_ends_and_is_no_fault(labs, shell, name):
    code, says = MATCHED[name]
    lab = labs(2)
    told = run(shell, lab, code)
    assert told.startswith(says) and bool(told) == bool(says)
    if name == "a collective":
        assert run(shell, lab, "x.tolist()") == "[ranks 0-1] [2.0, 2.0, 2.0, 2.0]"
    next_cells_are_right(shell, lab)


def test_a_cell_may_mean_it(labs, shell):
    lab = labs(2)
    assert (
        run(shell, lab, "x = torch.ones(3)\nw = rank == 0 and dist.isend(5 * x, dst=1)", "--keep-pending")
        == ""
    )
    received = run(shell, lab, "w.wait() if rank == 0 else dist.recv(x, src=0)\nx[0].item()")
    assert received == "[rank 0] 1.0\n[rank 1] 5.0"
    run(shell, lab, "w = rank == 0 and dist.isend(5 * x, dst=1)", "--keep-pending")
    with pytest.raises(CellError, match="isend to rank 1 was never waited for"):
        run(shell, lab, "1")


def test_what_was_sent_with_noblock_leaves_nothing_either(labs, shell):
    lab = labs(2)
    magics = PxMagics(shell, lab)

    def run(code, line=""):
        with capture_output() as captured:
            magics.cell_px(line, code)
        return "\n".join(output.data["text/plain"] for output in captured.outputs)

    run("if rank == 0:\n    w = dist.isend(torch.full((1,), 9.0), dst=1)", "--noblock")
    run("if rank == 1:\n    dist.recv(torch.ones(1), src=0, tag=5)", "--noblock")
    told = run("x = torch.ones(1)\ndist.send(x, dst=1) if rank == 0 else dist.recv(x, src=0)\nx.item()")
    assert "what was sent with --noblock: deadlock: rank 0 finished the cell" in told
    assert told.endswith("[ranks 0-1] 1.0")


def test_cells_on_some_ranks(labs, shell):
    lab = labs(3)
    with pytest.raises(CellError, match="rank 2: irecv from rank 0 was never waited for"):
        run(shell, lab, "w = dist.irecv(torch.ones(1), src=0)", "--targets 2")
    next_cells_are_right(shell, lab)


def test_a_cell_that_leaves_nothing_asks_nothing_of_the_ranks(labs, shell, monkeypatch):
    lab = labs(2)
    monkeypatch.setattr(Lab, "settle", None)
    run(
        shell,
        lab,
        "w = dist.isend(torch.ones(3), dst=1 - rank)\ndist.recv(torch.ones(3), src=1 - rank)\nw.wait()",
    )
    run(shell, lab, "dist.all_reduce(torch.ones(3))")


@pytest.mark.parametrize("who", ["rank == 1", "True"])
def test_a_process_group_that_was_destroyed_is_made_anew(labs, shell, who):
    lab = labs(2)
    told = run(shell, lab, f"g = dist.new_group()\nif {who}:\n    dist.destroy_process_group()")
    assert told.endswith("destroyed the process group: all ranks have a new one")
    next_cells_are_right(shell, lab)


INIT = "g = dist.group.WORLD\ndist.init_process_group({})\n[dist.group.WORLD is g, dist.get_backend()]"


@pytest.mark.parametrize(
    "asked, told",
    [
        ("", ""),
        ("'mpi'", ""),
        ("'mpi', rank=rank, world_size=world_size", ""),
        ("init_method='env://'", ""),
        (
            "'gloo', init_method='tcp://127.0.0.1:9'",
            r"ranks 0-1: init_process_group\('gloo'\) has got.*'mpi'",
        ),
        ("backend='cpu:gloo,cuda:nccl'", "has got the process group that is there"),
    ],
)
def test_a_program_begins_with_the_group_that_is_there(labs, shell, asked, told):
    lab, code = labs(2), INIT.format(asked)
    for _ in range(2):  # a cell may be run again
        first, *notes = run(shell, lab, code).splitlines()
        assert first == "[ranks 0-1] [True, 'mpi']" and len(notes) == bool(told)
        assert re.search(told, "".join(notes))


def test_a_cell_finds_a_folder_where_an_earlier_one_left_none(labs, shell, tmp_path):
    lab, code = labs(2), "import os\nhere = os.getcwd()\nos.makedirs({0!r})\nos.chdir({0!r})\nos.rmdir({0!r})"
    run(shell, lab, code.format(str(tmp_path)).replace(f"'{tmp_path}'", f"f'{tmp_path}/{{rank}}'"))
    shown, note = run(shell, lab, "os.getcwd() == here").splitlines()
    assert shown == "[ranks 0-1] True" and "is gone; it is in" in note
    assert run(shell, lab, "os.getcwd() == here") == "[ranks 0-1] True"


def test_what_a_program_asks_of_its_group_is_as_elsewhere(labs, shell):
    lab = labs(2)
    with pytest.raises(CellError, match="twice"):
        run(shell, lab, "dist.init_process_group()\ndist.init_process_group()")
    with pytest.raises(CellError, match=r"world_size=3(?s:.*)rank [01] of 2(?s:.*)labkit.start\(3\)"):
        run(shell, lab, "dist.init_process_group(rank=rank, world_size=3)")
    another = "dist.destroy_process_group()\ndist.init_process_group('gloo', store=dist.FileStore({!r}, 2), "
    with tempfile.TemporaryDirectory() as folder:
        code = another.format(f"{folder}/store") + "rank=rank, world_size=2)\ndist.get_backend()"
        first, note = run(shell, lab, code).splitlines()
    assert first == "[ranks 0-1] 'gloo'" and "all ranks have a new one" in note
    assert run(shell, lab, "dist.get_backend()") == "[ranks 0-1] 'mpi'"
    next_cells_are_right(shell, lab)


def test_what_a_cell_may_leave_and_has_ended_is_not_told(labs, shell):
    lab = labs(2)
    code = "x = torch.ones(3)\nw = dist.isend(x, dst=1) if rank == 0 else dist.recv(x, src=0)"
    assert run(shell, lab, code, "--keep-pending") == ""
    assert run(shell, lab, "rank") == "[rank 0] 0\n[rank 1] 1"
    assert run(shell, lab, code).startswith(SENT)


@pytest.mark.parametrize("options", ["", "--targets 0,1"])
def test_a_new_group_of_some_ranks_is_told_and_the_next_one_is_made(labs, shell, options):
    lab = labs(3)
    code = "if rank < 2:\n    g = dist.new_group([0, 1])\n    dist.barrier(group=g)"
    says = r"ranks 0-1: new_group\(\[0, 1\]\) \(line 3: g = .*\nrank 2: no new_group"
    with pytest.raises(CellError, match=says):
        run(shell, lab, code, options)
    next_cells_are_right(shell, lab)


def test_a_new_group_that_some_ranks_did_not_make_is_no_obstacle(labs, shell):
    lab = labs(2)
    for _ in range(2):
        with pytest.raises(CellError, match="rank 0 in new_group"):
            run(shell, lab, "if rank == 0:\n    g = dist.new_group()")
        next_cells_are_right(shell, lab)


@pytest.fixture(scope="module")
def gloo():
    lab = Lab(launch.plan(2, backend="gloo"))
    yield lab
    lab.stop()


@pytest.mark.slow
@pytest.mark.ranks
@pytest.mark.parametrize(
    "name",
    [
        "an isend",
        "a collective of one rank",
        "what a rank that raises leaves",
        "a thread in a collective",
        "a thread in a receive",
    ],
)
def test_gloo_discards_it_with_the_group_or_the_processes(gloo, shell, name):
    code, says = UNMATCHED[name]
    code = code.replace(FROM_WIRE, "").replace(UNTIL_IT_WAITS, "time.sleep(2)")
    says = re.split("; rank|: rank 1 never", says)[0]
    with pytest.raises(CellError, match=says + r"(.*\n)*.*gloo can do that only with the") as caught:
        run(shell, gloo, code)
    assert ("the process group" in str(caught.value)) == (name in ("an isend", "a thread in a receive"))
    next_cells_are_right(shell, gloo)


@pytest.mark.slow
@pytest.mark.ranks
@pytest.mark.parametrize("option", ["", "--trace"])
def test_a_message_of_gloo_to_a_rank_that_there_is_not_costs_no_rank(gloo, shell, option):
    """gloo looked beyond its table: the rank ended by a segmentation fault, or waited for ever."""
    for call in ("dist.send(torch.ones(200000), dst=99)", "dist.irecv(torch.ones(3), src=2)"):
        with pytest.raises(CellError, match=r"(send|recv) with rank (99|2) .*\nfound: .*has ranks 0 to 1"):
            run(shell, gloo, call, option)
        next_cells_are_right(shell, gloo)


ON_A_GPU = """
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():  # has a device, and no memory there
    x = torch.empty(3, device="cuda:0")
group = dist.new_group(backend="gloo")
"""


@pytest.mark.slow
@pytest.mark.ranks
@pytest.mark.parametrize("backend", ["gloo", "mpi"])
def test_a_message_of_gloo_between_gpus_costs_no_rank(gloo, labs, shell, backend):
    """gloo gave a socket the GPU's address, which ended the process."""
    lab = gloo if backend == "gloo" else labs(2)
    for call in ("dist.send(x, 1 - rank, group)", "dist.irecv(x, group=group)"):
        with pytest.raises(CellError, match=r"(send|recv) of a tensor on cuda:0 with gloo"):
            run(shell, lab, ON_A_GPU + call)
        next_cells_are_right(shell, lab)


@pytest.mark.slow
@pytest.mark.ranks
def test_a_cell_runs_on_the_new_ranks_that_an_earlier_one_needed(gloo, shell):
    magics = PxMagics(shell, gloo)
    with capture_output() as captured:
        magics.cell_px("--noblock", "if rank == 0:\n    w = dist.barrier(async_op=True)")
        magics.cell_px("", "x = torch.ones(1)\ndist.all_reduce(x)\nx.item()")
    first, *_, last = (output.data["text/plain"] for output in captured.outputs)
    assert "gloo can do that only with the processes" in first and last == "[ranks 0-1] 2.0"


@pytest.mark.slow
@pytest.mark.ranks
def test_a_trace_does_not_hide_the_line(gloo, shell):
    with pytest.raises(CellError, match=r"nobody received it \(line 3: dist.isend"):
        run(shell, gloo, "if rank == 0:\n    dist.isend(torch.ones(3), dst=1)", "--trace")


@pytest.mark.slow
@pytest.mark.ranks
@pytest.mark.parametrize("name", MATCHED)
def test_gloo_ends_what_all_ranks_have_called(gloo, shell, name):
    """However late one of them calls it. A collective that has ended by then is not told: gloo does not know
    whether somebody waited.
    """
    code, says = MATCHED[name]
    before = on_the_ranks(gloo, "labkit.rank.gloo_works._PATIENCE", 10.0)
    told = run(shell, gloo, code)
    assert told.startswith(says) and bool(told) == bool(says) or (told == "" and "send" not in says)
    next_cells_are_right(shell, gloo)
    on_the_ranks(gloo, "labkit.rank.gloo_works._PATIENCE", before)


@pytest.fixture
def unchecked(monkeypatch):
    monkeypatch.setenv("LABKIT_CHECK", "0")
    lab = Lab(launch.plan(2))
    yield lab
    lab.stop()


@pytest.mark.slow
@pytest.mark.ranks
def test_a_send_that_ended_without_a_receive_does_not_reach_the_next_cell(unchecked, shell, monkeypatch):
    with pytest.raises(CellError, match="a message was sent and not received\n.*discarded on all ranks"):
        run(shell, unchecked, "if rank == 0:\n    dist.send(torch.full((4,), 9.0), dst=1)")
    next_cells_are_right(shell, unchecked)
    given_up = "dist.irecv(torch.ones(1), src=0, tag=5).wait(__import__('datetime').timedelta(seconds=0.1))"
    with pytest.raises(CellError, match="DeadlineError(?s:.*)a message was sent and not received"):
        run(shell, unchecked, f"dist.send(torch.full((4,), 9.0), 1) if rank == 0 else {given_up}")
    next_cells_are_right(shell, unchecked)
    with pytest.raises(CellError, match="ZeroDivisionError(?s:.*)2 messages were sent and not received"):
        run(shell, unchecked, "dist.send(torch.full((4,), 9.0), dst=1 - rank)\n1 / 0")
    next_cells_are_right(shell, unchecked)
    monkeypatch.setattr(Lab, "settle", None)
    next_cells_are_right(shell, unchecked)


UNEVEN = {
    "one that nobody waits for": (
        "if rank == 0:\n    w = dist.broadcast(torch.full((4,), 100.0), src=0, async_op=True)",
        "rank 0: broadcast was never waited for; rank 1 never called it",
    ),
    "one that ends on its root": (
        "if rank == 0:\n    dist.broadcast(torch.full((4,), 100.0), src=0)",
        "rank 1 did not call all collectives that rank 0 called\nwhat was under way is discarded",
    ),
    "in a group of its own": (
        "g = dist.new_group()\nif rank == 0:\n    dist.broadcast(torch.ones(3), src=0, group=g)",
        "rank 1 did not call all collectives that rank 0 called",
    ),
    "beside an error": (
        "if rank == 1:\n    1 / 0\ndist.broadcast(torch.ones(3), src=0)",
        "ZeroDivisionError(?s:.*)rank 1 did not call all collectives that rank 0 called",
    ),
}


@pytest.mark.slow
@pytest.mark.ranks
def test_a_collective_that_some_ranks_did_not_call_does_not_reach_the_next_cell(unchecked, shell):
    for name, (code, says) in UNEVEN.items():
        with pytest.raises(CellError, match=says):
            run(shell, unchecked, code)
            pytest.fail(name)
        next_cells_are_right(shell, unchecked)


DIFFERING = {
    "in another order": (
        "def a():\n    return dist.all_reduce(torch.ones(200_000), async_op=True)\n"
        "def b():\n    return dist.barrier(async_op=True)\n"
        "w = [a(), b()] if rank else [b(), a()]",
        r"differs:\n *rank 0: barrier\(\)\n *rank 1: all_reduce\(float32\[200000\]",
    ),
    "one that has ended": (
        "if rank == 0:\n    dist.broadcast(torch.ones(3), src=0)\n"
        "else:\n    w = dist.all_reduce(torch.ones(3), async_op=True)",
        r"rank 1: a coll.*differs:\n *rank 0: broadcast\(float32\[3\], root=0\)\n *rank 1: all_reduce",
    ),
    "in a group of its own": (
        "g = dist.new_group()\nx = torch.ones(200_000)\n"
        "w = dist.barrier(async_op=True, group=g) if rank else dist.all_reduce(x, group=g, async_op=True)",
        r"differs:\n *rank 0: all_reduce\(float32\[200000\], op=SUM\)\n *rank 1: barrier\(\)",
    ),
}


@pytest.mark.slow
@pytest.mark.ranks
def test_collectives_that_differ_are_told_though_nobody_checks(unchecked, shell):
    """At once: there is nothing to wait for."""
    on_the_ranks(unchecked, "labkit.mpi.repair.leftovers._LONGEST", 60.0)
    begun = time.monotonic()
    for name, (code, says) in DIFFERING.items():
        with pytest.raises(CellError, match=says):
            run(shell, unchecked, code)
            pytest.fail(name)
        next_cells_are_right(shell, unchecked)
    assert time.monotonic() - begun < 30


ON_SOME = {
    "the root of a broadcast": ("--targets 0", "dist.broadcast(torch.full((4,), 100.0), src=0)"),
    "who only gives": ("--targets 1", "dist.reduce(torch.ones(3), dst=0)"),
}


@pytest.mark.slow
@pytest.mark.ranks
def test_a_collective_of_a_cell_on_some_ranks_does_not_reach_the_next_cell(unchecked, shell):
    for name, (options, code) in ON_SOME.items():
        with pytest.raises(CellError, match="rank . did not call all collectives that rank . called"):
            run(shell, unchecked, code, options)
            pytest.fail(name)
        next_cells_are_right(shell, unchecked)
    with pytest.raises(CellError, match="a message was sent and not received"):
        run(shell, unchecked, "dist.send(torch.ones(1), dst=1)", "--targets 0")
    next_cells_are_right(shell, unchecked)


@pytest.mark.slow
@pytest.mark.ranks
def test_two_cells_may_make_up_a_whole(unchecked, shell, monkeypatch):
    """Each on one rank, the first with --noblock: nothing is missing, whichever ends first."""
    monkeypatch.setattr(Lab, "settle", None)
    receive, send = "x = torch.zeros(1)\ndist.recv(x, src=0)", "dist.send(torch.ones(1), dst=1)"
    broadcast = "x = torch.ones(1) - rank\ndist.broadcast(x, src=0)"
    for rank, code, other in ((1, receive, send), (0, send, receive), (1, broadcast, broadcast)):
        magics = PxMagics(shell, unchecked)
        with capture_output():
            magics.cell_px(f"--targets {rank} --noblock", f"import time\ntime.sleep(0.5)\n{code}")
            magics.cell_px(f"--targets {1 - rank}", other)
            magics.result()
        assert run(shell, unchecked, "x.item()", "--targets 1") == "[rank 1] 1.0"
    next_cells_are_right(shell, unchecked)


OF_MPI4PY = {
    "of buffers": ("comm.Bcast(np.ones(3), root=0)", "if rank == 0:\n    "),
    "of objects": ("comm.bcast('mine', root=0)", "if rank == 0:\n    "),
    "on some ranks": ("comm.bcast('mine', root=0)", ""),
}


@pytest.mark.slow
@pytest.mark.ranks
def test_a_collective_of_mpi4py_that_some_ranks_did_not_call_does_not_reach_the_next_cell(unchecked, shell):
    before = "from mpi4py import MPI\nimport numpy as np\ncomm = MPI.COMM_WORLD\n"
    for name, (code, who) in OF_MPI4PY.items():
        with pytest.raises(CellError, match="rank 1 did not call all(?s:.*)the processes, new on all ranks"):
            run(shell, unchecked, f"{before}{who}{code}", "" if who else "--targets 0")
            pytest.fail(name)
        next_cells_are_right(shell, unchecked)
        told = run(shell, unchecked, f"{before}comm.bcast(rank + 5, root=0) + comm.allreduce(rank)")
        assert told == "[ranks 0-1] 6"
        run(shell, unchecked, "MPI.COMM_SELF.bcast(1)", "--targets 0")  # has no other ranks


BY_MPI4PY = """
from mpi4py import MPI
import numpy as np
comm, x, y, xy = MPI.COMM_WORLD, np.ones(4), np.ones(4), np.ones((2, 4))
"""
ROOTS = "rank 1 in Gather number 1 with root 1(?s:.*)cannot be taken back: all ranks are new"
DIFFERENT_OF_MPI4PY = {
    "one never ends": ("comm.Bcast(x)", "comm.Barrier()", "deadlock(?s:.*)than rank 0: all ranks are new"),
    "all end": ("comm.reduce(1, root=1)", "comm.Allreduce(x, y)", "than rank 0\n.*new on all ranks"),
    "roots differ": ("comm.Gather(x, xy, root=0)", "comm.Gather(x, xy, root=1)", ROOTS),
    "one does not block": ("comm.bcast(x)", "r = comm.Ibcast(x)", "than rank 0\n.*new on all ranks"),
}
"""What rank 0 calls, and rank 1; and what is told of it."""


@pytest.mark.slow
@pytest.mark.ranks
@pytest.mark.parametrize("option", ["", "--noblock"])
@pytest.mark.parametrize("name", list(DIFFERENT_OF_MPI4PY))
def test_different_collectives_of_mpi4py_cost_the_processes_at_once(unchecked, shell, name, option):
    """MPI has begun them and cannot end them: to try took half a minute, or the next cell got their data."""
    first, second, told = DIFFERENT_OF_MPI4PY[name]
    cell = f"{BY_MPI4PY}if rank == 0:\n    {first}\nelse:\n    {second}"
    began = time.monotonic()
    right = f"{BY_MPI4PY}comm.bcast(rank + 5, root=0) + comm.allreduce(rank)"
    if option:
        magics = PxMagics(shell, unchecked)  # which knows what it has sent
        with capture_output() as captured:
            magics.cell_px(option, cell)
            magics.cell_px("", right)
        words, answer = (output.data["text/plain"] for output in captured.outputs)
    else:
        with pytest.raises(CellError) as caught:
            run(shell, unchecked, cell)
        words, answer = str(caught.value), run(shell, unchecked, right)
    assert re.search(told, words) and answer == "[ranks 0-1] 6"
    assert time.monotonic() - began < NEXT_RIGHT * crowded()


@pytest.mark.slow
@pytest.mark.ranks
def test_roots_that_differ_end_in_a_verdict_though_nobody_checks(unchecked, shell):
    with pytest.raises(CellError, match="name different roots(?s:.*)rank 1 in broadcast"):
        run(shell, unchecked, "dist.broadcast(torch.ones(1_500_000), src=rank)")
    next_cells_are_right(shell, unchecked, ranks_kept=False)


@pytest.mark.slow
@pytest.mark.ranks
def test_large_tensors_are_right_after_lengths_that_differed_and_nobody_checked(unchecked, shell):
    run(shell, unchecked, "dist.broadcast(torch.ones(1_000_000 // (1 + rank)), src=rank)")
    code = "x = torch.full((2_000_000,), 1.0 + rank)\ndist.broadcast(x, src={})\nx.sum().item()"
    for root in (0, 1, 1, 0):
        assert run(shell, unchecked, code.format(root)).endswith(f"{2e6 * (1 + root)}")
    next_cells_are_right(shell, unchecked)


LATE_THREAD = """import threading
go, told = threading.Event(), []
def late():
    go.wait(60)
    try:
        dist.all_reduce(torch.ones(5))
    except RuntimeError as error:
        told.append(str(error))
thread = threading.Thread(target=late)
thread.start()
dist.barrier() if rank else dist.broadcast(torch.ones(1), src=0)"""


def test_a_thread_of_a_failed_cell_reaches_no_later_cell(labs, shell):
    lab = labs(2)
    with pytest.raises(CellError, match="MismatchError"):
        run(shell, lab, LATE_THREAD)
    told = run(shell, lab, "if rank:\n    go.set()\n    thread.join(60)\nlen(told), told[:1]")
    assert "(0, [])" in told and "the cell that began this thread has failed" in told
    next_cells_are_right(shell, lab)
    run(shell, lab, "go.set()\nthread.join(60)")


def test_a_thread_of_an_earlier_cell_goes_on_when_a_later_one_fails(labs, shell):
    """It has a group of its own, and nothing of it was under way."""
    lab = labs(2)
    run(
        shell,
        lab,
        LATE_THREAD.replace("go, told", "own = dist.new_group()\ngo, told")
        .replace("ones(5))", "ones(5), group=own)")
        .rpartition("\n")[0],
    )
    with pytest.raises(CellError, match="MismatchError"):
        run(shell, lab, LATE_THREAD.splitlines()[-1])
    assert "(False, [])" in run(shell, lab, "go.set()\nthread.join(60)\nthread.is_alive(), told")
    next_cells_are_right(shell, lab)


def test_words():
    ended = Leftover(0, "all_reduce", "line 1: w", "")
    message = Leftover(1, "isend to rank 0", "line 1: w", "")
    assert notes([ended, message]) == (
        "rank 0: all_reduce was never waited for (line 1: w)\n"
        "rank 1: isend to rank 0 was never waited for (line 1: w)"
    )
    stuck = [Leftover(rank, "barrier", "", "rank 2 never called it", True) for rank in (0, 0, 1, 1)]
    assert faults(stuck) == "ranks 0-1: 2 times barrier was never waited for; rank 2 never called it"
    assert faults([ended]) == "" == notes(stuck)
    sent = Leftover(0, "isend to rank 1", "", "nobody received it", True)
    assert lost(1, [sent]) == "" == lost(-1, []) and lost(2, [sent]) == "a message was sent and not received"
    assert uneven({0: {"all": 3, "half": 1}, 1: {"all": 3, "half": 1}, 2: {"all": 3}}) == ""
    told = uneven({0: {"all": 3, "half": 1}, 1: {"all": 2, "half": 1}, 2: {"all": 2}})
    assert told == "ranks 1-2 did not call all collectives that rank 0 called"
    assert unlike({0: [("all", 3, 7), ("half", 1, 2)], 1: [("all", 3, 7)]}) == ""
    assert (
        unlike({0: [("all", 3, 7)], 1: [("all", 2, 7)]})
        == "rank 1 did not call all collectives that rank 0 called"
    )
    assert unlike({0: [("all", 3, 7)], 1: [("all", 3, 8)], 2: [("all", 3, 8)]}) == (
        "ranks 1-2 called other collectives than rank 0"
    )
