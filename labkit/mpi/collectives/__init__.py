"""How each collective is run: by MPI, in shared memory, or as a schedule of messages."""
