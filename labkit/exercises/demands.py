"""Demands: what an exercise asks of the way beside the values, as properties of the trace of a check.

Each takes the answers of all ranks and returns what was not done, in a sentence, or "".
"""

from __future__ import annotations

from collections.abc import Callable

from labkit.exercises.describe import Answers

Demand = Callable[[Answers], str]


def sends_only_to(receivers: Callable[[int, int], set[int]], says: str) -> Demand:
    """Whether messages go only where they may: `receivers(rank, world_size)` are that rank's."""

    def wrong_way(answers: Answers) -> str:
        for sent in (event for event in answers.trace.events if event.verb == "send"):
            if not set(sent.peers) <= receivers(sent.rank, answers.size):
                return f"rank {sent.rank} sent to rank {sent.peers[0]}\n{says}"
        return ""

    return wrong_way


def sends_to_the_right(says: str) -> Demand:
    """Whether every rank sends to the next one alone, and the last to the first."""
    return sends_only_to(lambda rank, size: {(rank + 1) % size}, says)
