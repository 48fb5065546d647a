"""How each collective is run: by MPI, in shared memory, as messages, or as a schedule of them.

plans          what each collective does with tensors, as parts that a Work takes one after another
copies         what these copy before and after what MPI does
as_messages    large tensors of which one rank has a part of its own for each other
chain          large reductions between hosts
large          large tensors of broadcast, reduce and reduce_scatter, as exchanges in shared memory
exchanged      what one rank gives and takes in that memory, round by round
shared_memory  the memory that the ranks of one host share, and how they meet in it
pieces         what one rank does with a piece of an all_reduce there, stage by stage
mapped         how the ranks make and find that memory
by_schedule    collectives as schedules of messages, while the network is limited
in_background  asynchronous ones in a ring, which move while the process computes
"""
