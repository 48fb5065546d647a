"""Event and Trace: who sent what to whom, and who waited. Real and simulated runs give the same.

Knows nothing of Jupyter, ipyparallel or torch.
"""

from labkit.trace.event import COMPUTE, Event
from labkit.trace.trace import Trace

__all__ = ["COMPUTE", "Event", "Trace"]
