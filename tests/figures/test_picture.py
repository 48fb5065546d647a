"""A figure on a light page and on a dark one: one PNG, two lists of colours, text and marks seen on both."""

import base64
import struct
import zlib
from collections import Counter
from io import BytesIO
from itertools import product

import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba_array
from matplotlib.text import Text
from PIL import Image

from labkit.figures import animation, timeline
from labkit.figures.colours import DARK_PAGE, PAGE, contrast, half_opaque, in_the_dark, rank_colour
from labkit.figures.timeline import EDGED
from tests.conftest import in_tiers

from . import states, traces
from .pictures import PICTURES, WORLD_SIZES

SHOWN = 0.1
"""Of what lies behind a text: what has less of it, as a line that crosses it, hides no letter."""


def pages(made):
    """The pixels of a figure on a light page and on a dark one, as a notebook is given them."""
    told, about = made._repr_mimebundle_()
    light, chunk = base64.b64decode(told["image/png"]), base64.b64decode(about["image/png"]["dark"])
    at = light.index(b"PLTE") - 4
    dark = light[:at] + chunk + light[at + len(chunk) :]
    return [np.asarray(Image.open(BytesIO(png)).convert("RGB")) for png in (light, dark)]


def share(pixels, colour):
    """How much of a picture has that colour, or one that nobody could tell from it."""
    return (np.abs(pixels - 255 * np.array(to_rgb(colour))).max(axis=2) <= 4).mean()


EACH = in_tiers(product(PICTURES, WORLD_SIZES), len(PICTURES), len(PICTURES), "{}-{}".format)


def test_the_pages_are_jupyterlabs_and_a_rank_has_its_colour_on_both():
    for pixels, page in zip(pages(timeline(traces.ddp(4))), (PAGE, DARK_PAGE), strict=True):
        assert share(pixels[[0, 0, -1, -1], [0, -1, 0, -1]][None], page) == 1
        for rank in range(4):
            assert share(pixels, rank_colour(rank)) > 0.01
            assert share(pixels, half_opaque(rank_colour(rank), page)) > 0.005


def test_the_list_for_a_dark_page_fits_in_place_of_the_other():
    told, about = timeline(traces.ddp(2))._repr_mimebundle_()
    light, chunk = base64.b64decode(told["image/png"]), base64.b64decode(about["image/png"]["dark"])
    length, kind, data = struct.unpack(">I", chunk[:4])[0], chunk[4:8], chunk[8:-4]
    assert kind == b"PLTE" and len(data) == length
    assert struct.unpack(">I", chunk[-4:])[0] == zlib.crc32(kind + data)
    at = light.index(b"PLTE") - 4
    assert light.count(b"PLTE") == 1 and light[at : at + 4] == chunk[:4]
    assert len(about["image/png"]["dark"]) < 1100, "beside each stored picture"


def test_all_steps_of_an_animation_share_the_two_lists():
    made = animation(states.ring(4), "A ring")
    told, about = made._repr_mimebundle_()
    light, chunk = base64.b64decode(told["image/png"]), base64.b64decode(about["image/png"]["dark"])
    at = light.index(b"PLTE") - 4
    dark = Image.open(BytesIO(light[:at] + chunk + light[at + len(chunk) :]))
    assert dark.n_frames == len(made.states) and light.count(b"PLTE") == 1
    for number in range(dark.n_frames):
        dark.seek(number)
        pixels = np.asarray(dark.convert("RGB"))
        assert share(pixels, DARK_PAGE) > 0.3 and share(pixels, half_opaque(rank_colour(3), DARK_PAGE)) > 0.01


@pytest.mark.parametrize(("name", "world_size"), EACH)
def test_every_text_can_be_read_on_both_pages(name, world_size):
    made = PICTURES[name](world_size)
    made.draw_without_rendering()
    words = [text for text in made.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = [text.get_window_extent() for text in words]
    inks = [to_rgb(text.get_color()) for text in words]
    halos = [text.get_path_effects() for text in words]
    for text in words:
        text.set(alpha=0, path_effects=[])
    sheet = BytesIO()
    made.savefig(sheet, format="png", dpi=made.dpi)
    pixels = np.asarray(Image.open(sheet).convert("RGB"))
    for text, box, colour, halo in zip(words, boxes, inks, halos, strict=True):
        top, bottom = (int(np.clip(made.bbox.height - y, 0, len(pixels))) for y in (box.y1, box.y0))
        left, right = (int(np.clip(x, 0, pixels.shape[1])) for x in (box.x0, box.x1))
        behind = pixels[top : bottom + 1, left : right + 1].reshape(-1, 3)
        found = Counter(map(tuple, behind.tolist()))
        seen = [np.array(c) / 255 for c, n in found.items() if n > SHOWN * len(behind)] or [to_rgb(PAGE)]
        if halo:
            seen = [to_rgb(halo[0]._gc["foreground"])]
        for one in seen:
            assert contrast(colour, one) >= 4.5, (text.get_text(), colour, one)
            dark = in_the_dark(colour)[0], in_the_dark(one)[0]
            assert contrast(*dark) >= 4.5, (text.get_text(), colour, one, "in the dark")


@pytest.mark.parametrize(("name", "world_size"), EACH)
def test_every_mark_can_be_seen_on_both_pages(name, world_size):
    """By its fill or its edge, or by what is drawn with it: the foot of a cell, the cell of a grid."""
    made = PICTURES[name](world_size)
    made.draw_without_rendering()
    for artist in made.findobj(lambda one: hasattr(one, "get_hatch")):
        if is_thin(artist) or not artist.get_visible():
            continue
        has_edge = np.max(artist.get_linewidth(), initial=0) > 0 or artist.get_hatch()
        drawn_in = [artist.get_facecolor(), *([artist.get_edgecolor()] if has_edge else [])]
        colours = [one for each in drawn_in for one in to_rgba_array(each)]
        colours = [one for one in colours if one[3] and contrast(one, PAGE) > 1.01]
        for on, page in ((to_rgb, PAGE), (lambda c: to_rgb(in_the_dark(c)[0]), DARK_PAGE)):
            if colours:
                assert max(contrast(on(colour), page) for colour in colours) >= 3, (artist, artist.get_gid())


def is_thin(artist):
    """Bars of a timeline that would be all edge."""
    if not (artist.get_gid() or "").startswith("rank"):
        return False
    wide = [path.get_extents(artist.get_transform()).width for path in artist.get_paths()]
    return bool(wide) and max(wide) <= EDGED + 1


def test_a_pale_mark_without_an_edge_is_found():
    made = timeline(traces.straggler(4))
    for bars in made.axes[0].collections:
        bars.set_linewidth(0)
    PICTURES["wrong"] = lambda _: made
    try:
        with pytest.raises(AssertionError):
            test_every_mark_can_be_seen_on_both_pages("wrong", 4)
    finally:
        del PICTURES["wrong"]
