"""Lesson 23, Serve it: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.cached import DECODE_STEP
from labkit.exercises.lessons.closing import CLOSE_BATCH
from labkit.exercises.lessons.restarted_clock import BATCHES

LESSON = Lesson(
    number="23",
    title="Serve it",
    predictions=(Prediction("best_timeout", "ms"),),
    exercises=(CLOSE_BATCH, DECODE_STEP, BATCHES),
    questions=(
        Question(
            "Replicas are overloaded, and latencies grow from minute to minute. You make the time-out",
            (
                Choice("shorter: requests wait too long", "Smaller batches load the replicas more."),
                Choice("longer: batches grow", "Fewer batches, so fewer times the fixed part of their cost."),
                Choice("zero: no request waits for others", "Then each request costs a whole batch's a."),
            ),
            right="b",
        ),
        Question(
            "A replica dies with a batch half done. No request is lost if",
            (
                Choice("the queue keeps a request until its answer has come", "And hands it to another."),
                Choice(
                    "the queue forgets a request when it hands it over",
                    "Then nobody but the dead replica knew of it.",
                ),
                Choice("the replica answers quickly", "Some batch is under way at any moment."),
            ),
            right="a",
        ),
        Question(
            "A model writes 1,000 tokens. Without a KV cache it computes keys and values of how many?",
            (
                Choice("1,000", "That is with a cache: each once."),
                Choice("2,000", "Each new token needs those of all tokens before it."),
                Choice("about half a million", "1 + 2 + ... + 1,000."),
            ),
            right="c",
        ),
    ),
)
