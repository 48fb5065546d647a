"""Lesson 14, Talk less: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
from labkit.exercises.lessons.local_steps import LOCAL_STEPS
from labkit.exercises.lessons.top_k import TOP_K

LESSON = Lesson(
    number="14",
    title="Talk less",
    predictions=(Prediction("points_lost", "percentage points"),),
    exercises=(LOCAL_STEPS, TOP_K),
    questions=questions("14"),
)
