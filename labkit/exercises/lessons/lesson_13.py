"""Lesson 13, Hide the communication: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.order import LARGEST_FIRST
from labkit.exercises.lessons.overlap import OVERLAP

LESSON = Lesson(
    number="13",
    title="Hide the communication: DDP",
    predictions=(Prediction("hidden_step", "ms"),),
    exercises=(OVERLAP, LARGEST_FIRST),
    questions=(
        Question(
            "The links are so slow that all all-reduces together take three times as long as the backward "
            "pass. How much of the communication can be hidden?",
            (
                Choice(
                    "At most a third",
                    "Only what fits behind the backward pass; and the last bucket never does.",
                ),
                Choice("All of it", "Only what fits behind the backward pass."),
                Choice(
                    "Nothing: it does not pay",
                    "The first buckets travel behind the backward pass however slow they are.",
                ),
            ),
            right="a",
        ),
        Question(
            "You accumulate gradients over 8 batches with DDP, and never use no_sync(). What happens?",
            (
                Choice(
                    "The gradients are wrong.",
                    "The mean of a sum is the sum of the means: they are right, and paid for 8 times.",
                ),
                Choice("The ranks deadlock.", "All call the same all-reduces, 8 times as many as needed."),
                Choice(
                    "They are right, and 8 times as many bytes travel.",
                    "Every backward() synchronises. no_sync() leaves that out for all but the last.",
                ),
            ),
            right="c",
        ),
        Question(
            "Why is one bucket per parameter not the best, although the first all-reduce begins so early?",
            (
                Choice(
                    "More bytes travel.",
                    "The bytes are the same however they are cut.",
                ),
                Choice(
                    "Each all-reduce pays its latencies anew.",
                    "k buckets cost k times the overhead o. Beyond the square root of T_b / o it costs more "
                    "than it hides.",
                ),
                Choice(
                    "The gradients would not be complete.",
                    "A parameter's gradient is complete when its hook is called.",
                ),
            ),
            right="b",
        ),
    ),
)
