"""Lesson 20, Long sequences and many experts: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
from labkit.exercises.lessons.blocks import CAUSAL_RING, RING_ATTENTION
from labkit.exercises.lessons.lost_order import SEND_TO_EXPERTS
from labkit.exercises.lessons.merging import MERGE

LESSON = Lesson(
    number="20",
    title="Long sequences and many experts",
    predictions=(Prediction("scores_fewer", "times fewer"),),
    exercises=(MERGE, RING_ATTENTION, SEND_TO_EXPERTS, CAUSAL_RING),
    questions=questions("20"),
)
