"""A mistake has one name, whatever was drawn and whoever makes it, and other mistakes have others."""

import pytest

from labkit.exercises.mistake import DIED, WRONG, name

SUM = "not solved yet: in a world of {}, {} wrong\n  rank 1 expected {}\n  rank 1 got {}\nThat is the sum{}."


def test_what_is_right_has_none():
    assert name("solved: swap is right on every rank, in worlds of 2, 3 and 4") == ""


@pytest.mark.parametrize(
    ("told", "called"),
    [
        ("there is no function swap on ranks 0-3; run the cell that defines it", "not written"),
        ("write swap(mine) in the cell above, run that cell and then this one", "not written"),
        ("shift_right is still as the lesson gave it: find the bug, change that cell", "not changed"),
        ("in a world of 2, deadlock: each waits for another\nrank 0 in recv from rank 1", "deadlock"),
        ("in a world of 3, the deadline of 10 s passed\nranks 0-2 at line 2: while True:", "takes too long"),
        ("in a world of 2, ranks 0-1: NameError: name 'los' is not defined (line 2)", "NameError"),
        ("the deadline of 10 s passed\nranks 0-3 at line 1", "takes too long"),
        ("ranks 0-3 did not answer within 30 s: busy with something else", "takes too long"),
        ("in a world of 4, ranks 0, 2 and 3: ValueError: deadlock: 3", "ValueError"),
        ("rank 0 (pid 34 on lab) died: Killed (signal 9)", DIED),
        (
            "in a world of 2, rank 1 raised an error for which the others wait in vain\nrank 0 in send\n"
            "rank 1: ValueError: bad (line 3: raise)",
            "ValueError",
        ),
        (
            "in a world of 3, every rank is right, but over budget: messages in all 6, limit 4\nGo by 0.",
            "over budget: messages in all",
        ),
        (
            "in a world of 3, every rank is right, but over budget: bytes handed to calls by a rank 1,200, "
            "limit 7",
            "over budget: bytes handed to calls by a rank",
        ),
        (
            "in a world of 3, the values are right, but not by the way that was asked for: collective "
            "calls on each rank 0, needed are 1\nUse one.",
            "too little: collective calls on each rank",
        ),
        ("in a world of 2, rank 0 never waits for its isend: call wait() on it", "never waits for its isend"),
        (
            "in a world of 2, every rank is right, but rank 1 changed `loss`, which its caller goes on using",
            "changes `loss`, which is its caller's",
        ),
        (
            "in a world of 3, rank 0 sent rank 2 a message that nobody received",
            "a message that nobody receives",
        ),
        ("in a world of 2, ranks 0-1 are wrong\n  rank 0 expected 2\n  rank 0 got      3", WRONG),
        ("in a world of 3, nobody took numbers[17]\n  there are 40 numbers", "nobody took numbers[…]"),
        ("in a world of 3, ranks 0 and 2 took numbers[4]\n  twice", "a rank took numbers[…]"),
    ],
)  # fmt: skip
def test_it_is_what_the_learner_was_told_without_what_was_drawn(told, called):
    assert name(f"not solved yet: {told}") == called


def test_other_draws_have_the_same_name_and_other_mistakes_have_others():
    drawn = {
        name(SUM.format(2, "rank 1 is", 0.3, 0.6, "")),
        name(SUM.format(4, "ranks 0-3 are", "[1, 2]", "[3.5, -2]", "")),
    }
    assert drawn == {"That is the sum"}
    assert name(SUM.format(2, "rank 1 is", 0.3, 0.6, " of squares")) not in drawn
