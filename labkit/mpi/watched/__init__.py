"""mpi4py in a lab's cells: its communicators, watched as torch's groups are.

install         the names in mpi4py's module, bound to watched ones
world           what all watched communicators share
communicators   a communicator, and those that are made of it
turns           how its collectives take turns
messages        its point-to-point calls
sends           its sends
receives        its receives
probes          its probes
collectives     its collectives
signatures      their parameters, and what all ranks must have alike
collective      one of them under way
objects         those of pickled objects, as plans
requests        what a call that does not block returns
waits           waits for requests, made of tests
several         what such a wait waits for, where it is for several
matched         messages that a probe has found
letters         a message under way
operation       any call under way
agreement       what the ranks are about to call, compared
contents        what a buffer holds
settling        what a cell leaves under way, told
emptying        all that is under way, taken out of the communicators
"""
