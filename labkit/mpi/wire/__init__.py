"""Between this backend and MPI: buffers, steps, channels, waits."""
