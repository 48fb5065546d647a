"""torch's hooks see every call: the Flight Recorder, the check for NaN, and a program's own."""

import json
import os
import pickle
import signal
from contextlib import suppress
from urllib.request import urlopen

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel

from .table import case
from .world import equal, usable


def called(call):
    """What a hook says of a call; for PyTorch 2.14 a verb with lists and with one tensor are the same."""
    return call.name.name.removesuffix("_BASE")


def hooked(group):
    """The names of the calls that a group's hooks see, before and after, as they come."""
    before, after = [], []
    group.register_pre_hook(1, lambda call: before.append(called(call)))
    group.register_post_hook(2, lambda call: after.append(called(call)))
    return before, after


def every_verb(w, group):
    """One call of each, and what the hooks call it."""
    each, mine = [torch.ones(2) for _ in range(w.size)], torch.ones(2)
    dist.all_reduce(mine, group=group)
    dist.broadcast(mine, 0, group=group)
    dist.reduce(mine, 0, group=group)
    dist.all_gather(each, mine, group=group)
    dist.all_gather_into_tensor(torch.empty(2 * w.size), mine, group=group)
    dist.gather(mine, each if w.rank == 0 else None, 0, group=group)
    dist.scatter(mine, each if w.rank == 0 else None, 0, group=group)
    dist.reduce_scatter(mine, each, group=group)
    dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * w.size), group=group)
    dist.all_to_all(each, [torch.ones(2) for _ in range(w.size)], group=group)
    dist.all_to_all_single(torch.empty(w.size), torch.ones(w.size), group=group)
    dist.barrier(group=group)
    sent = dist.isend(mine, w.next, group=group)
    dist.recv(torch.empty(2), w.previous, group=group)
    sent.wait()
    sent = dist.isend(mine, w.next, group=group)
    dist.recv(torch.empty(2), group=group)
    sent.wait()
    return (
        ["ALLREDUCE", "BROADCAST", "REDUCE", "ALLGATHER", "ALLGATHER", "GATHER", "SCATTER"]
        + ["REDUCE_SCATTER", "REDUCE_SCATTER", "ALLTOALL", "ALLTOALL", "BARRIER"]
        + ["SEND", "RECV"] * 2
    )  # fmt: skip


@case(gloo=False, since=(2, 14))
def hooks_see_each_verb_once(w):
    group = dist.new_group()
    before, after = hooked(group)
    assert every_verb(w, group) == before == after, (before, after)
    group.unregister_pre_hook(1)
    dist.all_reduce(torch.ones(1), group=group)
    assert len(after) == len(before) + 1
    dist.destroy_process_group(group)
    usable(w)


@case(gloo=False, since=(2, 14))
def hooks_see_what_torch_calls_itself(w):
    before, after = hooked(dist.group.WORLD)
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    before.clear()
    model(torch.ones(2, 3)).sum().backward()
    assert "ALLREDUCE" in before, before  # from C++
    torch.ops._c10d_functional.wait_tensor(
        torch.ops._c10d_functional.all_gather_into_tensor(torch.ones(2), w.size, dist.group.WORLD.group_name)
    )
    assert before[-1].startswith("ALLGATHER"), before
    group = dist.group.WORLD
    group.unregister_pre_hook(1)
    group.unregister_post_hook(2)
    usable(w)


@case(gloo=False, since=(2, 14))
def a_hook_may_refuse_a_call(w):
    """As the check for NaN does. All ranks refuse it here, so the group is as it was."""
    group = dist.new_group()

    def refuse(call):
        raise ValueError("not today")

    group.register_pre_hook(1, refuse)
    t = w.mine(3)
    for _ in range(2):
        try:
            dist.all_reduce(t, group=group)
        except ValueError as error:
            assert "not today" in str(error)
        else:
            raise AssertionError("the hook was not asked")
    group.unregister_pre_hook(1)
    equal(t, w.mine(3))
    dist.all_reduce(t, group=group)
    dist.destroy_process_group(group)
    usable(w)


@case(gloo=False, since=(2, 14))
def an_interrupt_past_the_hooks_gives_the_call_up(w):
    """It falls between the posting and the return, where nobody else has the Work."""
    from labkit.mpi import TaintedError, recover

    group = dist.new_group()
    group.register_post_hook(1, lambda call: signal.raise_signal(signal.SIGINT))
    for call in lambda: dist.recv(torch.empty(2), w.next, group=group), lambda: dist.barrier(group=group):
        try:
            call()
        except KeyboardInterrupt:
            continue
        raise AssertionError("it was not interrupted")
    group.unregister_post_hook(1)
    assert not [step for step in group.data.flying if step.verb == "Irecv"], "the receive is still open"
    with suppress(TaintedError):
        dist.barrier(group=group)
        raise AssertionError("a barrier that was interrupted had not been begun")
    recover()
    usable(w)


def entries(group):
    """What the Flight Recorder has of a group, oldest first, and who is in it."""
    dump = pickle.loads(c10d._dump_fr_trace(backend="mpi"))
    mine = [entry for entry in dump["entries"] if entry["process_group"][0] == group.group_name]
    return mine, dump["pg_config"].get(group.group_name)


@case(gloo=False, since=(2, 15))
def the_flight_recorder_has_each_call(w):
    """Without a line of the program's, since PyTorch 2.15."""
    group = dist.new_group()
    every_verb(w, group)
    found, about = entries(group)
    names = [entry["profiling_name"].split()[0] for entry in found]
    assert names == [
        "mpi:all_reduce", "mpi:broadcast", "mpi:reduce", "mpi:all_gather", "mpi:_all_gather_base",
        "mpi:gather", "mpi:scatter", "mpi:reduce_scatter", "mpi:_reduce_scatter_base", "mpi:all_to_all",
        "mpi:all_to_all_single", "mpi:barrier", "mpi:send", "mpi:recv", "mpi:send", "mpi:recv",
    ], names  # fmt: skip
    assert found[0]["input_sizes"] == found[0]["output_sizes"] == [[2]]
    assert found[0]["timeout_ms"] == group.seconds * 1000
    assert any(
        frame["filename"] == __file__ and frame["name"] == "every_verb" for frame in found[0]["frames"]
    )
    assert found[-1]["profiling_name"].endswith("<-?") and found[-1]["is_p2p"]
    assert json.loads(about["ranks"]) == list(range(w.size))
    dist.destroy_process_group(group)


@case(gloo=False, since=(2, 15))
def the_flight_recorder_knows_the_members_of_a_sub_group(w):
    group = dist.new_group([w.size - 1])
    if w.rank == w.size - 1:
        dist.all_reduce(torch.ones(1), group=group)
        found, about = entries(group)
        assert len(found) == 1 and json.loads(about["ranks"]) == [w.size - 1], (found, about)
    dist.all_reduce(torch.ones(7))
    found, about = entries(dist.group.WORLD)
    assert found[-1]["input_sizes"] == [[7]] and json.loads(about["ranks"]) == list(range(w.size))


@case(gloo=False, since=(2, 14))
def torchs_check_for_nan_works(w):
    os.environ["TORCH_DIST_NAN_CHECK"] = "1"
    group = dist.new_group()
    os.environ.pop("TORCH_DIST_NAN_CHECK")
    dist.all_reduce(torch.ones(2), group=group)
    try:
        dist.all_reduce(torch.tensor([1.0, float("nan")]), group=group)
    except RuntimeError as error:
        assert "nan" in str(error).lower(), error
    else:
        raise AssertionError("a NaN was summed")
    usable(w)


@case(gloo=False, since=(2, 15))
def the_health_check_has_nothing_against_mpi(w):
    server = c10d._WorkerServer("127.0.0.1", 0)
    page = f"http://127.0.0.1:{server.port}/handler/c10d_health_check"
    with urlopen(page, data=b"", timeout=10) as answer:
        assert json.load(answer) == {"healthy": True, "unhealthy_backends": []}
    server.shutdown()
