"""mpi4py in a lab's cells: the results are MPI's, and its calls are seen like torch's."""

import threading

import pytest

from labkit.lab import remote
from labkit.lab.cell import follow
from labkit.lab.outcome import CellError
from labkit.lab.tracing import traced
from labkit.mpi.watched import contents
from tests.waiting import NO_HURRY, waits

START = "from mpi4py import MPI\nimport numpy as np\ncomm, n = MPI.COMM_WORLD, MPI.COMM_WORLD.size\n"


def run(lab, code, **options):
    lab.require_running()
    result = lab[:].execute(START + code, silent=False, block=False)
    outcome = follow(lab, result, **options)
    outcome.raise_for_failure()
    return outcome


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_ring_and_its_sum(labs, ranks):
    run(
        labs(ranks),
        "right, left = (rank + 1) % n, (rank - 1) % n\n"
        "x, y = np.full(1000, float(rank)), np.zeros(1000)\n"
        "comm.Sendrecv(x, right, recvbuf=y, source=left)\n"
        "assert (y == left).all() and comm.sendrecv({'from': rank}, right, source=left) == {'from': left}\n"
        "comm.Allreduce(MPI.IN_PLACE, y)\n"
        "assert (y == n * (n - 1) / 2).all() and comm.allreduce(rank) == n * (n - 1) / 2\n"
        "half = comm.Split(rank % 2, -rank)\n"
        "assert half.allgather(rank) == sorted(range(rank % 2, n, 2), reverse=True)\n",
    )


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize(
    "wait",
    [
        "comm.recv(source=n - 1 - rank)",
        "rank == 0 and comm.Barrier() or comm.recv()",
        pytest.param("comm.Recv(np.zeros(3))", marks=pytest.mark.slow),
        pytest.param("comm.Probe()", marks=pytest.mark.slow),
        pytest.param("MPI.Request.Waitall([comm.Irecv(np.zeros(3))])", marks=pytest.mark.slow),
    ],
)
def test_an_interrupt_ends_a_wait_and_leaves_the_ranks_usable(labs, ranks, wait, monkeypatch):
    monkeypatch.setattr(remote, "RETURN_DEADLINE", NO_HURRY)
    lab, interrupted = labs(ranks), threading.Event()

    def look(said, states, seconds):
        """Interrupt when all wait, which is before the verdict that they wait for ever."""
        if all(map(waits, states)):
            interrupted.set()

    run(lab, "keep = rank")
    with pytest.raises(CellError, match="interrupted"):
        run(lab, wait, interrupted=interrupted, watch_it=look)
    run(
        lab,
        "assert keep == rank and comm.allreduce(1) == n\n"
        "comm.send(rank, (rank + 1) % n)\nassert comm.recv() == (rank - 1) % n",
    )


def test_a_trace_has_each_call_with_its_partners_bytes_and_line(labs):
    lab = labs(2)
    with traced(lab) as trace:
        run(
            lab,
            "x = np.zeros(100)\nif rank == 0:\n    comm.Send(x, 1, tag=7)\nelse:\n    comm.Recv(x)\n"
            "comm.Bcast(x, root=1)\nr = comm.isend('a', 1 - rank)\ncomm.recv()\nr.wait()",
        )
    told = [e for e in trace.events if e.verb != "compute"]
    first = [(e.rank, e.verb, e.peers, e.bytes, e.tag) for e in told if e.tag == 7]
    assert sorted(first) == [(0, "send", (1,), 800, 7), (1, "recv", (0,), 800, 7)]
    assert [(e.root, e.bytes, e.dtype) for e in told if e.verb == "Bcast"] == [(1, 800, "float64")] * 2
    assert len([e for e in told if e.verb in ("send", "recv")]) == 6
    assert all("line" in e.place for e in told)


def test_the_next_cell_may_receive_what_this_one_sends_if_it_is_meant(labs):
    lab = labs(2)
    result = lab[:].execute(START + "r = comm.isend(rank, 1 - rank)", silent=False, block=False)
    assert not follow(lab, result, keep_pending=True).left
    run(lab, "assert comm.recv() == 1 - rank\nr.wait()")


@pytest.mark.parametrize(
    "buffer, found",
    [
        ("numpy.zeros(3)", ("float64", 3)),
        ("numpy.zeros((2, 3), dtype='i4')", ("int32", 6)),
        ("[numpy.zeros(3), MPI.DOUBLE]", ("float64", 3)),
        ("[numpy.zeros(6), 4, MPI.DOUBLE]", ("float64", 4)),
        ("(numpy.zeros(3, dtype='u2'), 3)", ("uint16", 3)),
        ("array('d', [1, 2])", ("float64", 2)),
        ("array('q', [1, 2])", ("int64", 2)),
        ("torch.zeros(5)", ("float32", 5)),
        ("bytearray(8)", ("bytes", 8)),
        ("None", ("bytes", 0)),
        ("[numpy.zeros(16), 1, MPI.DOUBLE.Create_vector(4, 1, 4)]", ("float64", 4)),
        ("[numpy.zeros(3), 'd']", ("float64", 3)),
    ],
)
def test_what_a_buffer_holds(buffer, found):
    from array import array

    import numpy
    import torch
    from mpi4py import MPI

    names = {"array": array, "numpy": numpy, "torch": torch, "MPI": MPI}
    kind, count = contents.content(eval(buffer, names))
    assert (contents.name(kind), count) == found
