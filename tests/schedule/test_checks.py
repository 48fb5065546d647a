"""What is wrong with a schedule is said in one sentence that names the ranks and the step."""

import pytest

from labkit import LabError
from labkit.algorithms import halving_doubling, naive, ring, tree
from labkit.schedule import Budget, Compute, Copy, Recv, Reduce, Schedule, Send, check, violations


def sentences(schedule, **options):
    return [str(one) for one in violations(schedule, **options)]


@pytest.mark.parametrize("make", [naive, tree, ring, halving_doubling])
@pytest.mark.parametrize("ranks", range(1, 9))
def test_the_algorithms_are_correct(make, ranks):
    assert violations(make(ranks), all_reduce=True) == ()


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_deadlock_of_all_who_send_first(ranks):
    steps = [[Send((rank + 1) % ranks, 0), Recv((rank - 1) % ranks, 0)] for rank in range(ranks)]
    (found,) = violations(Schedule(steps))
    assert (found.kind, found.ranks, found.step) == ("deadlock", tuple(range(ranks)), 0)
    assert "rank 0 in step 0 sends chunk 0 to rank 1" in str(found)


def test_sending_and_receiving_in_one_step_is_no_deadlock():
    steps = [[(Send((rank + 1) % 3, 0), Reduce((rank - 1) % 3, 0))] for rank in range(3)]
    assert violations(Schedule(steps)) == ()


def test_who_waits_for_a_deadlock_is_not_part_of_it():
    steps = [[Send(1, 0), Recv(1, 0)], [Send(0, 0), Recv(0, 0), Send(2, 0)], [Recv(1, 0)]]
    (found,) = violations(Schedule(steps))
    assert found.ranks == (0, 1)


def test_deadlock_in_a_later_step():
    steps = [[Send(1, 0), Recv(1, 0), Send(1, 0)], [Recv(0, 0), Recv(0, 0), Send(0, 0)]]
    assert sentences(Schedule(steps)) == [
        "Deadlock: rank 0 in step 1 expects chunk 0 from rank 1, "
        "rank 1 in step 1 expects chunk 0 from rank 0; each waits for the next."
    ]


@pytest.mark.parametrize(
    "steps, sentence",
    [
        ([[Send(1, 0)], []], "Rank 0 sends chunk 0 to rank 1 in step 0, which never receives it."),
        ([[], [(), Recv(0, 0)]], "Rank 1 waits in step 1 for chunk 0 from rank 0, which never sends it."),
        ([[Send(2, 0)], []], "Rank 0 in step 0 names rank 2, and the last is 1: send 0 to r2."),
        ([[Recv(0, 0)], []], "Rank 0 in step 0 names itself: get 0 from r0."),
        (
            [[Send(1, 0)], [Recv(0, 1)]],
            "Rank 1 wants chunk 1 in step 0, but rank 0 sends it chunk 0 (its step 0).",
        ),
        (
            [[(Send(1, 0), Recv(1, 0))], [(Send(0, 0), Recv(0, 0))]],
            "Rank 0 uses and changes chunk 0 at the same time in step 0.",
        ),
        (
            [[Copy("sum", into=0)], []],
            "Rank 0 needs sum in step 0 (copy sum into 0), and does not hold it then.",
        ),
    ],
)
def test_one_fault_one_sentence(steps, sentence):
    found = sentences(Schedule(steps, chunks=2))
    assert found[0] == sentence


def test_a_backward_before_its_forward_is_named():
    forward = Compute("forward 0", produces=("activation 0",))
    backward = Compute("backward 0", reads=("activation 0",), frees=("activation 0",))
    assert sentences(Schedule([[forward, backward]], chunks=0)) == []
    assert sentences(Schedule([[backward, forward]], chunks=0)) == [
        "Rank 0 needs activation 0 in step 0 (backward 0), and does not hold it then."
    ]


def test_a_sum_that_lacks_a_part():
    once = Schedule(
        [[(Send(1, 0), Reduce(2, 0))], [(Send(2, 0), Reduce(0, 0))], [(Send(0, 0), Reduce(1, 0))]]
    )
    assert sentences(once, all_reduce=True) == [
        f"Rank {rank} ends with step 0, and chunk 0 lacks the part of rank {(rank + 1) % 3}."
        for rank in range(3)
    ]


def test_a_part_counted_twice():
    exchange = [[(Send(1 - rank, 0), Reduce(1 - rank, 0))] * 2 for rank in range(2)]
    assert sentences(Schedule(exchange), all_reduce=True) == [
        f"Rank {rank} counts rank 0's part of chunk 0 twice from step 1 on." for rank in range(2)
    ]


def test_budgets_name_the_first_step_over_them():
    size = 4 * 12
    within = Budget(size, steps=6, bytes_per_rank=72, bytes_in_all=288, memory_per_rank=60)
    assert violations(ring(4), budget=within) == ()
    over = {
        "steps": (5, "Rank 0 takes 6 steps, not at most 5: step 5 is the first over the budget."),
        "bytes_per_rank": (60, "Rank 0 sends 72 bytes, not at most 60: step 5 is the first over the budget."),
        "memory_per_rank": (
            59,
            "Rank 0 holds 60 bytes, not at most 59: step 0 is the first over the budget.",
        ),
        "bytes_in_all": (287, "Ranks 0 to 3 send 288 bytes in all, not at most 287, by the last step."),
    }
    for name, (limit, sentence) in over.items():
        assert sentences(ring(4), budget=Budget(size, **{name: limit}))[0] == sentence


def test_check_raises_what_violations_say():
    check(ring(4), all_reduce=True)
    with pytest.raises(LabError, match="Rank 0 sends chunk 0 to rank 1 in step 0"):
        check(Schedule([[Send(1, 0)], []]))


def test_a_faulty_algorithm_never_passes():
    """Leave any one operation out of a ring, and something is found."""
    whole = ring(3)
    for rank in range(3):
        for n, step in enumerate(whole.steps[rank]):
            for left_out in step:
                steps = [list(one) for one in whole.steps]
                steps[rank][n] = tuple(one for one in step if one is not left_out)
                assert violations(Schedule(steps, whole.chunks), all_reduce=True)
