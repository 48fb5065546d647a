"""What ranks said becomes one text: in rank order, equal output once."""

import pytest

from labkit.lab.display.said import Failure, Said, failures, ranks, text, whereabouts

TRACEBACK = (
    "\x1b[31m---------\x1b[39m",
    "\x1b[31mValueError\x1b[39m    Traceback (most recent call last)",
    "\x1b[32mCell In [3], line 2\x1b[39m",
    "      1 if rank == 2:",
    '\x1b[32m----> 2\x1b[39m     raise ValueError("bad")',
    "",
    "ValueError: bad",
)


@pytest.mark.parametrize(
    "numbers, label",
    [([2], "rank 2"), ([0, 1, 2, 3], "ranks 0-3"), ([3, 0, 2], "ranks 0, 2-3"), ([0, 2], "ranks 0, 2")],
)
def test_labels(numbers, label):
    assert ranks(numbers) == label


def test_equal_output_is_shown_once_at_its_first_rank():
    said = [Said(0, "a\n"), Said(1, "b\n"), Said(2, "a\n"), Said(3)]
    assert text(said) == "[ranks 0, 2] a\n[rank 1] b"


def test_further_lines_stand_under_the_first():
    assert text([Said(0, "x\ny\n\nz\n")]) == "[rank 0] x\n         y\n\n         z"


def test_prints_then_warnings_then_results():
    bundle = {"text/plain": "tensor([1.])"}
    assert text([Said(0, "out\n", "err\n", (bundle,))]) == "[rank 0] out\n         err\n         tensor([1.])"


def test_pictures_are_no_words():
    assert text([Said(0, displays=({"image/png": "...", "text/plain": "<Figure>"},))]) == ""


def test_a_failure_names_rank_message_and_line():
    failure = Failure("ValueError", "bad", TRACEBACK)
    assert (
        failures([Said(0), Said(2, failure=failure)])
        == 'rank 2: ValueError: bad (line 2: raise ValueError("bad"))'
    )
    assert failures([Said(r, failure=failure) for r in range(4)]).startswith("ranks 0-3: ValueError: bad")


def test_whereabouts_group_ranks_by_line():
    failure = Failure("KeyboardInterrupt", "", TRACEBACK)
    said = [
        Said(0, failure=failure),
        Said(1, failure=failure),
        Said(2, failure=Failure("KeyboardInterrupt", "")),
    ]
    assert whereabouts(said) == 'ranks 0-1 at line 2: raise ValueError("bad")\nrank 2 at no line of the cell'


def listed(*calls):
    found = "\n       ".join(f"rank {rank}: {call}" for rank, call in enumerate(calls))
    return Failure(
        "MismatchError", f"asked: {calls[0]} on group '0'\nfound: {found}\nfix:   the same everywhere"
    )


def test_calls_that_differ_are_told_once():
    """Each rank may have heard of another pair of calls, where two threads of a rank call at once."""
    one, other = (
        listed("barrier() at a, line 1", "all_gather()"),
        listed("all_gather()", "barrier() at a, line 1"),
    )
    assert failures([Said(0, failure=one), Said(1, failure=other)]) == f"ranks 0-1: {one.in_short()}"
    apart = Failure("MismatchError", "asked: x\nfound: rank 2: a()\n       rank 3: b()\nfix:   y")
    told = failures(
        [Said(0, failure=one), Said(1, failure=other), Said(2, failure=apart), Said(3, failure=apart)]
    )
    assert told == f"ranks 0-1: {one.in_short()}\nranks 2-3: {apart.in_short()}"
    both = [Failure("ValueError", f"bad {rank}") for rank in range(2)]
    assert len(failures([Said(r, failure=f) for r, f in enumerate(both)]).splitlines()) == 2
