"""What a cell has left under way, in words. Pure."""

from collections.abc import Sequence

from labkit.rank.protocol import Leftover, ranks

KEEP = "--keep-pending"
"""The option of %%px with which a cell may leave what it likes to the next one."""
_MEANT = f"%%px {KEEP} leaves it to the next cell"


def faults(left: Sequence[Leftover]) -> str:
    """A line for each operation that could not end, or that failed unseen."""
    return "\n".join(_lines([x for x in left if x.fate]))


def discarded(backend: str, what: str = "") -> str:
    """How it was discarded: by itself, or along with `what` where the backend knows no other way."""
    way = f"{backend} can do that only with {what}, which is new on all ranks" if what else "on all ranks"
    return f"what was under way is discarded{':' if what else ''} {way}; {_MEANT}"


def notes(left: Sequence[Leftover]) -> str:
    """A line for each collective that has ended, but only after the cell: there its result was not ready.

    Messages are left out: whether a send has ended in its cell is a matter of luck, and without effect.
    """
    late = [x for x in left if not x.fate and not x.is_message()]
    return "\n".join(_lines(late))


def _lines(left: Sequence[Leftover]) -> list[str]:
    """The same of several ranks once, and of one rank how often."""
    who: dict[str, list[int]] = {}
    for x in left:
        who.setdefault(_sentence(x), []).append(x.rank)
    lines = []
    for sentence, said in who.items():
        often = len(said) // len(set(said))
        lines.append(f"{ranks(set(said))}: {f'{often} times ' if often > 1 else ''}{sentence}")
    return lines


def _sentence(x: Leftover) -> str:
    if "at the cell, line" in x.fate and not x.is_message():
        return f"a collective that was never waited for differs:\n       {x.fate}"
    place = f" ({x.place})" if x.place else ""
    return f"{x.what} was never waited for; {x.fate or 'it has ended only after the cell'}{place}"
