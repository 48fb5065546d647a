"""Cells hold the values and colours of their owners, arrows go where the messages went, and it moves."""

import base64
from io import BytesIO
from itertools import chain

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from labkit.figures import animation, data_state, steps
from labkit.figures.colours import half_opaque, rank_colour

from . import states

MESSAGE = "messages"


def numbers(made):
    return [text.get_text() for text in made.axes[0].texts]


@pytest.mark.parametrize("world_size", (2, 4))
def test_every_value_of_every_step_is_drawn(world_size):
    found = states.ring(world_size)
    drawn = numbers(steps(found, "Ring"))
    values = [f"{cell.value:g}" for state in found for row in state.cells for cell in row]
    ranks = [str(rank) for _ in found for rank in range(world_size)]
    assert sorted(drawn) == sorted(values + ranks + [state.name for state in found])


def test_sixteen_ranks_have_colours_but_no_numbers():
    made = steps(states.ring(16), "Ring")
    assert not any(number.isdigit() and int(number) > 15 for number in numbers(made))
    assert made.get_figwidth() == pytest.approx(9, abs=0.2)


@pytest.mark.parametrize("world_size", (2, 4, 16))
def test_an_arrow_per_message(world_size):
    found = states.ring(world_size)
    arrows = [a for a in steps(found, "Ring").axes[0].collections if hasattr(a, "U")]
    assert [len(a.U) for a in arrows] == [world_size] * 2 * (world_size - 1)
    moved = np.sign([m.to - m.source for m in chain(*(state.messages for state in found))])
    assert (np.sign(np.concatenate([a.V for a in arrows])) == moved).all()


def test_a_cell_has_a_stripe_for_each_owner():
    made = data_state([("sum", [[1], [2]], [[3], [3]])], lambda n: [0, 1] if n == 3 else [n - 1], "Sum")
    stripes = [c for c in made.axes[0].collections if len(c.get_facecolor()) and c.get_linewidth()[0] == 0]
    colours = [tuple(colour[:3]) for colour in np.concatenate([c.get_facecolor() for c in stripes])]
    blue, orange = (to_rgb(rank_colour(rank)) for rank in (0, 1))
    stripe_and_foot = [half_opaque(blue), blue, half_opaque(orange), orange]
    assert np.allclose(colours, 3 * stripe_and_foot)
    widths = [path.get_extents().width for c in stripes for path in c.get_paths()]
    assert widths == pytest.approx([1] * 4 + [0.5] * 8)


def test_a_state_may_have_any_number_of_steps():
    made = data_state([("ring", [[1]], [[2]], [[3]], [[4]])], lambda n: [0], "Ring")
    assert sorted(numbers(made)) == ["", "", "", "0", "1", "2", "3", "4", "ring"], "three arrows"


@pytest.mark.parametrize("world_size", (2, 4, 16))
def test_panels_do_not_reach_out_of_the_figure(world_size):
    made = data_state(*states.collectives(world_size), "All")
    made.draw_without_rendering()
    assert all(made.bbox.padded(1).contains(*t.get_window_extent().max) for t in made.axes[0].texts)


@pytest.mark.parametrize("world_size", (2, 4))
def test_the_animation_plays_without_a_script_and_is_small(world_size):
    found = states.ring(world_size)
    told, about = animation(found, "Ring")._repr_mimebundle_()
    assert set(told) == {"image/png", "text/plain"}, "what an untrusted notebook shows too"
    picture = Image.open(BytesIO(base64.b64decode(told["image/png"])))
    assert picture.is_animated and picture.n_frames == len(found) and picture.info["loop"] == 0
    assert len(told["image/png"]) < 60_000
    assert about["image/png"]["alt"] == told["text/plain"] and "Ring" in told["text/plain"]
