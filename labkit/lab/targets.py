"""What may stand after --targets."""

import ast
import re

from labkit import LabError


def targets(text: str, world_size: int) -> list[int]:
    """The ranks that a text names: all, one, several, or a slice. Else LabError.

    >>> targets("1:", 4), targets("0,-1,0", 4), targets("all", 4)
    ([1, 2, 3], [0, 3], [0, 1, 2, 3])
    """
    everyone = range(world_size)
    part = re.fullmatch(r"\[?(-?\d*):(-?\d*)(?::(-?\d*))?\]?", text.replace(" ", ""))
    try:
        if text == "all":
            return list(everyone)
        if part:
            found = list(everyone[slice(*(int(bound) if bound else None for bound in part.groups()))])
        else:
            named = ast.literal_eval(text.strip())
            several = named if isinstance(named, tuple | list) else [named]
            found = list(dict.fromkeys(everyone[rank] for rank in several))
    except (ValueError, SyntaxError, TypeError, IndexError):
        found = []
    if not found:
        there = "rank 0 alone" if world_size == 1 else f"ranks 0 to {world_size - 1}"
        fix = "write one as 1, several as 0,2 or 1:3, or all"
        raise LabError(f"a cell on --targets {text}", f"this lab has {there}", fix)
    return found
