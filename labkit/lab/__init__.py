"""The notebook's side: one running lab, one cell, one verdict, and what is shown of them.

session     the one lab of a notebook, which `start` makes or gives back
lab         a running set of ranks, and what can be asked of them
lifecycle   these from their start to their end: replaced, taken over, stopped
px          %%px
targets     what may stand after its --targets
stub        %%px where there are no ranks
numbering   the number that stands beside a cell
help        completion and inspection in its cells
meanwhile   the same while one of them runs
debugging   %debug, and debuggers from outside
conversation  what is typed to ranks that have stopped in pdb
cell        one cell, from sending it to its end
outcome     what ranks have said in it, and how it ended
last        the result of the last one, shown again
history     how it came to its end, step by step
replay      what the ranks have called, played again to find these steps
orders/     a cell in every order in which its messages can meet
mending     ranks that can be used again after it
leftovers   what a cell has left under way, in words
diagnosis   who waits for whom, can it ever end, and the sentence that says so
remote      calls, interrupts and questions, which reach ranks beside cells
views       lab[0] and lab[:]: values that arrive
tracing     have the ranks record, and make one trace of it
compare     is a name the same on every rank?
network     the network knob, in words
display/    what a learner sees
"""
