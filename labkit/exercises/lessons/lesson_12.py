"""Lesson 12, Grow the batch: its predictions, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
from labkit.exercises.lessons.noise import NOISE
from labkit.exercises.lessons.shares import SHARES

LESSON = Lesson(
    number="12",
    title="Grow the batch",
    predictions=(Prediction("iterations_32", "iterations"), Prediction("accuracy_512", "%")),
    exercises=(NOISE, SHARES),
    questions=questions("12"),
)
