"""From every rank's state to a diagnosis: who waits for whom, and can it ever end? Pure.

A rank is *live* if it computes, has stopped in a debugger, or waits for something that a live rank can
still give. What is left waits for ever. That is a verdict only when no rank computes any more and nothing
has moved for a while: a straggler is no fault.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from labkit.rank.protocol import (
    ABSENT,
    ANY_TAG,
    AWAIT,
    COMPUTING,
    FINISHED,
    RAISED,
    RECEIVES,
    SENDS,
    STOPPED,
    WAITING,
    State,
)
from labkit.rank.wording import ranks

PATIENCE = 1.0
"""Seconds for which nothing must have moved before a verdict."""
STALLED = 5.0
"""Seconds for which ranks of one machine must have waited for one another, and all rested, before another."""
BELOW, BELOW_ELSEWHERE = 5.0, 15.0
"""Seconds for which a call below what labkit watches must not have come back: on one machine, on several."""
BLOCKED = "blocked"
"""What a rank does that is in such a call."""


@dataclass(frozen=True)
class Diagnosis:
    """Which ranks can never go on, and why in one sentence."""

    stuck: tuple[int, ...]
    sentence: str


def stuck(states: Sequence[State]) -> tuple[State, ...]:
    """The waiting states that no live rank can ever satisfy."""
    by_rank = {s.rank: s for s in states}
    live = {s.rank for s in states if s.doing in (COMPUTING, STOPPED)}
    waiting = [s for s in states if s.doing == WAITING]
    while True:
        freed = {s.rank for s in waiting if s.rank not in live and _can_end(s, by_rank, live)}
        if not freed:
            return tuple(s for s in waiting if s.rank not in live)
        live |= freed


def diagnose(states: Sequence[State]) -> Diagnosis | None:
    """Why some ranks can never go on; None if all can."""
    held = stuck(states)
    if not held:
        return None
    return Diagnosis(tuple(s.rank for s in held), _reason(held, {s.rank: s for s in states}))


class Watch:
    """Looks again and again, and gives a verdict once nothing has moved for PATIENCE seconds.

    Where all have called what the others wait for and it does not end, as with sizes that differ, it takes
    STALLED seconds; `one_machine`, since between hosts much may be on its way while all processes rest.
    """

    def __init__(self, patience: float = PATIENCE, stalled: float = STALLED, one_machine: bool = True):
        self._patience, self._stalled = patience, stalled if one_machine else inf
        self._one_machine = one_machine
        self._seen: tuple = ()
        self._since = 0.0

    def look(self, states: Sequence[State], now: float) -> Diagnosis | None:
        """A diagnosis if no rank computes and every waiting rank has been stuck long enough."""
        states = [self._blocked(s) for s in states]
        held, waiting = stuck(states), [s for s in states if s.doing == WAITING]
        resting = bool(waiting) and all(s.rests for s in waiting)
        seen = tuple(replace(s, place="") for s in states)
        if (
            not (held or resting or any(s.doing == BLOCKED for s in states))
            or any(s.doing in (COMPUTING, STOPPED) for s in states)
            or seen != self._seen
        ):
            self._seen, self._since = seen, now
            return None
        if any(s.doing == BLOCKED for s in states):
            return below(states) if now - self._since >= self._patience else None
        if held:
            return diagnose(states) if now - self._since >= self._patience else None
        return _stalled(waiting) if now - self._since >= self._stalled else None

    def _blocked(self, s: State) -> State:
        """A rank that does not compute, though labkit cannot see for what it waits; others unchanged."""
        if s.doing != COMPUTING or s.below is None:
            return s
        if self._one_machine:
            enough = s.below.seconds >= BELOW
        else:  # where much may be on its way, and processes of other hosts are not to be seen
            enough = s.below.sure and s.below.seconds >= BELOW_ELSEWHERE
        return replace(s, doing=BLOCKED) if enough else s


def below(states: Sequence[State]) -> Diagnosis | None:
    """Why ranks of which some are blocked below what labkit watches do not go on; None if they may."""
    by_rank = {s.rank: s for s in states}
    blocked = [_for_at_least(s, states) for s in states if s.doing == BLOCKED]
    if any(_has_all(s, by_rank) for s in blocked):
        return None
    held = stuck(states)  # for which a rank that is blocked does nothing
    if len(held) < sum(s.doing == WAITING for s in states):
        return None
    sure = all(s.below.sure for s in blocked)
    found = [
        f"{ranks(who)} {what}"
        for doing, what in (
            (RAISED, "raised an error"),
            (FINISHED, "finished the cell"),
            (ABSENT, "not in this cell (--targets)"),
        )
        if (who := [s.rank for s in states if s.doing == doing])
    ]
    wait = f"{ranks(s.rank for s in blocked)} {'waits' if len(blocked) == 1 else 'wait'}"
    head = "deadlock: nobody can end it" if sure else f"{wait} below what labkit sees, and nothing moves"
    stuck_ones = sorted([*held, *blocked], key=lambda s: s.rank)
    lines = [": ".join(filter(None, [head, ", ".join(found)])), *_waits(stuck_ones)]
    return Diagnosis(tuple(s.rank for s in stuck_ones), "\n".join(lines))


def _for_at_least(s: State, states: Sequence[State]) -> State:
    """A rank with the seconds for which all have been blocked that are in its place: these read alike."""
    alike = [
        t.below for t in states if t.doing == BLOCKED and (t.place, t.below.call) == (s.place, s.below.call)
    ]
    return replace(s, below=replace(s.below, seconds=min(one.seconds for one in alike)))


def _has_all(s: State, by_rank: dict[int, State]) -> bool:
    """Whether all have called the collective that a rank is blocked in, so that it may be on its way."""
    peers = (by_rank.get(p) for p in s.below.peers or by_rank)
    return s.below.collective and all(
        p is not None and p.doing == BLOCKED and p.below.call == s.below.call for p in peers
    )


def _stalled(waiting: Sequence[State]) -> Diagnosis:
    """Of ranks that have all called what the others need."""
    why = "nothing moves, though all have called: do the tensors differ in size or dtype?"
    return Diagnosis(tuple(s.rank for s in waiting), "\n".join([why, *_waits(waiting)]))


def _can_end(s: State, by_rank: dict[int, State], live: set[int]) -> bool:
    if s.verb == AWAIT:
        return False
    peers = s.peers or tuple(r for r in by_rank if r != s.rank)
    if s.is_point_to_point():
        return any(p in live or _meets(s, by_rank.get(p)) for p in peers)
    return all(p == s.rank or p in live or _has_entered(s, by_rank.get(p)) for p in peers)


def _meets(s: State, peer: State | None) -> bool:
    """Whether a send and a receive match, so that they are only on their way."""
    if peer is None or peer.doing != WAITING or not tags_meet(s.tag, peer.tag) or s.group != peer.group:
        return False
    opposite = RECEIVES if s.verb in SENDS else SENDS
    return peer.verb in opposite and (not peer.peers or s.rank in peer.peers)


def tags_meet(one: int, other: int) -> bool:
    return one == other or ANY_TAG in (one, other)


def _has_entered(s: State, peer: State | None) -> bool:
    return (
        peer is not None
        and peer.doing == WAITING
        and (peer.verb, peer.group, peer.number, peer.root) == (s.verb, s.group, s.number, s.root)
    )


def _reason(held: Sequence[State], by_rank: dict[int, State]) -> str:
    """A headline, then a line for each place where ranks wait."""
    return "\n".join([_headline(held, by_rank), *_waits(held)])


def _headline(held: Sequence[State], by_rank: dict[int, State]) -> str:
    raised = [s.rank for s in by_rank.values() if s.doing == RAISED]
    if raised:
        return f"{ranks(raised)} raised an error for which the others wait in vain"
    awaiting = [s.rank for s in held if s.verb == AWAIT]
    if awaiting:
        return f"deadlock: nothing is left that could end the await of {ranks(awaiting)}"
    needed = {p for s in held for p in s.peers or by_rank}
    for doing, why in ((FINISHED, "finished the cell"), (ABSENT, "not in this cell (--targets)")):
        gone = [s.rank for s in by_rank.values() if s.doing == doing and s.rank in needed]
        if gone:
            return f"deadlock: {ranks(gone)} {why}, and others wait for {'it' if len(gone) == 1 else 'them'}"
    collectives = [s for s in held if not s.is_point_to_point()]
    if len({s.group for s in collectives}) > 1:
        return "deadlock: the ranks are in collectives of different groups"
    if len({(s.verb, s.number) for s in collectives}) > 1:
        return "deadlock: the ranks are in different collectives"
    if len({s.root for s in collectives}) > 1:
        return "deadlock: the ranks name different roots"
    return "deadlock: each waits for another" + _what_differs(held, by_rank)


def _what_differs(held: Sequence[State], by_rank: dict[int, State]) -> str:
    """Between a send and a receive that would match but for the tag, or for the group."""
    for s in held:
        for peer in (by_rank[p] for p in s.peers if p in by_rank):
            for name in ("tag", "group"):
                if not _meets(s, peer) and _meets(s, replace(peer, **{name: getattr(s, name)})):
                    return f", with another {name}"
    return ""


def _waits(held: Sequence[State]) -> list[str]:
    """ "ranks 0-1 in all_reduce number 3, line 7: ...", ranks in the same place together."""
    places: dict[str, list[int]] = {}
    calls = [s for s in held if s.verb != AWAIT and s.doing != BLOCKED]
    groups, roots = (len({getattr(s, name) for s in calls}) > 1 for name in ("group", "root"))
    for s in sorted(held, key=lambda s: s.rank):
        group = f" on group {s.group!r}" if groups and s.group else ""
        root = f" with root {s.root}" if roots and s.root is not None else ""
        what = s.below.what() if s.doing == BLOCKED else s.what()
        places.setdefault(f"{what}{root}{group}, {s.place or 'no line of the cell'}", []).append(s.rank)
    return [f"{ranks(who)} in {place}" for place, who in places.items()]
