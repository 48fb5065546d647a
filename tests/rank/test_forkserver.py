"""Ranks that are forked are the processes that mpiexec started, in all that a cell or MPI can see."""

import json
import os
import signal
import socket
import subprocess
import sys

import ipyparallel
import psutil
import pytest

from labkit import LabError, launch
from labkit.lab.lab import Lab
from labkit.launch import living, processes, witness
from tests.waiting import WITHIN, until

SIZES = pytest.mark.parametrize("n", [1, 2, 3, 4])


def of(lab, program: str) -> list[psutil.Process]:
    """The lab's processes that run this program, and their children if those were forked from it."""
    found = processes.of_lab(lab._engines.lab_id)
    return [p for p in found if any(word.endswith(program) for word in p.cmdline())]


@SIZES
def test_each_rank_is_a_child_of_the_fork_server_and_has_a_witness(labs, n):
    lab = labs(n)
    pids = {r.pid for r in lab.ranks}
    [server] = {p.ppid() for p in of(lab, "labkit.rank.forkserver") if p.pid in pids}
    assert {p.pid for p in psutil.Process(server).children()} == pids
    assert len(of(lab, "witness.py")) == n + 1, "mpiexec has the word in its own command"


@SIZES
def test_a_rank_has_the_environment_that_mpiexec_gave(labs, ask, n):
    lab = labs(n)
    assert ask(lab[:], "os.environ['LABKIT_WORLD_SIZE']", "import os") == [str(n)] * n
    assert ask(lab[:], "os.getcwd()", "import os") == [os.getcwd()] * n


def test_new_ranks_hear_of_children_as_python_does(labs, ask):
    lab = labs(2)
    lab.restart()  # torch's DataLoader, in some earlier cell, would have changed that
    assert ask(lab[:], "signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL", "import signal") == [True] * 2


def test_ranks_draw_different_numbers(labs, ask):
    lab = labs(4)
    for draw in ("torch.rand(1).item()", "random.random()", "numpy.random.rand()", "os.urandom(8).hex()"):
        assert len(set(ask(lab[:], draw, "import os, random, numpy"))) == 4, draw


SOCKETS = """
import os
sockets = set()
for file in os.listdir("/proc/self/fd"):
    try:
        sockets.add(os.readlink(f"/proc/self/fd/{file}"))
    except OSError:  # the one that listed them
        pass
sockets = {name for name in sockets if name.startswith("socket:")}
"""


def test_no_rank_has_a_socket_of_another_one_or_of_the_fork_server(labs, ask):
    """Whoever kept one would keep a witness from seeing the end of its rank."""
    lab = labs(4)
    found = ask(lab[:], "sockets", SOCKETS)
    assert all(found) and len(set.union(*found)) == sum(map(len, found))


@pytest.fixture
def own():
    """A lab that is going to be hurt."""
    lab = Lab(launch.plan(2))
    yield lab
    lab.stop()


def test_who_ends_a_witness_ends_its_rank(own):
    [mine] = [p for p in of(own, "witness.py") if p.environ().get("PMI_RANK") == "1"]
    mine.kill()
    with pytest.raises(LabError, match="died"):
        own.ranks[1].process() and own.ranks[1].process().wait(WITHIN)
        own.require_running()


def test_who_ends_the_fork_server_ends_all_ranks_and_it_is_told(own):
    server = psutil.Process(own.ranks[0].process().ppid())
    ranks = [r.process() for r in own.ranks]
    server.send_signal(signal.SIGKILL)
    psutil.wait_procs(ranks, WITHIN)
    assert not any(map(living.is_alive, ranks))
    with pytest.raises(LabError, match="the process from which the ranks were forked died"):
        own.require_running()


@pytest.mark.slow
def test_a_rank_that_ends_while_nobody_can_say_how_is_told_all_the_same(own):
    server = psutil.Process(own.ranks[0].process().ppid())
    server.suspend()
    rank = own.ranks[1].process()
    rank.kill()
    until(lambda: not living.is_alive(rank))  # a zombie is not, and nobody collects it
    with pytest.raises(LabError, match=r"rank 1 \(.*\) died, and nobody said how"):
        own.require_running()


@pytest.fixture
def begun(tmp_path):
    """A fork server for one rank, which nobody has asked yet, and where it listens."""
    path = tmp_path / "ranks"
    with socket.socket(socket.AF_UNIX) as listening, (tmp_path / "said").open("w") as said:
        listening.bind(str(path))
        listening.listen(4)
        command = [sys.executable, "-m", "labkit.rank.forkserver", str(listening.fileno()), "1"]
        environment = os.environ | {"LABKIT_FOLDER": str(tmp_path)}
        process = subprocess.Popen(command, stderr=said, pass_fds=[listening.fileno()], env=environment)
    yield process, path
    process.kill()
    process.wait()


@pytest.mark.parametrize("says", ["nothing", "half of it"])
def test_who_asks_and_ends_meanwhile_harms_nobody(begun, tmp_path, says):
    process, path = begun
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(path))
            if says != "nothing":
                socket.send_fds(asking, [(100).to_bytes(witness.WIDTH, "little")], [0, 1, 2])
                asking.sendall(b"[{")
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(path))
        place = json.dumps([dict(os.environ), ["--version"], str(tmp_path)]).encode()
        with (tmp_path / "output").open("w") as output:
            files = [0, output.fileno(), output.fileno()]
            socket.send_fds(asking, [len(place).to_bytes(witness.WIDTH, "little")], files)
        asking.sendall(place)
        asking.settimeout(WITHIN)
        assert json.loads(asking.recv(4096))[0] == 0
    assert (tmp_path / "output").read_text().strip() == ipyparallel.__version__, "a rank was forked"
    assert process.wait(WITHIN) == 0
    assert (tmp_path / "said").read_text().count("Traceback") == 2, "what went wrong is in its log"


def test_without_a_fork_server_a_witness_says_so(tmp_path, capfd):
    with pytest.raises(SystemExit) as ended:
        witness.main(str(tmp_path / "nobody"))
    assert ended.value.code == witness.ALONE
