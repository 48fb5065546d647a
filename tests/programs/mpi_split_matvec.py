import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
side = int(comm.size**0.5)
row = comm.Split(comm.rank // side, comm.rank % side)
col = comm.Split(comm.rank % side, comm.rank // side)

n = 4
rng = np.random.default_rng(5)
A, x = rng.normal(size=(n * side, n * side)), rng.normal(size=n * side)
i, j = divmod(comm.rank, side)
block = A[i * n : (i + 1) * n, j * n : (j + 1) * n]
part = block @ x[j * n : (j + 1) * n]
y_i = np.empty(n)
row.Allreduce(part, y_i)
y = np.concatenate(col.allgather(y_i))
np.testing.assert_allclose(y, A @ x, rtol=1e-12)
row.Free(), col.Free()
print("y[0] =", round(float(y[0]), 3))
