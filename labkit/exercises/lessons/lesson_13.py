"""Lesson 13, Hide the communication: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
from labkit.exercises.lessons.order import LARGEST_FIRST
from labkit.exercises.lessons.overlap import OVERLAP

LESSON = Lesson(
    number="13",
    title="Hide the communication: DDP",
    predictions=(Prediction("hidden_step", "ms"),),
    exercises=(OVERLAP, LARGEST_FIRST),
    questions=questions("13"),
)
