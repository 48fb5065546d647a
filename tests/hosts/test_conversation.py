"""A rank on another host stops in pdb, through the channels that the lab has anyway."""

from functools import partial

import pytest

from tests.waiting import until_ranks, waits

from .conftest import NAMES

pytestmark = pytest.mark.hosts

CELL = """\
import socket
loss = torch.tensor(rank + 1.0)
if rank == 1:
    breakpoint()
    loss *= 10
dist.all_reduce(loss)
assert loss == 21"""


def test_a_rank_on_the_other_host_stops(pair, session):
    alone = partial(until_ranks, are=waits, ranks=[0])
    typed = (alone, "p loss"), "p socket.gethostname()", "rank 0", "n", "go"
    transcript, error = session(CELL, *typed, lab=pair())
    assert error is None
    assert "[rank 1] line 5: breakpoint()" in transcript and "[rank 1] line 6: loss *= 10" in transcript
    assert "[rank 1] tensor(2.)" in transcript and f"[rank 1] '{NAMES[1]}'" in transcript
    assert "rank 0 has not stopped: it is waiting, line 7: dist.all_reduce(loss)" in transcript


def test_ranks_of_both_hosts_have_the_environment_that_torchrun_gives(pair, session):
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
    pair()[:].execute(f"import os\nfound = [os.environ[name] for name in {names}]", block=True)
    assert pair()[:]["found"] == [[str(r), "2", "0", "1", str(r), "2"] for r in range(2)]
    meet = """dist.destroy_process_group()
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, rank == 0)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
total = torch.ones(1)
dist.all_reduce(total)
assert total == 2"""
    transcript, error = session(meet, lab=pair())
    assert error is None, error


def test_an_interrupt_ends_a_stop_there(pair, session):
    def interrupted(lab):
        raise KeyboardInterrupt

    transcript, error = session(CELL, "p loss", interrupted, lab=pair())
    assert str(error).startswith("interrupted")
