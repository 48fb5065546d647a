"""Lesson 25, Choose: its predictions, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.budgets import CHEAPEST
from labkit.exercises.lessons.kept_microbatches import RANK_BYTES
from labkit.exercises.lessons.step_times import STEP_TIME

LESSON = Lesson(
    number="25",
    title="Choose: one loop, every strategy",
    predictions=(
        Prediction("slower_than_one", "strategies"),
        Prediction("percent_of_peak", "per cent"),
    ),
    exercises=(STEP_TIME, RANK_BYTES, CHEAPEST),
    questions=(
        Question(
            "Your model fits one device, and all your devices are in one machine. Where do you begin?",
            (
                Choice(
                    "Data parallelism, synchronous",
                    "One all-reduce of a step's gradients, exact, and the least code. Cut the model when it "
                    "does not fit, or when the planner says why.",
                ),
                Choice(
                    "Tensor parallelism: the links inside a machine are fast",
                    "It waits for sums of activations in every layer, forward and backward; data "
                    "parallelism sums gradients once a step, behind the backward pass.",
                ),
                Choice(
                    "A pipeline: it sends least",
                    "And it stands idle at both ends of each step. Where links are fast that costs more.",
                ),
            ),
            right="a",
        ),
        Question(
            "The planner says 1.00 s for one configuration and 1.02 s for another. Which is the faster?",
            (
                Choice("The first", "The planner is wrong by several per cent, as you have seen."),
                Choice("The second", "Nothing says so."),
                Choice(
                    "Measure both",
                    "A planner removes what is hopeless. Between neighbours only a measurement decides.",
                ),
            ),
            right="c",
        ),
        Question(
            "A plan is rejected: it does not fit. What makes it fit without another device?",
            (
                Choice("A larger batch", "It needs more activations, never fewer."),
                Choice(
                    "Recomputation, or sharded state",
                    "The first keeps layers' inputs alone, for a pass forward more; the second parts the "
                    "state, for more bytes. The planner has tried both.",
                ),
                Choice("Faster links", "Time, and no byte of memory."),
            ),
            right="b",
        ),
    ),
)
