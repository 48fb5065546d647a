"""The numbers in the matrix are the bytes that were sent; collectives are beside it."""

import numpy as np
import pytest

from labkit.figures import traffic
from labkit.trace import Trace

from . import traces
from .pictures import mixed


def matrix(axes):
    """Bytes by row and column, as the bars say, which are as long as the bytes are many."""
    found = np.zeros((len(axes.get_yticks()), len(axes.get_xticks())))
    wide = axes.get_xlim()[1] / found.shape[1]
    bars = {bar: float(bar.get_gid().removesuffix(" bytes")) for bar in axes.patches if bar.get_gid()}
    for bar, nbytes in bars.items():
        found[int(bar.get_y()), round(bar.get_x() / wide)] = nbytes
        assert bar.get_width() == pytest.approx(wide * nbytes / max(bars.values()))
    return found


@pytest.mark.parametrize("world_size", (2, 3, 16))
def test_every_byte_is_in_the_matrix(world_size):
    trace = traces.naive(world_size)
    found = matrix(traffic(trace).axes[0])
    assert found.shape == (world_size, world_size)
    assert found.sum(axis=1).tolist() == list(trace.bytes_sent)
    assert found[1:, 0].tolist() == [1_000_000] * (world_size - 1) and not found[1:, 1:].any()


def test_numbers_are_written_in_the_unit_of_the_panel():
    axes = traffic(traces.naive(4)).axes[0]
    assert {text.get_text() for text in axes.texts} == {"1"} and "MB" in axes.get_title(loc="left")


def test_collectives_have_a_panel_of_their_own():
    messages, collectives = traffic(mixed(4)).axes
    assert matrix(messages).sum() == 6_000_000
    assert [label.get_text() for label in collectives.get_xticklabels()] == ["all_reduce", "broadcast"]
    assert matrix(collectives).tolist() == [[12_000_000, 12_000_000]] * 4
    assert len(traffic(traces.straggler(4)).axes) == 1


@pytest.mark.parametrize(
    ("trace", "title"),
    [
        (traces.ring(4), "Every rank sends 8 bytes, to one other rank"),
        (traces.naive(4), "Every byte goes through rank 0: 6 MB"),
        (traces.naive(2), "Every rank sends 1 MB, 2 MB together"),
        (traces.pipeline(3), "Every byte goes through rank 1: 786 kB"),
        (traces.straggler(4), "No message: 48 MB went through all_reduce"),
        (Trace(4, ()), "No bytes were sent"),
    ],
)
def test_the_title_states_the_finding(trace, title):
    assert traffic(trace).get_suptitle() == title
