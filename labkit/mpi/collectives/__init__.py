"""How each collective is run: by MPI, in shared memory, or as a schedule of messages.

plans           what each collective does with tensors, as steps
shared_memory   large all_reduces, added in memory that one host's ranks share
mapped          how ranks get such memory
by_schedule     as messages, while the network knob is on
"""
