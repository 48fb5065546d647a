"""Small programs for mpi4py, as others write them: wrong ones with what must be told, and right ones.

The categories are those of the MPI Bugs Initiative. All begin with START, line 1, and run on two ranks.
"""

START = "from mpi4py import MPI; import numpy as np; comm = MPI.COMM_WORLD; me = comm.rank; x = np.zeros(4)\n"

_BIG = "big = np.zeros(4 * 10**6)\n"  # Intel MPI copies 8 MB aside

WRONG = {
    # call ordering
    "receive without a send": (
        "if me == 0:\n    comm.recv(source=1)",
        "rank 1 finished the cell.*rank 0 in recv from rank 1, line 3",
    ),
    "each receives first": (
        "comm.recv(source=1 - me)\ncomm.send(1, dest=1 - me)",
        "each waits for another.*rank 0 in recv from rank 1, line 2.*rank 1 in recv from rank 0, line 2",
    ),
    "each receives first, into buffers": (
        "comm.Recv(x, source=1 - me)\ncomm.Send(x, dest=1 - me)",
        "each waits for another.*rank 0 in recv from rank 1, line 2",
    ),
    "each receives first, to replace what it sends": (
        "comm.Sendrecv_replace(x, 1 - me, sendtag=1, source=1 - me, recvtag=2)",
        "each waits for another.*rank 0 in recv from rank 1 with tag 2, line 2(?!.*Exception)",
    ),
    "each sends much first": (
        _BIG + "comm.Send(big, 1 - me)\ncomm.Recv(big, 1 - me)",
        "each waits for another.*rank 0 in send to rank 1, line 3.*rank 1 in send to rank 0, line 3",
    ),
    "each sends first, synchronously": (
        "comm.ssend(1, dest=1 - me)\ncomm.recv(source=1 - me)",
        "each waits for another.*rank 0 in send to rank 1, line 2",
    ),
    "a send that nobody receives": (
        "if me == 0:\n    comm.send('hello', dest=1)",
        r"rank 0: send to rank 1: nobody received it \(line 3: comm.send",
    ),
    "a synchronous send that nobody receives": (
        "if me == 0:\n    comm.Ssend(x, dest=1)",
        "rank 1 finished the cell.*rank 0 in send to rank 1, line 3",
    ),
    "one message too few": (
        "if me == 0:\n    comm.send(1, 1)\nelse:\n    comm.recv(source=0)\n    comm.recv(source=0)",
        "rank 0 finished the cell.*rank 1 in recv from rank 0, line 6",
    ),
    "a barrier that one rank misses": (
        "if me == 0:\n    comm.Barrier()",
        "rank 1 finished the cell.*rank 0 in Barrier number 1, line 3",
    ),
    "Bcast against Barrier": (
        "if me == 0:\n    comm.Bcast(x)\nelse:\n    comm.Barrier()",
        r"rank 0: Bcast\(float64.*root=0\) at the cell, line 3\s+rank 1: Barrier\(\) at the cell, line 5",
    ),
    "collectives in another order": (
        "if me == 0:\n    comm.bcast(1)\n    comm.gather(1)\nelse:\n    comm.gather(1)\n    comm.bcast(None)",
        r"rank 0: bcast\(root=0\) at the cell, line 3\s+rank 1: gather\(root=0\) at the cell, line 6",
    ),
    "a collective against a message": (
        "if me == 0:\n    comm.barrier()\nelse:\n    comm.recv(source=0)",
        "each waits for another.*rank 0 in Barrier number 1, line 3.*rank 1 in recv from rank 0, line 5",
    ),
    "Ibarrier against Barrier": (
        "comm.Barrier() if me else comm.Ibarrier().Wait()",
        r"rank 0: Ibarrier\(\) at the cell, line 2\s+rank 1: Barrier\(\) at the cell, line 2",
    ),
    "Allreduce on one rank, Reduce on the other": (
        "y = np.zeros(4)\ncomm.Allreduce(x, y) if me else comm.Reduce(x, y)",
        r"rank 0: Reduce\(float64\[4\], op=SUM, root=0\).*line 3\s+rank 1: Allreduce\(",
    ),
    # roots
    "bcast from two roots": (
        "comm.bcast(me, root=me)",
        r"rank 0: bcast\(root=0\) at the cell, line 2\s+rank 1: bcast\(root=1\)",
    ),
    "Reduce to two roots": (
        "comm.Reduce(x, np.zeros(4), root=me)",
        r"rank 0: Reduce\(.*root=0\) at the cell, line 2\s+rank 1: Reduce\(.*root=1\)",
    ),
    "scatter from nobody": (
        "comm.scatter(None if me else [1, 2], root=1 - me)",
        r"rank 0: scatter\(root=1\).*line 2\s+rank 1: scatter\(root=0\)",
    ),
    # operators
    "another operator": (
        "comm.allreduce(1, op=MPI.MAX if me else MPI.SUM)",
        r"rank 0: allreduce\(op=SUM\) at the cell, line 2\s+rank 1: allreduce\(op=MAX\)",
    ),
    "another operator, of buffers": (
        "comm.Allreduce(x, np.zeros(4), MPI.PROD if me else MPI.MIN)",
        r"rank 0: Allreduce\(float64\[4\], op=MIN\).*line 2\s+rank 1: Allreduce\(float64\[4\], op=PROD\)",
    ),
    # types and sizes
    "another type in a message": (
        "if me == 0:\n    comm.Send(x, 1)\nelse:\n    comm.Recv(np.zeros(4, dtype=np.int64), 0)",
        "rank 1: recv from rank 0: it takes int64, and rank 0 sent float64 .at the cell, line 3.*line 5",
    ),
    "a pickled message into a buffer": (
        "if me == 0:\n    comm.send(x, 1)\nelse:\n    comm.Recv(np.zeros(400), 0)",
        "rank 1: recv from rank 0: it takes float64, and rank 0 sent a pickled object .at the cell, line 3",
    ),
    "a message that is too long": (
        "if me == 0:\n    comm.Send(x, 1)\nelse:\n    comm.Recv(np.zeros(2), 0)",
        "rank 1: TruncatedError: the message from rank 0 is longer than the buffer of 2 float64.*line 5",
    ),
    "a message that is too long for an Irecv that is never waited for": (
        "if me == 0:\n    comm.Send(x, 1)\nelse:\n    r = comm.Irecv(np.zeros(2), 0)",
        "rank 1: irecv from rank 0 was never waited for; the message.*longer than.*2 float64.*line 5",
    ),
    "an object that is too long for irecv": (
        "if me == 0:\n    comm.send('long' * 10**5, 1)\nelse:\n    r = comm.irecv(source=0)",
        "rank 1: irecv from rank 0 was never waited for; the message from rank 0 is longer than.*line 5",
    ),
    "a message that is too long for one Irecv of several": (
        "if me == 0:\n    comm.Send(x, 1)\nelse:\n"
        "    MPI.Request.Waitall([comm.Irecv(np.zeros(2), 0), comm.Irecv(x, 0, tag=7)])",
        "rank 1: .*MPI_Status.*line 5.*rank 1: irecv from rank 0 with tag 7 was never waited for",
    ),
    "another operator in Iallreduce, which is never waited for": (
        "r = comm.Iallreduce(x, np.zeros(4), op=MPI.SUM if me else MPI.MAX)",
        r"never waited for differs.*rank 0: Iallreduce\(float64\[4\], op=MAX\).*line 2\s+rank 1.*op=SUM",
    ),
    "another size in Allreduce": (
        "comm.Allreduce(np.zeros(2 + me), np.zeros(2 + me))",
        r"rank 0: Allreduce\(float64\[2\], op=SUM\).*line 2\s+rank 1: Allreduce\(float64\[3\]",
    ),
    "another type in Bcast": (
        "comm.Bcast(np.zeros(4, dtype=['f4', 'f8'][me]))",
        r"rank 0: Bcast\(float32\[4\], root=0\).*line 2\s+rank 1: Bcast\(float64\[4\], root=0\)",
    ),
    "no buffer for Bcast": (
        "comm.Bcast(None if me else x)",
        r"rank 0: Bcast\(float64\[4\], root=0\).*line 2\s+rank 1: Bcast\(bytes\[0\], root=0\)",
    ),
    "Scatter of too little": (
        "comm.Scatter(np.zeros(4) if me == 0 else None, np.zeros(4))",
        r"rank 0: Scatter\(float64\[2\], root=0\).*line 2\s+rank 1: Scatter\(float64\[4\], root=0\)",
    ),
    # tags
    "tags that do not meet": (
        "if me == 0:\n    comm.ssend(1, 1, tag=1)\nelse:\n    comm.recv(source=0, tag=2)",
        "each waits for another, with another tag.*send to rank 1 with tag 1, line 3.*with tag 2, line 5",
    ),
    "a buffered send with another tag": (
        "if me == 0:\n    comm.send(1, 1, tag=1)\nelse:\n    comm.recv(source=0, tag=2)",
        "rank 0 finished the cell.*rank 1 in recv from rank 0 with tag 2, line 5"
        ".*rank 0: send to rank 1 with tag 1: nobody received it .line 3",
    ),
    # communicators
    "two communicators": (
        "other = comm.Dup()\ncomm.Barrier() if me else other.Barrier()",
        r"collectives of different groups.*rank 0 in Barrier.*'COMM_WORLD, Dup \d+', line 3"
        r".*rank 1 in Barrier.*'COMM_WORLD', line 3",
    ),
    "a message in another communicator": (
        "other = comm.Dup()\ncomm.ssend(1, 1) if me == 0 else other.recv(source=0)",
        r"with another group.*rank 0 in send to rank 1 on group 'COMM_WORLD', line 3.*Dup \d+', line 3",
    ),
    "Split by some": ("if me == 0:\n    comm.Split(0)", "rank 1 finished the cell.*rank 0 in Split.*line 3"),
    "a rank's own communicator": (
        "half = comm.Split(me)\nhalf.recv(source=0)",
        "each waits for another.*rank 0 in recv from rank 0.*line 3.*rank 1 in recv from rank 1.*line 3",
    ),
    # requests
    "an Irecv that is never waited for": (
        "if me == 1:\n    request = comm.Irecv(x, source=0)",
        r"rank 1: irecv from rank 0 was never waited for; nothing was sent \(line 3",
    ),
    "an isend that is dropped": (
        _BIG + "if me == 0:\n    comm.Isend(big, dest=1)",
        r"rank 0: isend to rank 1 was never waited for; nobody received it \(line 4",
    ),
    "a collective that one rank never enters": (
        "if me == 0:\n    request = comm.Ibcast(x)",
        r"rank 0: Ibcast was never waited for; rank 1 never called it \(line 3",
    ),
    "Waitall for what nobody sends": (
        "MPI.Request.Waitall([comm.Irecv(x, 1 - me, tag=3), comm.Isend(x, 1 - me, tag=5)])",
        "each waits for another.*rank 0 in recv from rank 1 with tag 3, line 2",
    ),
    "Waitany for what nobody sends": (
        "MPI.Request.Waitany([comm.Irecv(x, 1 - me), comm.Irecv(x, 1 - me, tag=3)])",
        "each waits for another.*rank 1 in recv from rank 0, line 2",
    ),
    "a persistent receive that nobody serves": (
        "request = comm.Recv_init(x, 1 - me)\nrequest.Start()\nrequest.Wait()",
        "each waits for another.*rank 0 in recv from rank 1, line 4",
    ),
    # invalid arguments
    "a rank that is none": ("comm.send(1, dest=7)", "Invalid rank .line 2|ERR_RANK.*line 2"),
    "a root that is none": ("comm.bcast(1, root=9)", "[Rr]oot.*line 2"),
    "a tag that is none": ("comm.send(1, dest=1 - me, tag=-5)", "[Tt]ag.*line 2|TAG.*line 2"),
    "scatter of too few": (
        "comm.scatter([1] if me == 0 else None)",
        "rank 0 raised an error.*rank 1 in scatter.*line 2.*expecting 2 items, got 1 .line 2",
    ),
    "what cannot be sent": (
        "comm.bcast((lambda: 0) if me == 0 else None)",
        "rank 0 raised an error.*rank 1 in bcast.*line 2.*rank 0: .*[Pp]ickl.*line 2",
    ),
    # ends
    "a rank that raises": (
        "if me == 0:\n    1 / 0\ncomm.barrier()",
        "rank 0 raised an error.*rank 1 in Barrier number 1, line 4.*ZeroDivisionError.*line 3",
    ),
    "a probe for nothing": (
        "comm.Probe(source=1 - me)",
        "each waits for another.*rank 0 in probe for a message from rank 1, line 2",
    ),
}
"""Name -> the program, and what the verdict must say (a regular expression; `.` is any character)."""

DEATHS = {
    "a rank that is killed": (
        "import os, signal\nif me == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\ncomm.Barrier()",
        r"rank 1 \(pid \d+ on .+\) died: .*[Kk]illed",
    ),
    "a rank that leaves": (
        "import os\nif me == 1:\n    os._exit(7)\ncomm.recv(source=1)",
        "rank 1 .*exit code 7",
    ),
}
"""The same where the ranks do not survive."""

RIGHT = {
    "a ping-pong": (
        "for _ in range(100):\n    if me == 0:\n        comm.Send(x, 1)\n        comm.Recv(x, 1)\n"
        "    else:\n        comm.Recv(x, 0)\n        comm.Send(x, 0)"
    ),
    "small messages that MPI buffers": "comm.send(me, 1 - me)\nassert comm.recv(source=1 - me) == 1 - me",
    "dictionaries": (
        "if me == 0:\n    comm.send({'a': 7}, dest=1, tag=11)\nelse:\n"
        "    assert comm.recv(source=0, tag=11) == {'a': 7}"
    ),
    "any source, any tag": (
        "status = MPI.Status()\nif me == 0:\n    comm.recv(status=status)\n"
        "    assert (status.source, status.tag) == (1, 4)\nelse:\n    comm.send(1, 0, tag=4)"
    ),
    "much, crosswise, with Sendrecv": (
        _BIG + "comm.Sendrecv(big, 1 - me, recvbuf=np.zeros(4 * 10**6), source=1 - me)"
    ),
    "sendrecv": "assert comm.sendrecv(me, 1 - me, source=1 - me) == 1 - me",
    "Sendrecv_replace of a column": (
        "column = MPI.DOUBLE.Create_vector(4, 1, 4).Commit()\nmatrix = np.zeros((4, 4)) + me\n"
        "comm.Sendrecv_replace([matrix, 1, column], 1 - me, source=1 - me)\n"
        "assert (matrix[:, 0] == 1 - me).all() and (matrix[:, 1:] == me).all()"
    ),
    "Allgather of a struct, and a message": (
        "kind = np.dtype([('x', 'f8'), ('id', 'i4')], align=True)\n"
        "struct = MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.DOUBLE, MPI.INT])\n"
        "struct = struct.Create_resized(0, kind.itemsize).Commit()\n"
        "mine, all = np.array([(0.5, me)], kind), np.zeros(2, kind)\n"
        "comm.Allgather([mine, 1, struct], [all, 1, struct])\nassert list(all['id']) == [0, 1]\n"
        "comm.Sendrecv([mine, 1, struct], 1 - me, recvbuf=[all, 1, struct], source=1 - me)\n"
        "assert all['id'][0] == 1 - me"
    ),
    "Sendrecv_replace along a line": (
        "x[:] = me\nup = MPI.PROC_NULL if me else 1\ndown = 0 if me else MPI.PROC_NULL\n"
        "comm.Sendrecv_replace(x, up, source=down)\nassert (x == 0).all()"
    ),
    "Sendrecv_replace": ("x[:] = me\ncomm.Sendrecv_replace(x, 1 - me, source=1 - me)\nassert x[0] == 1 - me"),
    "isend and irecv": (
        "a, b = comm.isend(me, 1 - me), comm.irecv(source=1 - me)\na.wait()\nassert b.wait() == 1 - me"
    ),
    "Waitall": (
        "y = np.zeros(4)\nMPI.Request.Waitall([comm.Irecv(y, 1 - me), comm.Isend(x + me, 1 - me)])\n"
        "assert y[0] == 1 - me"
    ),
    "Waitany until none is left": (
        "r = [comm.Irecv(np.zeros(4), 1 - me, t) for t in (1, 2)]\n"
        "for t in (2, 1):\n    comm.Send(x, 1 - me, t)\n"
        "assert {MPI.Request.Waitany(r), MPI.Request.Waitany(r)} == {0, 1}\n"
        "assert MPI.Request.Waitany(r) == MPI.UNDEFINED"
    ),
    "Test until it has come": (
        "r = comm.Irecv(x, 1 - me)\ncomm.Send(x, 1 - me)\nwhile not r.Test():\n    pass"
    ),
    "persistent requests": (
        "y = np.zeros(4)\nr = [comm.Send_init(x, 1 - me), comm.Recv_init(y, 1 - me)]\n"
        "for n in range(3):\n    x[:] = n\n    MPI.Prequest.Startall(r)\n    MPI.Request.Waitall(r)\n"
        "    assert y[0] == n"
    ),
    "Probe, and as much memory": (
        "s = MPI.Status()\nif me == 0:\n    comm.Send(x, 1)\nelse:\n    comm.Probe(0, status=s)\n"
        "    comm.Recv(np.zeros(s.Get_count(MPI.DOUBLE)), 0)"
    ),
    "Mprobe": "comm.send('a', 1 - me)\nassert comm.mprobe().recv() == 'a'",
    "types in words": (
        "if me == 0:\n    comm.Send([x, MPI.DOUBLE], 1)\nelse:\n    comm.Recv([x, 4, MPI.DOUBLE], 0)"
    ),
    "a column by a vector": (
        "column = MPI.DOUBLE.Create_vector(4, 1, 4).Commit()\nmatrix = np.zeros((4, 4))\n"
        "if me == 0:\n    comm.Send([matrix, 1, column], 1)\nelse:\n    comm.Recv(x, 0)"
    ),
    "bytes for anything": ("if me == 0:\n    comm.Send(x, 1)\nelse:\n    comm.Recv([x, MPI.BYTE], 0)"),
    "a shorter message than the buffer": (
        "if me == 0:\n    comm.Send(x, 1)\nelse:\n    comm.Recv(np.zeros(100), 0)"
    ),
    "all collectives of objects": (
        "assert comm.bcast(me, root=1) == 1 and comm.allgather(me) == [0, 1]\n"
        "assert comm.alltoall([me, me]) == [0, 1]\n"
        "assert comm.scatter([1, 2] if me == 0 else None) == me + 1\n"
        "assert comm.gather(me, root=1) == ([0, 1] if me else None)\n"
        "assert comm.allreduce(me + 1, op=MPI.PROD) == 2 and comm.reduce(1, root=1) == (2 if me else None)\n"
        "assert comm.scan(1) == me + 1 and comm.exscan(1) == (1 if me else None)"
    ),
    "all collectives of buffers": (
        "y, two = np.zeros(4), np.zeros(8)\ncomm.Barrier()\ncomm.Bcast(x, root=1)\n"
        "comm.Allreduce(x, y, op=MPI.MAX)\n"
        "comm.Reduce(x, y if me else None, root=1)\ncomm.Gather(x, two if me == 0 else None)\n"
        "comm.Scatter(two if me == 0 else None, x)\ncomm.Allgather(x, two)\ncomm.Alltoall(two, two.copy())\n"
        "comm.Scan(x, y)\ncomm.Exscan(x, y)\ncomm.Reduce_scatter_block(two, x)\n"
        "comm.Gatherv(x[: me + 1], [np.zeros(3), [1, 2]] if me == 0 else None)\n"
        "comm.Allgatherv(x[: me + 1], [np.zeros(3), [1, 2]])"
    ),
    "in place": (
        "comm.Allreduce(MPI.IN_PLACE, x)\ntwo = np.zeros(8)\ncomm.Allgather(MPI.IN_PLACE, two)\n"
        "comm.Reduce(MPI.IN_PLACE if me == 0 else x, x if me == 0 else None)"
    ),
    "collectives that do not block": (
        "y = np.zeros(4)\nr = [comm.Ibcast(x, 0), comm.Iallreduce(x, y), comm.Ibarrier()]\n"
        "MPI.Request.Waitall(r[::-1])"
    ),
    "an operator of one's own": (
        "first = MPI.Op.Create(lambda a, b, t: None, commute=False)\ncomm.Allreduce(x, np.zeros(4), op=first)"
    ),
    "halves": (
        "half = comm.Split(color=me % 2, key=me)\nassert half.allreduce(1) == 1\nhalf.Free()\n"
        "both = comm.Dup()\nassert both.allreduce(1) == 2\nboth.Free()"
    ),
    "groups": (
        "some = comm.Create(comm.Get_group().Incl([1]))\nassert (some == MPI.COMM_NULL) == (me == 0)\n"
        "turned = comm.Create_group(comm.Get_group().Incl([1, 0]))\nassert turned.allgather(me) == [1, 0]"
    ),
    "a ring on a grid": (
        "ring = comm.Create_cart([2], periods=[True])\nleft, right = ring.Shift(0, 1)\n"
        "ring.Sendrecv(x, right, recvbuf=np.zeros(4), source=left)\nassert ring.Get_coords(me) == [me]"
    ),
    "ends of a line": (
        "line = comm.Create_cart([2])\nleft, right = line.Shift(0, 1)\ny = np.zeros(4)\n"
        "line.Sendrecv(x, right, recvbuf=y, source=left)\nline.send(1, dest=MPI.PROC_NULL)"
    ),
    "a straggler": ("import time\nif me == 0:\n    time.sleep(1.6)\ncomm.Barrier()\ncomm.bcast(1)"),
    "a master and a worker": (
        "if me == 0:\n    for n in range(20):\n        comm.send(n, 1, tag=1)\n"
        "    comm.send(None, 1, tag=2)\nelse:\n    s = MPI.Status()\n"
        "    while comm.recv(source=0, status=s) is not None:\n        pass\n    assert s.tag == 2"
    ),
    "window": (
        "w = MPI.Win.Create(x, comm=comm)\nw.Fence()\nif me == 0:\n    w.Put(np.ones(4), 1)\nw.Fence()\n"
        "assert x[0] == me\nw.Free()"
    ),
    "beside torch": (
        "import torch\nimport torch.distributed as dist\nt = torch.ones(3)\ndist.all_reduce(t)\n"
        "comm.Allreduce(MPI.IN_PLACE, t)\nassert t[0] == 4"
    ),
    "a look at the types": (
        "assert isinstance(comm, MPI.Intracomm) and isinstance(MPI.REQUEST_NULL, MPI.Request)\n"
        "assert comm == MPI.COMM_WORLD and comm.Get_name() == 'MPI_COMM_WORLD'"
    ),
    "an error that is caught": (
        "try:\n    comm.send(1, dest=7)\nexcept MPI.Exception as error:\n"
        "    assert error.Get_error_class() == MPI.ERR_RANK"
    ),
    "alone": "me_alone = MPI.COMM_SELF\nassert me_alone.bcast(3) == 3 and me_alone.sendrecv(4, 0) == 4",
    "a cancelled receive": "r = comm.Irecv(x, 1 - me)\nr.Cancel()\nr.Wait()",
    "many messages": ("for n in range(1500):\n    comm.send(n, 1) if me == 0 else comm.recv(source=0)"),
    "bsend": (
        "MPI.Attach_buffer(bytearray(10_000))\ncomm.bsend(1, 1 - me)\ncomm.recv(source=1 - me)\n"
        "MPI.Detach_buffer()"
    ),
    "Rsend": "r = comm.Irecv(x, 1 - me)\ncomm.Barrier()\ncomm.Rsend(np.ones(4), 1 - me)\nr.Wait()",
    "Isendrecv": "comm.Isendrecv(x, 1 - me, recvbuf=np.zeros(4), source=1 - me).Wait()",
    "Testall and Waitsome": (
        "r = [comm.Irecv(np.zeros(4), 1 - me, t) for t in (1, 2)]\nassert not MPI.Request.Testall(r)\n"
        "comm.Barrier()\n"
        "for t in (2, 1):\n    comm.Send(x, 1 - me, t)\nleft = 2\n"
        "while left:\n    left -= len(MPI.Request.Waitsome(r))"
    ),
    "waitall of objects": (
        "s = [comm.isend(n, 1 - me, n) for n in range(3)]\n"
        "assert MPI.Request.waitall([comm.irecv(source=1 - me, tag=n) for n in range(3)]) == [0, 1, 2]\n"
        "MPI.Request.waitall(s)"
    ),
    "a large object": "assert len(comm.sendrecv(np.zeros(10**6), 1 - me, source=1 - me)) == 10**6",
}
"""Programs with which nothing is wrong."""
