"""Events as aligned text."""

from collections.abc import Sequence

from labkit.trace.event import COMPUTE, Event

COLUMNS = ("rank", "verb", "with", "bytes", "dtype", "line")
TIMES = ("start", "ms", "waiting", "cpu")


def table(events: Sequence[Event], times: bool) -> str:
    """A line for each event, rank by rank in the order of starts; times in milliseconds."""
    shown = sorted((e for e in events if times or e.verb != COMPUTE), key=lambda e: (e.rank, e.start, e.end))
    head = (*COLUMNS[:-1], *TIMES, COLUMNS[-1]) if times else COLUMNS
    rows = [_row(event, times) for event in shown]
    right = {i for i, name in enumerate(head) if name in ("rank", "bytes", *TIMES)}
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(w) if i in right else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    )


def _row(event: Event, times: bool) -> tuple[str, ...]:
    named = event.verb + (f" {event.label}" if event.label else "")
    size = "" if event.verb == COMPUTE else str(event.bytes)
    measured = (event.start, event.end - event.start, event.waiting, event.cpu) if times else ()
    return (
        str(event.rank), named, _with(event), size, event.dtype,
        *(f"{1000 * seconds:.3f}" for seconds in measured), event.place,
    )  # fmt: skip


def _with(event: Event) -> str:
    """ "to 1", "from 0", "0-3", "0-3, root 2"."""
    if event.verb in ("send", "recv"):
        tag = f", tag {event.tag}" if event.tag else ""
        return f"{'to' if event.verb == 'send' else 'from'} {_spans(event.peers)}{tag}"
    root = "" if event.root is None else f", root {event.root}"
    return f"{_spans(event.peers)}{root}"


def _spans(ranks: Sequence[int]) -> str:
    ranks = sorted(ranks)
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks))
