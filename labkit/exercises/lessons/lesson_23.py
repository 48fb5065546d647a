"""Lesson 23, Serve it: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
from labkit.exercises.lessons.cached import DECODE_STEP
from labkit.exercises.lessons.closing import CLOSE_BATCH
from labkit.exercises.lessons.restarted_clock import BATCHES

LESSON = Lesson(
    number="23",
    title="Serve it",
    predictions=(Prediction("best_timeout", "ms"),),
    exercises=(CLOSE_BATCH, DECODE_STEP, BATCHES),
    questions=questions("23"),
)
