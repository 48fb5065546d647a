"""A trace in the Trace Event Format, which chrome://tracing and Perfetto open.

The format: "Trace Event Format", the Chromium project. Each rank is a process there. Slices of
one thread must nest, so what overlaps, as a message under way while the rank computes, gets another lane.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, get_args, get_type_hints

from labkit import LabError
from labkit.trace.chains import messages
from labkit.trace.event import Event

FORMAT = "labkit trace 1"
MOST_RANKS, MOST_EVENTS, MOST_LETTERS = 1 << 16, 1 << 21, 10_000
"""What a trace that is read may have: each more than labkit makes, and few enough for memory to hold."""
_WRONG = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
UNREADABLE = (*_WRONG, SyntaxError, RecursionError, MemoryError)
"""What comes of a file that is no trace."""
LONGEST = 1e9
"""Seconds of a trace that is read: 30 years."""


_KINDS: dict[str, type] = {
    name: (get_args(kind) or (kind,))[0] for name, kind in get_type_hints(Event).items() if name != "peers"
}
"""The fields of an Event, and what each holds."""


def dumps(world_size: int, events: Sequence[Event], clock_error: float) -> str:
    """The JSON text; all fields of an Event are kept in its `args`."""
    lanes = _lanes(events)
    found = [_named("process_name", r, 0, f"rank {r}") for r in range(world_size)]
    for rank, lane in sorted({(e.rank, lane) for e, lane in zip(events, lanes, strict=True)}):
        name = f"rank {rank}" + (", under way" if lane else "")
        found.append(_named("thread_name", rank, lane, name))
    for event, lane in zip(events, lanes, strict=True):
        found.append({
            "name": event.label or event.verb, "cat": event.verb, "ph": "X", "pid": event.rank, "tid": lane,
            "ts": event.start * 1e6, "dur": (event.end - event.start) * 1e6, "args": asdict(event),
        })  # fmt: skip
    lane_of = {id(event): lane for event, lane in zip(events, lanes, strict=True)}
    for number, (send, recv) in enumerate(messages(events)):
        flow = {"name": "message", "cat": "message", "id": number}
        found.append(flow | _point("s", send, lane_of[id(send)], send.start))
        # A viewer draws nothing backwards; how far clocks may be off is in otherData.
        found.append(flow | _point("f", recv, lane_of[id(recv)], max(recv.end, send.start)) | {"bp": "e"})
    about = {"format": FORMAT, "world_size": world_size, "clock_error": clock_error}
    return json.dumps({"traceEvents": found, "displayTimeUnit": "ms", "otherData": about}, allow_nan=False)


def loads(text: str, name: str) -> tuple[int, tuple[Event, ...], float]:
    """World size, events and clock error; `name` says in errors what the text is.

    Somebody else may have written it: ranks are those of its world, and every field is of its kind and within
    what can be drawn.
    """
    try:
        whole = json.loads(text, parse_int=_whole, parse_constant=_number)
        about = whole["otherData"]
        if about["format"] != FORMAT:
            raise ValueError(str(about["format"])[:40])
        world_size, clock_error = _of_kind(int, about["world_size"]), _of_kind(float, about["clock_error"])
        if not 0 < world_size <= MOST_RANKS:
            raise ValueError(f"a world of {world_size}")
        told = [e["args"] for e in whole["traceEvents"] if e["ph"] == "X"]
        if len(told) > MOST_EVENTS:
            raise ValueError(f"{len(told)} events")
        return world_size, tuple(checked(args, world_size) for args in told), clock_error
    except UNREADABLE as error:
        found = f"{name} is no trace of labkit's: {type(error).__name__} {str(error)[:200]}"
        raise LabError("a saved trace", found, "give a file that Trace.save() wrote") from None


def checked(args: dict[str, Any], world_size: int) -> Event:
    """The event of these fields. One of UNREADABLE if it is none of a trace of that world."""
    given: dict[str, Any] = {
        name: _of_kind(kind, args[name], name) for name, kind in _KINDS.items() if name in args
    }
    peers: tuple[int, ...] = tuple(_of_kind(int, peer, "peers") for peer in args.get("peers", ()))
    event = Event(**given, peers=peers)
    ranks = [event.rank, *peers, *([] if event.root is None else [event.root])]
    if len(peers) > world_size or not all(0 <= rank < world_size for rank in ranks):
        raise ValueError(f"rank {event.rank} with peers {str(peers)[:40]} in a world of {world_size}")
    seconds = event.start, event.end, event.waiting, event.cpu
    if not all(abs(number) <= LONGEST for number in seconds) or not 0 <= event.bytes < 1 << 63:
        raise ValueError(f"an event from {event.start:g} s to {event.end:g} s with {event.bytes:.3g} bytes")
    return event


def _of_kind(kind: type, value: Any, name: str = "a number") -> Any:
    """The value, if it is of that kind: None is a root alone, and numbers may be written as others are."""
    if value is None and name == "root":
        return None
    if kind is float and type(value) is int:
        value = float(value)
    elif kind is int and type(value) is float and (name == "bytes" or value.is_integer()):
        return value  # as a simulation counts that was given 1e6 bytes
    if type(value) is not kind:
        raise TypeError(f"{name} is {str(value)[:40]!r}, and no {kind.__name__}")
    if isinstance(value, str) and len(value) > MOST_LETTERS:
        raise ValueError(f"{name} has {len(value)} letters")
    return value


def _whole(digits: str) -> int:
    if len(digits) > 20:  # of a million digits takes minutes
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _number(name: str) -> float:
    raise ValueError(name)


def _lanes(events: Sequence[Event]) -> list[int]:
    """For each event the first lane of its rank in which the one before is over."""
    ends: dict[int, list[float]] = {}
    lanes = []
    for event in events:
        mine = ends.setdefault(event.rank, [])
        lane = next((i for i, end in enumerate(mine) if end <= event.start), len(mine))
        mine[lane : lane + 1] = [event.end]
        lanes.append(lane)
    return lanes


def _named(what: str, rank: int, lane: int, name: str) -> dict:
    return {"name": what, "ph": "M", "pid": rank, "tid": lane, "args": {"name": name}}


def _point(phase: str, event: Event, lane: int, seconds: float) -> dict:
    return {"ph": phase, "pid": event.rank, "tid": lane, "ts": seconds * 1e6}
