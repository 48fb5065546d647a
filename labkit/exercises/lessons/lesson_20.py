"""Lesson 20, Long sequences and many experts: its prediction, exercises and questions."""

from __future__ import annotations

from labkit.exercises.describe import Choice, Lesson, Prediction, Question
from labkit.exercises.lessons.blocks import CAUSAL_RING, RING_ATTENTION
from labkit.exercises.lessons.lost_order import SEND_TO_EXPERTS
from labkit.exercises.lessons.merging import MERGE

LESSON = Lesson(
    number="20",
    title="Long sequences and many experts",
    predictions=(Prediction("scores_fewer", "times fewer"),),
    exercises=(MERGE, RING_ATTENTION, SEND_TO_EXPERTS, CAUSAL_RING),
    questions=(
        Question(
            "The sequence gets twice as long, on as many ranks. In a step of ring attention",
            (
                Choice(
                    "computing and sending take twice as long",
                    "Sending does. Twice as many queries meet twice as many keys.",
                ),
                Choice(
                    "computing takes four times as long, sending twice",
                    "So long sequences hide their own communication.",
                ),
                Choice("computing takes twice as long, sending as long", "Blocks have twice as many keys."),
            ),
            right="b",
        ),
        Question(
            "One block gives a query output a with ln Z = 10, another one output b with ln Z = 12. Together "
            "they give about",
            (
                Choice("0.12 a + 0.88 b", "Their sums of weights are as 1 to e squared."),
                Choice("0.45 a + 0.55 b", "That takes the logarithms for the weights."),
                Choice("0.5 a + 0.5 b", "The second block has 7.4 times the weight."),
            ),
            right="a",
        ),
        Question(
            "Four experts, capacity factor 1. The router sends half of each rank's tokens to one expert, and "
            "shares the rest equally. Which share of all tokens is dropped?",
            (
                Choice("none", "One expert has room for a quarter of the tokens, and gets half."),
                Choice("a half", "The full expert still takes a quarter of all tokens."),
                Choice("a quarter", "Half of them want a place, a quarter find one."),
            ),
            right="c",
        ),
    ),
)
