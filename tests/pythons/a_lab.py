"""A first lab, as a program: two ranks, a long cell, a verdict, a trace. Says where labkit is installed."""

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import labkit
from labkit.lab.outcome import CellError

BUSY = """\
import time
end = time.monotonic() + 1.2
while time.monotonic() < end:
    pass
print("done")
"""
NEVER = """\
if rank == 0:
    dist.recv(torch.zeros(1), src=1)
"""


def px(cell, line=""):
    """What the notebook would store of this cell."""
    with capture_output() as said:
        shell.run_cell_magic("px", line, cell)
    return [output.data["text/plain"] for output in said.outputs]


shell = InteractiveShell.instance()
lab = labkit.start(2)
assert px(BUSY) == ["[ranks 0-1] done"]
try:
    raise AssertionError(px(NEVER))
except CellError as error:
    assert "deadlock: rank 1 finished the cell" in str(error), error
    assert "line 3: dist.recv(torch.zeros(1), src=1)" in str(error), error
px("dist.all_reduce(torch.ones(3))", "--trace")
summed = [event.bytes for event in lab.last.trace.events if event.verb == "all_reduce"]
assert summed == [12, 12], lab.last.trace.events
lab.stop()
print(labkit.__file__)
