"""What each rank holds after each step, as whose parts and as values; and memory."""

import numpy as np
import pytest
import torch

from labkit import LabError
from labkit.algorithms import naive, ring, tree
from labkit.schedule import Compute, Recv, Schedule, Send, boundary, peak_memory, states


def test_the_sum_grows_along_the_ring():
    after = states(ring(3))
    assert [held[0] for held in after[0]] == [(0,), (1,), (2,)]
    assert [held[0] for held in after[1]] == [(0,), (0, 1), (2,)]
    assert [held[0] for held in after[2]] == [(0,), (0, 1), (0, 1, 2)]
    assert all(held == dict.fromkeys(range(3), (0, 1, 2)) for held in after[-1])


def test_values_follow_the_parts():
    tensors = [np.array([10.0, 20.0]), np.array([1.0, 2.0])]
    held = [[memory[0].tolist() for memory in step] for step in states(tree(2), tensors)]
    assert held == [[[10, 20], [1, 2]], [[11, 22], [1, 2]], [[11, 22], [11, 22]]]
    assert tensors[0].tolist() == [10, 20]


def test_a_rank_that_has_ended_keeps_what_it_holds():
    after = states(Schedule([[Send(1, 0)], [Recv(0, 0), (), ()]]))
    assert [held[0][0] for held in after] == [(0,)] * 4


def test_a_schedule_that_gets_stuck_has_no_states():
    with pytest.raises(LabError, match="rank 0 never ends its step 0"):
        states(Schedule([[Send(1, 0)], [Send(0, 0)]]))


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 10_007])
@pytest.mark.parametrize("chunks", [1, 3, 4])
def test_chunks_are_cut_as_torch_cuts_them(length, chunks):
    lengths = [len(part) for part in torch.arange(length).tensor_split(chunks)]
    edges = [boundary(length, chunks, index) for index in range(chunks + 1)]
    assert np.diff(edges).tolist() == lengths
    assert boundary(length, chunks, np.arange(chunks + 1)).tolist() == edges


def test_memory_counts_the_tensor_what_arrives_and_buffers():
    size = 4 * 12
    assert peak_memory(ring(4), size) == (size + size // 4,) * 4  # one chunk that is not added yet
    assert peak_memory(tree(2), size) == (2 * size, size)
    assert peak_memory(naive(3), size) == (3 * size,) * 3  # and "total"


def test_activations_held_by_gpipe_and_by_1f1b():
    """One stage of a pipeline, four micro-batches: all forwards first holds four, in turn holds one."""
    forward = [Compute(f"F{n}", produces=(f"a{n}",)) for n in range(4)]
    backward = [Compute(f"B{n}", reads=(f"a{n}",), frees=(f"a{n}",)) for n in range(4)]
    gpipe = Schedule([forward + backward], chunks=0)
    in_turn = Schedule([[op for pair in zip(forward, backward, strict=True) for op in pair]], chunks=0)
    assert (peak_memory(gpipe, 100), peak_memory(in_turn, 100)) == ((400,), (100,))
    halves = Schedule([forward + backward], chunks=0, sizes=tuple((f"a{n}", 0.5) for n in range(4)))
    assert peak_memory(halves, 100 * 4) == (800,)
