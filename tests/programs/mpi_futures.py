"""A pool of workers from the ranks that are there already."""

from mpi4py import MPI
from mpi4py.futures import MPICommExecutor


def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


if __name__ == "__main__":
    with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
        if executor is not None:
            found = list(executor.map(collatz, range(1, 28), chunksize=4))
            assert found[26] == 111
            print("longest:", max(found))
    assert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.Get_size()
