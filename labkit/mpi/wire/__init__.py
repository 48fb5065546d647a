"""Between this backend and MPI.

runtime  mpi4py, and with it MPI, started
buffers  from tensors to memory, datatypes and operations of MPI
parts    what a plan is made of: steps, local work, pauses
steps    every MPI call of this backend, as a step
channel  a communicator and what is in flight on it
played   a communicator whose calls somebody else plays, and not MPI
waiting  the one loop that waits, and what it tells others
meet     all ranks of a communicator tell each other something, or copy it
store    torch's store for the default group
"""
