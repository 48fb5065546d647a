"""Lesson 17, Fill the pipeline: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.recomputation import ONE_BUFFER, RECOMPUTING_STEP
from labkit.exercises.lessons.rooms import PIPELINE_IN_ROOM
from labkit.exercises.lessons.schedules import MY_1F1B

LESSON = Lesson(
    number="17",
    title="Fill the pipeline",
    predictions=(Prediction("idle_percent", "%"),),
    exercises=(MY_1F1B, ONE_BUFFER, PIPELINE_IN_ROOM, RECOMPUTING_STEP),
    questions=(
        Question(
            "You take 1F1B in place of GPipe, with as many micro-batches. What gets smaller?",
            (
                Choice("the bubble", "It stays: both wait for the first micro-batch and for the last one."),
                Choice("the memory", "A stage stores at most K micro-batches, however many there are."),
                Choice("the gradient's error", "Both give the gradient of the whole batch."),
            ),
            right="b",
        ),
        Question(
            "Four stages. You cut the batch into 16 micro-batches in place of 8. The idle share",
            (
                Choice("falls from 27 % to 16 %", "3/11 becomes 3/19."),
                Choice("halves", "3/11 becomes 3/19: K - 1 is also in the denominator."),
                Choice(
                    "stays", "The time to fill and to drain is now a smaller part: passes are half as long."
                ),
            ),
            right="a",
        ),
        Question(
            "One of four stages takes twice as long as each other one. With very many micro-batches the idle "
            "share goes to",
            (
                Choice("0", "So says the formula, which takes stages as equal."),
                Choice("1/4", "That is one stage in four; but three of them idle for half of the time."),
                Choice("3/8", "Three stages work half of the time, one all of it: 2.5 of 4 are busy."),
            ),
            right="c",
        ),
    ),
)
