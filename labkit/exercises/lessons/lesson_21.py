"""Lesson 21, Half the bits, twice the compute: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
from labkit.exercises.lessons.loss_scale import SCALED_STEP
from labkit.exercises.lessons.sixteen_bits import MASTER_STEP, SCALED_UPDATE

LESSON = Lesson(
    number="21",
    title="Half the bits, twice the compute",
    predictions=(Prediction("ring_of_ones", "ones"),),
    exercises=(MASTER_STEP, SCALED_UPDATE, SCALED_STEP),
    questions=questions("21"),
)
