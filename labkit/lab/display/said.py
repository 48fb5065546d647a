"""What the ranks said in one cell, as text: in rank order, equal output once. Pure.

>>> print(text([Said(0, "hello\\n"), Said(1, "hello\\n"), Said(2, "goodbye\\n")]))
[ranks 0-1] hello
[rank 2] goodbye
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labkit.rank.protocol import Left, Leftover
from labkit.rank.wording import in_the_cell, ranks


@dataclass(frozen=True)
class Failure:
    """An exception on a rank: its name, its message, IPython's traceback."""

    name: str
    message: str
    traceback: tuple[str, ...] = ()

    def place(self) -> str:
        """Where, as "line 3: dist.recv(x, src=1)", or "" if it was not in a cell.

        In a function of another cell than the one that ran: "In [5], line 3: ...".
        """
        place, ran, cell, number = "", None, "", ""
        for line in map(plain, self.traceback):
            if entered := re.match(r"Cell(?: (In \[\d+\]))?, line (\d+)", line):
                cell, number = entered[1] or "", entered[2]
                ran = cell if ran is None else ran
            elif number and (arrow := re.match(rf"-+> {number} (.*)", line)):
                elsewhere = f"{cell}, " if cell and cell != ran else ""
                place, number = f"{elsewhere}line {number}: {arrow[1].strip()}", ""
        return place

    def is_interrupt(self) -> bool:
        """Whether it came from an interrupt and not from the cell."""
        return self.name == "KeyboardInterrupt"

    def in_short(self) -> str:
        """ "ValueError: bad (line 2: raise ValueError("bad"))"; of a LabError what was found, and the fix."""
        message = in_the_cell(self.message.strip())
        place = f" ({self.place()})" if self.place() else ""
        if message.startswith("asked: ") and "\nfound: " in message:
            asked, found = message.split("\nfound: ", 1)
            listed = re.match(r"ranks? [\d, ]+: ", found)  # ranks whose calls differ all get the same list
            return f"{self.name}{'' if listed else ':' + asked[6:] + place}\nfound: {found}"
        first = message.split("\n")[0].removesuffix(", error stack:")  # as MPI has it
        return self.name + (f": {first}" if first else "") + place


@dataclass(frozen=True)
class Said:
    """All that one rank wrote, showed or raised in one cell."""

    rank: int
    stdout: str = ""
    stderr: str = ""
    displays: tuple[dict, ...] = ()  # MIME bundles, the cell's last expression included
    failure: Failure | None = None
    done: bool = True
    left: Left = Left()

    def dropped(self) -> list[Leftover]:
        """Operations for which it has not waited, if it came to its end."""
        return [] if self.failure else [Leftover(self.rank, *about) for about in self.left.dropped]

    def words(self) -> str:
        """Its output as plain text; pictures are shown apart."""
        shown = [d["text/plain"] for d in self.displays if "text/plain" in d and not pictures(d)]
        parts = (settled(self.stdout), in_the_cell(settled(self.stderr)), *shown)
        return "\n".join(part.rstrip("\n") for part in parts if part.rstrip("\n"))


_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def plain(line: str) -> str:
    """Without colours."""
    return _ANSI.sub("", line)


def settled(printed: str) -> str:
    """What a terminal would show in the end: a progress bar that was redrawn leaves its last state."""
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in printed.split("\n"))


def pictures(bundle: dict) -> dict:
    """The part of a MIME bundle that is a picture, empty if none is."""
    return {mime: data for mime, data in bundle.items() if mime.startswith("image/")}


def text(said: Sequence[Said]) -> str:
    """Every rank's words under its label, in the order of the ranks."""
    return "\n".join(
        _labelled(ranks(who), words) for words, who in together((s.words(), s.rank) for s in said)
    )


def failures(said: Sequence[Said]) -> str:
    """One line per distinct failure: who, what, where. What some ranks called differently is told once.

    Each of them may have heard of another pair of calls, if two threads made them: the first will do.
    """
    first: dict[object, str] = {}
    found = []
    for s in said:
        if s.failure:
            line = s.failure.in_short()
            found.append((first.setdefault(_differing(line) or line, line), s.rank))
    return "\n".join(f"{ranks(who)}: {line}" for line, who in together(found))


def _differing(line: str) -> frozenset[int]:
    """The ranks whose calls a failure lists, if it is such a one."""
    listed = re.findall(r"^(?:found: +| +)ranks? (\d+(?:, \d+)*): ", line, flags=re.MULTILINE)
    mismatch = line.startswith("MismatchError\n")
    return frozenset(int(rank) for ranks in listed for rank in ranks.split(", ")) if mismatch else frozenset()


def whereabouts(said: Sequence[Said]) -> str:
    """One line per place in the cell at which ranks were interrupted: "ranks 0-1 at line 3: ..."."""
    held = (s for s in said if s.failure and s.failure.is_interrupt())
    places = ((s.failure.place() or "no line of the cell", s.rank) for s in held)
    return "\n".join(f"{ranks(who)} at {place}" for place, who in together(places))


def together(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, list[int]]]:
    """Who said the same, in the order of the first who did; silence is left out."""
    said: dict[str, list[int]] = {}
    for words, rank in pairs:
        if words:
            said.setdefault(words, []).append(rank)
    return list(said.items())


def _labelled(label: str, words: str) -> str:
    first, *rest = words.split("\n")
    indent = " " * (len(label) + 3)
    return "\n".join([f"[{label}] {first}", *(f"{indent}{line}".rstrip() for line in rest)])
