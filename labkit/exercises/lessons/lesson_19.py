"""Lesson 19, Combine them: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Lesson, Prediction, questions
from labkit.exercises.lessons.budget import BUDGET
from labkit.exercises.lessons.mesh_gradients import SYNC_ON_MESH
from labkit.exercises.lessons.mesh_norm import NORM_ON_MESH
from labkit.exercises.lessons.placing import STEP_SECONDS

LESSON = Lesson(
    number="19",
    title="Combine them: data and model parallelism on a mesh",
    predictions=(Prediction("tensor_over_data", "times"),),
    exercises=(SYNC_ON_MESH, STEP_SECONDS, NORM_ON_MESH, BUDGET),
    questions=questions("19"),
)
