"""How much of the communication was hidden behind computing. Pure, over the events alone."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from labkit.trace.event import COMPUTE, Event

Span = tuple[float, float]


def overlap(events: Sequence[Event]) -> float:
    """The time in which ranks communicated and computed, over that in which they communicated."""
    computing: dict[int, list[Span]] = defaultdict(list)
    communicating: dict[int, list[Span]] = defaultdict(list)
    for event in events:
        if event.verb == COMPUTE:
            computing[event.rank].append((event.start, event.end))
        else:
            communicating[event.rank].append((event.met, event.end))
    hidden = whole = 0.0
    for rank, spans in communicating.items():
        once, beside = list(_union(spans)), list(_union(computing[rank]))
        whole += sum(end - start for start, end in once)
        hidden += sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in once for b in beside)
    return hidden / whole if whole else 0.0


def _union(spans: Iterable[Span]) -> Iterator[Span]:
    """The same time without anything twice, in its order."""
    here: Span | None = None
    for start, end in sorted(spans):
        if here is not None and start <= here[1]:
            here = here[0], max(here[1], end)
        else:
            if here is not None:
                yield here
            here = start, end
    if here is not None:
        yield here
