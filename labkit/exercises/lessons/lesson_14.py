"""Lesson 14, Talk less: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.local_steps import LOCAL_STEPS
from labkit.exercises.lessons.top_k import TOP_K

LESSON = Lesson(
    number="14",
    title="Talk less",
    predictions=(Prediction("points_lost", "percentage points"),),
    exercises=(LOCAL_STEPS, TOP_K),
    questions=(
        Question(
            "Top-k with error feedback sends one number in a hundred. What becomes of the other 99?",
            (
                Choice("They are lost; they are small.", "Small and always of one sign, they add up."),
                Choice("They are sent in the last step.", "No step is special."),
                Choice(
                    "They wait, add up, and travel later.",
                    "What was sent and what is kept add up to all gradients: nothing is lost, it is late.",
                ),
            ),
            right="c",
        ),
        Question(
            "Ranks average their weights after every single step of plain SGD. Compared with averaging the "
            "gradients, that is",
            (
                Choice(
                    "the same", "All start the step at one place, and the mean of the steps is the mean step."
                ),
                Choice("worse: the replicas drift", "They meet after each step, and start it together."),
                Choice("cheaper", "There are as many weights as gradients."),
            ),
            right="a",
        ),
        Question(
            "Your links are slow because each message takes long to arrive, not because of its bytes. Which "
            "helps most?",
            (
                Choice("16-bit sums", "Half or a quarter of the bytes, and as many messages as before."),
                Choice("N local steps", "One N-th of the messages, and so of the latencies."),
                Choice("PowerSGD", "Fewer bytes, and twice as many all-reduces as before."),
            ),
            right="b",
        ),
    ),
)
