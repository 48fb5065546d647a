"""A trace as a page of its own: SVG in which each bar and arrow says what it is, and a script that zooms.

Where scripts do not run all is there but the zoom; where a page strips the drawing too, as of a notebook that
is not trusted, a picture stands for it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.figures.spans import by_rank, extent, is_timed, spans, tracks
from labkit.figures.units import duration, size, unit
from labkit.trace.event import COMPUTE, MESSAGE, Event

if TYPE_CHECKING:
    from labkit.trace import Trace

_HERE = Path(__file__).parent
MOST = 2000
"""Bars that are drawn one by one: of more events the longest."""
LANE, WIDE = 34, 1000
"""Pixels of a lane; units of the whole time axis."""
LEGEND = {
    "compute": "compute",
    "off the CPU": "has work, no core",
    "communication": "communication",
    "waiting": "waiting for other ranks",
    "message": "message, to its dot",
    "path": "critical path",
}


def page(trace: Trace, title: str, saved: str = "", picture: bytes = b"") -> str:
    """The HTML. `saved` is the trace as a file for Perfetto; `picture` a PNG for where no SVG is shown."""
    start, end = extent(trace)
    length = (end - start) or 1e-6
    shown = sorted(sorted(trace.events, key=lambda e: e.start - e.end)[:MOST], key=lambda e: e.start)
    bars = "".join(_lane(trace, rank, shown, start, length) for rank in range(trace.world_size))
    arrows = "".join(_arrow(send, recv, start, length) for send, recv in trace.messages[:MOST])
    path = "".join(_path(event, start, length) for event in trace.critical_path() if event.end > event.met)
    names = "".join(
        f'<text x="-6" y="{LANE * (rank + 0.5):g}" class="name">rank {rank}</text>'
        for rank in range(trace.world_size)
    )
    height, scale = LANE * trace.world_size, unit(length)
    ident = "labkit-" + hashlib.sha256(repr((title, trace.events)).encode()).hexdigest()[:10]
    rest = len(trace.events) - len(shown)
    left_out = f" The {MOST:,} longest of {len(trace.events):,} events are drawn." if rest else ""
    told = f"{said(trace)}{left_out}"
    image = base64.b64encode(picture).decode()
    instead = (
        f'<img class="instead" alt="{escape(title)}" src="data:image/png;base64,{image}">' if image else ""
    )
    keys = "".join(f'<span><i class="{_kind(kind)}"></i>{words}</span>' for kind, words in LEGEND.items())
    file = base64.b64encode(gzip.compress(saved.encode(), mtime=0)).decode()
    return f"""<figure class="labkit-timeline" id="{ident}">
<style>{_HERE.joinpath("page.css").read_text()}</style>
<figcaption>{escape(title)}</figcaption>{instead}
<svg class="whole" height="{height + 34}" role="img" aria-label="{escape(f"{title}. {told}")}">
{names}<svg class="time" width="100%" height="{height}" viewBox="0 0 {WIDE} {height}"
 preserveAspectRatio="none" tabindex="0">{bars}{path}{arrows}</svg><g class="axis"
 data-length="{length / scale[0]:.9g}" data-unit="{scale[1]}" transform="translate(0 {height})"></g></svg>
<p class="keys">{keys}</p>
<p class="tools" hidden><button data-do="in" aria-label="zoom in">+</button><button data-do="out"
 aria-label="zoom out">−</button><button data-do="all">all</button><button data-do="perfetto"
 data-file="{file}">Perfetto</button><output></output></p>
<p class="said">{escape(told)}</p>
<script>{_HERE.joinpath("page.js").read_text().replace("IDENT", ident)}</script></figure>"""


def said(trace: Trace) -> str:
    """The trace in words, for who does not see it."""
    if not trace.events:
        return "Nothing was recorded."
    start, end = extent(trace)
    verbs: dict[str, int] = {}
    for event in trace.events:
        if event.verb != COMPUTE:
            verbs[event.verb] = verbs.get(event.verb, 0) + 1
    calls = ", ".join(f"{count:,} {verb}" for verb, count in sorted(verbs.items())) or "no communication"
    waited = [sum(event.waiting for event in events) for events in by_rank(trace)]
    each = ", ".join(f"rank {rank} {duration(seconds)}" for rank, seconds in enumerate(waited) if seconds > 0)
    waits = f" Waited in all: {each}." if each else ""
    return f"{duration(end - start)} on {trace.world_size} ranks: {calls}.{waits}"


def described(event: Event) -> str:
    """One event in words: verb, bytes, partner, how long it waited, line."""
    what = event.verb + (f" ({event.label})" if event.label else "")
    if event.verb in MESSAGE:
        what += f" {'to' if event.verb == 'send' else 'from'} rank {event.peers[0]}" if event.peers else ""
    elif event.verb != COMPUTE:
        what += f" of ranks {', '.join(map(str, event.peers))}" if event.peers else ""
    parts = [f"rank {event.rank}: {what}"]
    parts += [size(event.bytes) + (f" of {event.dtype}" if event.dtype else "")] if event.bytes else []
    parts += [f"took {duration(event.end - event.start)}"]
    parts += [f"waited {duration(event.waiting)}"] if event.waiting > 0 else []
    return ", ".join(parts) + (f"\n{event.place}" if event.place else "")


def _lane(trace: Trace, rank: int, shown: list[Event], start: float, length: float) -> str:
    mine = [event for event in shown if event.rank == rank]
    timed, made = is_timed(trace), []
    rows = tracks(mine, 3, length / 700)
    full = (LANE - 8) / max(1, len(rows))
    for row, track in enumerate(rows):
        for event in track:
            boxes = []
            for begin, end, shares in spans(event, timed):
                top = LANE * rank + 4 + row * full
                for kind, share in shares.items():
                    if share > 0.01:
                        x, wide = _at(begin, start, length), (end - begin) / length * WIDE
                        boxes.append(
                            f'<rect class="{_kind(kind)}" x="{x:.2f}" y="{top:.1f}"'
                            f' width="{max(wide, 0.05):.2f}" height="{share * full:.1f}"/>'
                        )
                    top += share * full
            made.append(f"<g><title>{escape(described(event))}</title>{''.join(boxes)}</g>")
    return f'<g class="r{rank % 8}">{"".join(made)}</g>'


def _arrow(send: Event, recv: Event, start: float, length: float) -> str:
    x, y = _at(send.start, start, length), LANE * (send.rank + 0.5)
    to, there = _at(recv.end, start, length), LANE * (recv.rank + 0.5)
    words = f"message from rank {send.rank} to rank {recv.rank}, {size(send.bytes)}"
    words += f", {duration(recv.end - send.start)} from call to arrival\n{send.place}"
    return (
        f'<g class="message"><title>{escape(words.strip())}</title>'
        f'<path d="M{x:.2f} {y:g}L{to:.2f} {there:g}"/><path class="dot" d="M{to:.2f} {there:g}h0"/></g>'
    )


def _path(event: Event, start: float, length: float) -> str:
    y = LANE * (event.rank + 1) - 2
    x, to = _at(event.met, start, length), _at(event.end, start, length)
    return f'<path class="path" d="M{x:.2f} {y}H{to:.2f}"/>'


def _at(seconds: float, start: float, length: float) -> float:
    return (seconds - start) / length * WIDE


def _kind(kind: str) -> str:
    return kind.replace(" ", "-").lower()
