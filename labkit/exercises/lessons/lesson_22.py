"""Lesson 22, Survive a lost rank: its predictions, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
from labkit.exercises.lessons.late_write import LATE_WRITE
from labkit.exercises.lessons.rest_of_epoch import REST_OF_EPOCH
from labkit.exercises.lessons.useful_share import USEFUL_SHARE

LESSON = Lesson(
    number="22",
    title="Survive a lost rank",
    predictions=(Prediction("save_every", "minutes"), Prediction("year_lost", "%")),
    exercises=(REST_OF_EPOCH, USEFUL_SHARE, LATE_WRITE),
    questions=questions("22"),
)
