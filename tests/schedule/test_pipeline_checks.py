"""What is wrong with a pipeline is said in one sentence that names the rank, the slot and the reason."""

import pytest

from labkit.algorithms import gpipe, one_forward_one_backward
from labkit.schedule import Backward as B
from labkit.schedule import Forward as F
from labkit.schedule import pipeline_violations


def first(slots, microbatches, room=None):
    found = pipeline_violations(slots, microbatches, room)[0]
    return found.kind, found.ranks, found.step, str(found)


@pytest.mark.parametrize("make", [gpipe, one_forward_one_backward])
@pytest.mark.parametrize("stages", range(1, 6))
@pytest.mark.parametrize("microbatches", (1, 2, 7))
def test_nothing_is_wrong_with_ours(make, stages, microbatches):
    assert pipeline_violations(make(stages, microbatches), microbatches, microbatches) == ()


@pytest.mark.parametrize("stages", (2, 3, 4))
def test_a_stage_may_go_less_far_ahead_than_its_left_neighbour_but_not_further(stages):
    """Sends never wait: GPipe on the left goes with 1F1B on the right."""
    far, near = gpipe(stages, 6), one_forward_one_backward(stages, 6)
    for cut in range(1, stages):
        assert pipeline_violations([*far[:cut], *near[cut:]], 6) == ()
        kind, ranks, *_ = first([*near[:cut], *far[cut:]], 6)
        assert (kind, ranks) == ("deadlock", (cut - 1, cut))


def test_backward_before_forward():
    assert first([[F(0), B(0)], [B(0), F(0)]], 1) == (
        "backward before forward", (1,), 0,
        "Rank 1 does B0 in slot 0, before F0: it has stored nothing to go back through.",
    )  # fmt: skip


def test_deadlock():
    assert first([[F(0), B(0), F(1), B(1)], [F(0), F(1), B(0), B(1)]], 2) == (
        "deadlock", (0, 1), 1,
        "Deadlock: rank 0 in slot 1 expects gradient 0 from rank 1, rank 1 in slot 1 expects activation 1 "
        "from rank 0; each waits for the next.",
    )  # fmt: skip


def test_who_waits_for_a_deadlock_is_not_blamed():
    alone = [F(0), B(0), F(1), B(1)]
    kind, ranks, slot, _ = first([alone, alone, [F(0), F(1), B(0), B(1)]], 2)
    assert (kind, ranks, slot) == ("deadlock", (1, 2), 1)


def test_neighbours_in_different_orders():
    assert first([[F(0), F(1), B(0), B(1)], [F(1), F(0), B(0), B(1)]], 2) == (
        "wrong chunk", (1, 0), 0,
        "Rank 1 wants activation 1 in slot 0, but rank 0 sends it activation 0 (its slot 0).",
    )  # fmt: skip


def test_too_much_memory():
    assert first(gpipe(2, 4), 4, room=3) == (
        "too much memory", (0,), 3,
        "Rank 0 stores 4 micro-batches, and has room for 3: slot 3 (F3) is the first with more.",
    )  # fmt: skip
    assert first(one_forward_one_backward(3, 4), 4, room=[3, 2, 0])[1:3] == ((2,), 0)
    assert pipeline_violations(one_forward_one_backward(3, 4), 4, room=[3, 2, 1]) == ()


@pytest.mark.parametrize(
    ("slots", "kind", "rank", "slot", "sentence"),
    [
        ([[F(0), B(0)], [F(0)]], "missing pass", 1, 0, "Rank 1 ends after slot 0 without B0."),
        ([[F(0), B(0)], []], "missing pass", 1, 0, "Rank 1 has no slot, and so ends without B0, F0."),
        ([[F(0), B(0), B(0)]], "done twice", 0, 2, "Rank 0 does B0 in slot 2, and has done it in slot 1."),
        (
            [[F(0), B(0), F(1)]],
            "no such pass",
            0,
            2,
            "Rank 0 has F1 in slot 2, and the last micro-batch is 0.",
        ),
    ],
)
def test_passes_are_done_once_each(slots, kind, rank, slot, sentence):
    assert first(slots, 1) == (kind, (rank,), slot, sentence)
