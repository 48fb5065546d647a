"""Judging the slots of a pipeline that a learner returned, before anything runs."""

from typing import Any

from labkit.exercises.describe import Answers
from labkit.schedule.checks.pipeline import pipeline_violations
from labkit.schedule.pipeline import Backward, Forward, pipeline_schedule


def wrong_slots(found: Any, stages: int, microbatches: int, room: int, most: int) -> str:
    """The first thing that is wrong with them, in a sentence, or "".

    They must be slots for so many stages, do every pass in a possible order, store at most `room`
    micro-batches on a rank, and end within `most` slots if each pass takes one. Lesson 17 asks for them.
    """
    if not _are_slots(found):
        return f"A list of slots for each stage was expected, of Forward(m) and Backward(m); it is {found!r}."
    if len(found) != stages:
        return f"It has slots for {len(found)} stages, not for {stages}."
    if wrong := pipeline_violations(found, microbatches, room):
        return wrong[0].sentence
    return _late(found, most)


def told(answers: Answers) -> str:
    """What the learner hears if a rank's answer is a sentence, which says what is wrong with its slots."""
    sentences = [found for found in answers.found if isinstance(found, str) and found]
    if not sentences:
        return ""
    others = len(set(sentences)) > 1 or len(sentences) < answers.size
    more = "\nThe ranks differ: every rank must return the slots of all stages." if others else ""
    return f"the schedule is not what was asked for\n  {sentences[0]}{more}"


def _are_slots(found: Any) -> bool:
    lists = isinstance(found, list | tuple) and all(isinstance(own, list | tuple) for own in found)
    return lists and all(isinstance(slot, Forward | Backward) for own in found for slot in own)


def _late(slots: list[list[Forward | Backward]], most: int) -> str:
    """Which pass is the first that begins too late, on the clock of a simulation in which each takes 1."""
    from labkit.simulate import Network, simulate

    trace = simulate(pipeline_schedule(slots), Network(alpha=0.0, bandwidth=1.0), 0)
    passes = [event for event in trace.events if event.verb == "compute"]
    taken = max(event.end for event in passes)
    if taken <= most:
        return ""
    late = min((event for event in passes if event.end > most), key=lambda event: event.start)
    return (
        f"It takes {taken:.0f} slots, not at most {most}: "
        f"rank {late.rank} does {late.label} only in slot {late.start:.0f}."
    )
