"""Lesson 18, Share the state: its predictions, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
from labkit.exercises.lessons.clipping import CLIP_PARTS
from labkit.exercises.lessons.early_steps import ACCUMULATE_SHARDED
from labkit.exercises.lessons.stage_1 import SHARDED_STEP
from labkit.exercises.lessons.stage_2 import SHARDED_BACKWARD
from labkit.exercises.lessons.stage_3 import SHARDED

LESSON = Lesson(
    number="18",
    title="Share the state: ZeRO and FSDP",
    predictions=(Prediction("bytes_a_parameter", "bytes"), Prediction("stage_3_traffic", "times")),
    exercises=(SHARDED_STEP, SHARDED_BACKWARD, SHARDED, ACCUMULATE_SHARDED, CLIP_PARTS),
    questions=questions("18"),
)
