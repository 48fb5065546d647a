import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
node = comm.Split_type(MPI.COMM_TYPE_SHARED)
n, itemsize = 1000, MPI.DOUBLE.Get_size()
win = MPI.Win.Allocate_shared(n * itemsize if node.rank == 0 else 0, itemsize, comm=node)
buf, size = win.Shared_query(0)
assert size == itemsize
table = np.ndarray(buffer=buf, dtype="d", shape=(n,))

if node.rank == 0:
    table[:] = np.linspace(0, 1, n)
win.Fence()
part = slice(node.rank * n // node.size, (node.rank + 1) * n // node.size)
table[part] **= 2
win.Fence()
assert np.allclose(table, np.linspace(0, 1, n) ** 2)
total = comm.allreduce(float(table[part].sum())) / (comm.size // node.size)
node.Barrier()
print("mean of squares: %.3f" % (total / n))
win.Free()
node.Free()
