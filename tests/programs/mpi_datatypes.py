import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()

# the columns of a matrix on rank 0 go to the others
n = 6
column = MPI.DOUBLE.Create_vector(n, 1, n)
column.Commit()
if rank == 0:
    matrix = np.arange(n * n, dtype="d").reshape(n, n)
    requests = [comm.Isend([matrix[0, r:], 1, column], dest=r, tag=r) for r in range(1, size)]
    MPI.Request.Waitall(requests)
else:
    got = np.empty(n)
    comm.Recv([got, MPI.DOUBLE], source=0, tag=rank)
    assert got.tolist() == [rank + n * i for i in range(n)]
column.Free()

# a struct
particle = np.dtype([("x", "f8"), ("id", "i4")], align=True)
kind = MPI.Datatype.Create_struct(
    [1, 1], [particle.fields["x"][1], particle.fields["id"][1]], [MPI.DOUBLE, MPI.INT]
).Create_resized(0, particle.itemsize)
kind.Commit()
mine = np.array([(rank * 1.5, rank)], dtype=particle)
everybody = np.empty(size, dtype=particle)
comm.Allgather([mine, 1, kind], [everybody, 1, kind])
assert everybody["id"].tolist() == list(range(size))
kind.Free()
if rank == 0:
    print(everybody["x"])
