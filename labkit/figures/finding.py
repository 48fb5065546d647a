"""The title of a timeline: the one thing that a reader should see in it, computed from the trace."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from labkit.figures.spans import extent, time_spent
from labkit.figures.units import duration
from labkit.trace.event import MESSAGE, Event

if TYPE_CHECKING:
    from labkit.trace import Trace

WORTH_SAYING = 0.1
"""Below this share of the time, waiting is not what the picture is about."""


def finding(trace: Trace) -> str:
    """Who waits for whom, or who lacks a core, or else how the time divides.

    "3 of 4 ranks wait 500 ms for rank 2 in all_reduce"
    """
    if not trace.events:
        return "Nothing was recorded: no rank communicated"
    start, end = extent(trace)
    spent = time_spent(trace)
    total = {kind: sum(rank[kind] for rank in spent) for kind in spent[0]}
    time = max(end - start, 1e-12) * trace.world_size
    lost, computed = total["off the CPU"], total["off the CPU"] + total["compute"]
    if lost > 2 * WORTH_SAYING * time and lost > total["waiting"]:
        return f"Ranks are off the CPU for {lost / computed:.0%} of the time in which they could compute"
    if total["waiting"] > WORTH_SAYING * time:
        return _waiting(trace, total["waiting"] / time)
    of_time = [f"{kind} {total[kind] / time:.0%}" for kind in ("compute", "communication", "waiting")]
    return f"Of the ranks' time: {', '.join(of_time)}"


def _waiting(trace: Trace, share: float) -> str:
    waits = _who_waits(trace)
    verb, late = max(waits, key=lambda key: sum(waits[key].values()))
    by_verb = defaultdict(float)
    for (name, _), waiting in waits.items():
        by_verb[name] += sum(waiting.values())
    waiting = waits[verb, late]
    if sum(waiting.values()) < sum(by_verb.values()) / 2:
        return f"Ranks wait {share:.0%} of the time, most of it in {max(by_verb, key=by_verb.get)}"
    longest = max(waiting.values())
    many = [seconds for seconds in waiting.values() if seconds > longest / 2]
    if len(many) == 1:
        who = f"Rank {max(waiting, key=waiting.get)} waits"
    else:
        who = f"{len(many)} of {trace.world_size} ranks wait{' up to' if min(many) < 0.75 * longest else ''}"
    return f"{who} {duration(longest)} for rank {late} in {verb}"


def _who_waits(trace: Trace) -> dict[tuple[str, int], dict[int, float]]:
    """{(verb, the rank that came last): {rank: seconds that it waited for that one}}."""
    last = {}
    for event in trace.events:
        last[_call(event)] = max(last.get(_call(event), event), event, key=lambda event: event.start)
    waits: dict[tuple[str, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for event in trace.events:
        if event.waiting > 0:
            late = event.peers[0] if event.verb in MESSAGE else last[_call(event)].rank
            waits[event.verb, late][event.rank] += event.waiting
    return waits


def _call(event: Event) -> tuple[str, tuple[int, ...], int]:
    return event.group, event.peers, event.sequence
