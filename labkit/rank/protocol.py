"""What both sides say to each other: what a rank does, and how ranks and cells are named. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

COMPUTING, WAITING, FINISHED, RAISED, ABSENT = "computing", "waiting", "finished", "raised", "absent"
SENDS, RECEIVES = ("send", "isend"), ("recv", "irecv")
LEFT = "labkit_left"
"""Where the reply to a cell says what it has left: these two words."""
UNDER_WAY, DESTROYED = "under way", "destroyed"
_CELL_FILE = re.compile(r"(?<!\S)\S*/ipykernel_\d+/\d+\.py")  # where ipykernel says that a cell's code is
LONG_LINE, LONG_MESSAGE = 2_000, 40_000
"""Characters that are told of a line of the user's, and of a message."""


@dataclass(frozen=True)
class State:
    """What one rank does at one moment of a cell.

    `peers` are the ranks of which a waiting rank needs one (point to point; empty: any) or all
    (a collective). `number` counts the collectives of a group. `place` is the line of the cell. `since` is
    when the wait began, on the rank's own clock: a ping-pong over a slow link is in many waits of one kind.
    """

    rank: int
    doing: str
    verb: str = ""
    peers: tuple[int, ...] = ()
    number: int = 0
    group: str = ""
    tag: int = 0
    place: str = ""
    error: str = ""
    since: float = 0.0  # 0 if not told
    memory: int = field(default=0, compare=False)  # resident bytes; 0 if not told

    def is_point_to_point(self) -> bool:
        return self.verb in SENDS + RECEIVES

    def what(self) -> str:
        """What the rank waits in, in words: "recv from rank 1", "all_reduce number 3"."""
        tag = f" with tag {self.tag}" if self.tag else ""
        if self.verb in SENDS:
            return f"{self.verb} to {ranks(self.peers)}{tag}"
        if self.verb in RECEIVES:
            return f"{self.verb} from {ranks(self.peers) if self.peers else 'any rank'}{tag}"
        return self.verb + (f" number {self.number}" if self.number else "")


@dataclass(frozen=True)
class Leftover:
    """An operation of a cell for which nobody waited: `what` it was, `place` its line if known.

    `fate` says why it could not end, and is `discarded`, or how it failed; empty if it has ended well.
    """

    rank: int
    what: str
    place: str = ""
    fate: str = ""
    discarded: bool = False

    def is_message(self) -> bool:
        return self.what.startswith(("isend", "irecv"))


def in_the_cell(message: str) -> str:
    """A message that speaks of "the cell" and not of the file that ipykernel gives it."""
    return _CELL_FILE.sub("the cell", message)


def cut(message: str) -> str:
    """A message without the middle of what is too long to read."""
    readable = "\n".join(_without_middle(line) for line in message.split("\n"))
    rest = len(readable) - LONG_MESSAGE
    return f"{readable[:LONG_MESSAGE]}\n... {rest:,} characters more" if rest > 0 else readable


def _without_middle(line: str) -> str:
    if len(line) <= LONG_LINE:
        return line
    half = LONG_LINE // 2
    return f"{line[:half]} ... {len(line) - LONG_LINE:,} characters ... {line[-half:]}"


def ranks(numbers: Iterable[int]) -> str:
    """ "rank 2", "ranks 0-3", "ranks 0, 2-3"."""
    numbers = sorted(numbers)
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    spans = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ("rank " if len(numbers) == 1 else "ranks ") + ", ".join(spans)
