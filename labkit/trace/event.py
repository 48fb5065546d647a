"""Event: one operation on one rank."""

from dataclasses import dataclass

COMPUTE = "compute"
"""The verb of an event in which a rank did anything but communicate."""
MESSAGE = ("send", "recv")
"""The verbs of the two events that are a message; all others but compute are of a collective."""


@dataclass(frozen=True)
class Event:
    """One operation on one rank. Times are seconds since the trace began, on rank 0's clock.

    A collective is one event on each rank of its group, all with the same `group` and `sequence`. A
    message is two: the "send" names its receiver in `peers`, the "recv" its sender, and both have the
    same `tag`, and the same `sequence`, which counts the messages from that sender to that receiver
    with that tag.
    """

    rank: int
    verb: str  # "all_reduce", "send", "recv", ... or "compute"
    start: float  # the call was entered
    end: float  # its work was done
    peers: tuple[int, ...] = ()  # world ranks: all members of the group, or the one partner of a message
    bytes: int = 0  # of the tensors that this rank passed
    dtype: str = ""
    group: str = ""
    sequence: int = 0
    tag: int = 0
    root: int | None = None
    op: str = ""
    waiting: float = 0.0  # seconds from this rank's own entry to the last peer's entry
    cpu: float = 0.0  # seconds of processor time that the rank's main thread had from start to end
    place: str = ""  # source line: "In [3], line 2: dist.send(x, dst=1)"
    any_source: bool = False  # a receive that did not say from whom
    ended: bool = True  # before the trace was; else `end` is when the trace was
    label: str = ""  # what a schedule calls the data: "chunk 2"

    @property
    def met(self) -> float:
        """When the last peer had entered: until then this rank waited, from then on it communicated."""
        return min(self.start + self.waiting, self.end)
