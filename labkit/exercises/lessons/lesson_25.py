"""Lesson 25, Choose: its predictions, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
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
    questions=questions("25"),
)
