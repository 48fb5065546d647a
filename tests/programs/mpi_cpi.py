from mpi4py import MPI


def compute_pi(start, step, n):
    h = 1.0 / n
    return h * sum(4.0 / (1.0 + ((i + 0.5) * h) ** 2) for i in range(start, n, step))


comm = MPI.COMM_WORLD
n = comm.bcast(2000 if comm.rank == 0 else None, root=0)
pi = comm.reduce(compute_pi(comm.rank, comm.size, n), op=MPI.SUM, root=0)
if comm.rank == 0:
    error = abs(pi - 3.14159265358979)
    print(f"pi is approximately {pi:.8f}, error is {error:.1e}")
    assert error < 1e-6
