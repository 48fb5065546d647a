"""Every rank writes its block of one file, and reads its neighbour's."""

import os
import tempfile

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
name = comm.bcast(tempfile.mktemp(suffix=".dat") if rank == 0 else None)

block = np.full(10, rank, dtype="i")
out = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_WRONLY)
out.Write_at_all(rank * block.nbytes, block)
out.Close()

back = np.empty(10, dtype="i")
src = MPI.File.Open(comm, name, MPI.MODE_RDONLY)
src.Read_at((rank + 1) % size * back.nbytes, back)
src.Close()
assert (back == (rank + 1) % size).all()

comm.Barrier()
if rank == 0:
    print("bytes:", os.path.getsize(name))
    assert os.path.getsize(name) == size * block.nbytes
    os.remove(name)
