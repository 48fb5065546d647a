"""Event and Trace: who sent what to whom, and who waited. Real and simulated runs give the same.

Knows nothing of ipyparallel or torch, and of Jupyter only whether somebody looks.

records   what one rank has recorded, in its own time
merge     what all have recorded, as one trace on one clock
match     which operations of different ranks belong together
event     one operation on one rank, with what it waited for
trace     all of them, and what can be asked of them
chains    messages, steps, the critical path
hidden    how much of the communication went on while its rank computed
races     receives that could have got another message
table     events as text
chrome    events as a file that Perfetto opens
flight    events as PyTorch's Flight Recorder dumps them, and its dumps as events
watched   whether somebody looks, so that what is shown may move and answer
"""

from labkit.trace.event import COMPUTE, Event
from labkit.trace.trace import Trace

__all__ = ["COMPUTE", "Event", "Trace"]
