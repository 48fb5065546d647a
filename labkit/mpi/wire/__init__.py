"""Between this backend and MPI: buffers, steps, channels, waits.

steps     every MPI call as data
buffers   tensors as memory, datatypes and operations
channel   a communicator and what is in flight on it
waiting   the one loop in which this backend waits
meet      ranks tell each other something, or copy a communicator
store     a TCPStore for the default group
runtime   mpi4py.MPI, started
"""
