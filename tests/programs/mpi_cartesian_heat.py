"""Heat in a rod, cut among ranks in a Cartesian communicator, halos by Sendrecv."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
cart = comm.Create_cart([comm.size], periods=[False], reorder=False)
left, right = cart.Shift(0, 1)
n, steps = 8, 50

u = np.zeros(n + 2)
if cart.rank == 0:
    u[0] = 1.0
for _ in range(steps):
    cart.Sendrecv(u[n : n + 1], dest=right, recvbuf=u[0:1], source=left)
    cart.Sendrecv(u[1:2], dest=left, recvbuf=u[n + 1 :], source=right)
    if cart.rank == 0:
        u[0] = 1.0
    u[1:-1] += 0.25 * (u[2:] - 2 * u[1:-1] + u[:-2])

rod = np.empty(n * comm.size) if cart.rank == 0 else None
cart.Gather(u[1:-1].copy(), rod, root=0)
if cart.rank == 0:
    whole = np.zeros(n * comm.size + 2)
    whole[0] = 1.0
    for _ in range(steps):
        whole[1:-1] += 0.25 * (whole[2:] - 2 * whole[1:-1] + whole[:-2])
    assert np.allclose(rod, whole[1:-1])
    print("same as in one piece")
cart.Free()
