from collections import Counter, namedtuple

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
Job = namedtuple("Job", "name cost")

jobs = [Job(f"job{i}", i % 3) for i in range(4 * size)] if rank == 0 else None
chunks = [jobs[i::size] for i in range(size)] if rank == 0 else None
mine = comm.scatter(chunks, root=0)
assert len(mine) == 4 and all(isinstance(j, Job) for j in mine)

words = Counter("the quick brown fox jumps over the lazy dog the end".split()[rank::size])
counts = comm.reduce(words, op=MPI.SUM, root=0)
if rank == 0:
    assert counts["the"] == 3 and sum(counts.values()) == 11
    print(counts.most_common(1))

right, left = (rank + 1) % size, (rank - 1) % size
request = comm.isend({"from": rank, "jobs": mine}, dest=right, tag=11)
got = comm.recv(source=left, tag=11)
request.wait()
assert got["from"] == left
