"""A trace in the Trace Event Format, which chrome://tracing and Perfetto open.

The format: "Trace Event Format", the Chromium project. Each rank is a process there. Slices of
one thread must nest, so what overlaps, as a message under way while the rank computes, gets another lane.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from labkit import LabError
from labkit.trace.chains import messages
from labkit.trace.event import Event

FORMAT = "labkit trace 1"


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
    """World size, events and clock error; `name` says in errors what the text is."""
    try:
        whole = json.loads(text)
        about = whole["otherData"]
        if about["format"] != FORMAT:
            raise ValueError(about["format"])
        events = tuple(_event(e["args"]) for e in whole["traceEvents"] if e["ph"] == "X")
        return about["world_size"], events, about["clock_error"]
    except (ValueError, KeyError, TypeError) as error:
        found = f"{name} is no trace of labkit's: {type(error).__name__} {error}"
        raise LabError("a saved trace", found, "give a file that Trace.save() wrote") from None


def _event(args: dict) -> Event:
    known = {field.name for field in fields(Event)}
    given: dict[str, Any] = {k: tuple(v) if k == "peers" else v for k, v in args.items() if k in known}
    return Event(**given)


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
