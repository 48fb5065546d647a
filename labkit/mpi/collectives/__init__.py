"""How each collective is run: by MPI, in shared memory, or as a schedule of messages.

plans          what each collective does with tensors, as parts that a Work takes one after another
copies         what these copy before and after what MPI does
shared_memory  large all_reduces through memory that the ranks of one host share
pieces         what one rank does with a piece of a tensor in that memory, stage by stage
mapped         how the ranks make and find that memory
by_schedule    collectives as schedules of messages, while the network is limited
in_background  asynchronous ones in a ring, which move while the process computes
"""
