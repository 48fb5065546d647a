import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

memory = np.zeros(size, dtype="d")
win = MPI.Win.Create(memory, disp_unit=memory.itemsize, comm=comm)
win.Fence()
mine = np.array([rank + 0.5])  # until the next fence
for target in range(size):
    win.Put([mine, MPI.DOUBLE], target, target=[rank, 1, MPI.DOUBLE])
win.Fence()
assert memory.tolist() == [r + 0.5 for r in range(size)]

# one counter on rank 0, taken by everybody
counter = MPI.Win.Allocate(8 if rank == 0 else 0, 8, comm=comm)
if rank == 0:
    np.frombuffer(counter.tomemory(), "i8")[0] = 0
comm.Barrier()
ticket = np.empty(1, dtype="i8")
counter.Lock(0)
one = np.ones(1, dtype="i8")
counter.Fetch_and_op([one, MPI.INT64_T], [ticket, MPI.INT64_T], 0, op=MPI.SUM)
counter.Unlock(0)
tickets = comm.allgather(int(ticket[0]))
assert sorted(tickets) == list(range(size)), tickets
counter.Free()
win.Free()
print("tickets are distinct")
