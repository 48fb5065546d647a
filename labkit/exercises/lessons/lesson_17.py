"""Lesson 17, Fill the pipeline: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
from labkit.exercises.lessons.recomputation import ONE_BUFFER, RECOMPUTING_STEP
from labkit.exercises.lessons.rooms import PIPELINE_IN_ROOM
from labkit.exercises.lessons.schedules import MY_1F1B

LESSON = Lesson(
    number="17",
    title="Fill the pipeline",
    predictions=(Prediction("idle_percent", "%"),),
    exercises=(MY_1F1B, ONE_BUFFER, PIPELINE_IN_ROOM, RECOMPUTING_STEP),
    questions=questions("17"),
)
