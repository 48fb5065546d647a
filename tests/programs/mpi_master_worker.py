from enum import IntEnum

from mpi4py import MPI


class Tag(IntEnum):
    READY = 0
    DONE = 1
    EXIT = 2
    START = 3


comm = MPI.COMM_WORLD
status = MPI.Status()

if comm.rank == 0:
    tasks, results, closed = list(range(20)), {}, 0
    while closed < comm.size - 1:
        data = comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
        source, tag = status.Get_source(), status.Get_tag()
        if tag == Tag.READY:
            if tasks:
                comm.send(tasks.pop(0), dest=source, tag=Tag.START)
            else:
                comm.send(None, dest=source, tag=Tag.EXIT)
        elif tag == Tag.DONE:
            results[data[0]] = data[1]
        else:
            closed += 1
    assert results == {i: i**2 for i in range(20)}
    print("Master finishing with", len(results), "results")
else:
    while True:
        comm.send(None, dest=0, tag=Tag.READY)
        task = comm.recv(source=0, tag=MPI.ANY_TAG, status=status)
        if status.Get_tag() == Tag.EXIT:
            break
        comm.send((task, task**2), dest=0, tag=Tag.DONE)
    comm.send(None, dest=0, tag=Tag.EXIT)
