"""Lesson 19, Combine them: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.budget import BUDGET
from labkit.exercises.lessons.mesh_gradients import SYNC_ON_MESH
from labkit.exercises.lessons.mesh_norm import NORM_ON_MESH
from labkit.exercises.lessons.placing import STEP_SECONDS

LESSON = Lesson(
    number="19",
    title="Combine them: data and model parallelism on a mesh",
    predictions=(Prediction("tensor_over_data", "times"),),
    exercises=(SYNC_ON_MESH, STEP_SECONDS, NORM_ON_MESH, BUDGET),
    questions=(
        Question(
            "A mesh of 8 x 4 ranks, data by tensor. Over how many ranks is the gradient of one rank's "
            "columns averaged?",
            (
                Choice("32", "Of these only every fourth has the same columns."),
                Choice("8", "Those along the data axis: the same columns, other samples."),
                Choice("4", "Those have other columns of the same matrix."),
            ),
            right="b",
        ),
        Question(
            "Twice the batch, the same network and mesh. What does a rank send in a step?",
            (
                Choice("twice as much along both axes", "Gradients have the size of the weights."),
                Choice("as much along tensor, twice as much along data", "It is the other way round."),
                Choice(
                    "twice as much along tensor, as much along data",
                    "Activations grow with the samples, gradients do not.",
                ),
            ),
            right="c",
        ),
        Question(
            "State and activations of a network fit on one device. You have four hosts of four devices. "
            "Start with",
            (
                Choice(
                    "data parallelism over all 16",
                    "It sends once a step, behind the backward pass. Cut the model when it does not fit.",
                ),
                Choice(
                    "tensor inside each host, data between them", "It fits: each step would pay for nothing."
                ),
                Choice("a pipeline over the hosts", "It fits: stages would wait for each other for nothing."),
            ),
            right="a",
        ),
    ),
)
