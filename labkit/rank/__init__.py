"""What runs inside every rank's process.

forkserver       the process from which ranks of this machine are forked
__main__         a rank elsewhere, and the parent of it that says how it ended
engine           join the world, then serve cells
world            the process group, the device, the names that a cell finds
service          what the notebook can ask of an idle rank
cells            the notebook's names for cells, and places in them
copies           copies of this rank, for a cell that is run in every order
state            what this rank does now, seen from another thread
streams          standard streams, put back after each cell, and messages that can be sent
settings         what cells set for the process, put back around a check
values           what notebook and ranks give each other
children         definitions of cells for processes that are spawned
below            a call from which the main thread does not come back, below what is watched
kernel_waits     what this process waits for in the kernel, and whoever could end that
native_output    what C and C++ write, and the last words of a rank that ends
displays         what cells clear, update and draw as widgets
help             completion and help for what cells have defined
protocol         what both sides say to each other
wording          how ranks and cells are named, and what of a long message is told
leftovers        what a cell leaves under way
gloo_works       the same in gloo
gloo_messages    which of gloo's messages are refused
interrupts       where an interrupt lands
awaiting         cells that await, and tasks that cells leave
tracebacks       a short traceback
debugger         the notebook as the keyboard of pdb, at breakpoint() or at an error, and of input()
attach           debugpy, for a debugger from outside
digest           what is compared of a value, in place of the data
recording        this rank's part of a trace
history          what it has called in its cell
clocks           how far its clock is from rank 0's
other_backends   what gloo and NCCL do, recorded
"""
