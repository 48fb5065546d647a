"""The colours of every figure, a meaning each, and what becomes of them where the page is dark.

The colour of a rank is the same on both pages and in everything that labkit draws. So it must stand out from
white and from black, which leaves a narrow band of lightness; the eight were searched in it, as those that
colour-blind readers tell apart best. tests/figures/test_style.py measures what is claimed here. From rank 8
on they come again: what names a rank is its number.

Greys turn: what is black on white is white on black. Pale grey is for waiting, and for nothing else.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import to_rgb, to_rgba_array
from matplotlib.typing import ColorType

RANK_COLOURS = ("#3296EC", "#DB750C", "#1B723E", "#825787", "#5862AF", "#9E4D07", "#B48B49", "#B114FA")
WAIT = "#E2E2E2"
RIM = "#8A8A8A"
"""The edge of what is too pale to be seen alone: 3 to 1 on either page."""
QUIET = "#595959"
"""The grey of text that may be overlooked; still 4.5 to 1 on `WAIT`."""
GREYS = ("#000000", "#454545", "#707070", "#8A8A8A")
"""For curves and parts that are no rank's: colours are the ranks'."""
COMMUNICATION_ALPHA = 0.5
PAGE, DARK_PAGE = "#FFFFFF", "#111111"
"""What lies behind a figure: JupyterLab's own, in its light theme and in its dark one."""
_TURNED = {0x00: 0xEC, 0x59: 0xB0, 0x8A: 0x85, 0xE2: 0x3D, 0xFF: 0x11}
"""Greys on the light page, and what they are on the dark one; those between them lie between."""
_INKS = "#000001", "#FFFFFE"
"""Black and white that do not turn, on what does not turn either: a hair's breadth from grey."""


def rank_colour(rank: int) -> str:
    """The colour of a rank in every figure of the course: rank 0 is blue, rank 1 orange."""
    return RANK_COLOURS[rank % len(RANK_COLOURS)]


def half_opaque(colour: ColorType, page: ColorType = PAGE) -> tuple[float, float, float]:
    """The colour as it looks half-opaque on the page. Laid over another bar it does not mix with it."""
    parts = zip(to_rgb(colour), to_rgb(page), strict=True)
    red, green, blue = (COMMUNICATION_ALPHA * c + (1 - COMMUNICATION_ALPHA) * p for c, p in parts)
    return red, green, blue


def in_the_dark(colours: ColorType | Sequence[ColorType]) -> np.ndarray:
    """What is drawn on a dark page in place of a colour, or of each of several: a row of RGBA each."""
    found = to_rgba_array(colours)
    is_grey = np.ptp(found[:, :3], axis=1) < 0.002
    greys, turned = np.array([*_TURNED]), np.array([*_TURNED.values()])
    found[is_grey, :3] = np.interp(found[is_grey, :1] * 255, greys, turned) / 255
    for colour in RANK_COLOURS:
        is_half = np.abs(found[:, :3] - half_opaque(colour)).max(axis=1) < 0.002
        found[is_half, :3] = half_opaque(colour, DARK_PAGE)
    return found


def ink(background: ColorType) -> str:
    """Black or white: what is easiest to read on that colour, on either page."""

    def worst(one: str) -> float:
        on_dark = contrast(*(in_the_dark(each)[0] for each in (one, background)))
        return min(contrast(one, background), on_dark)

    return max(("black", "white", *_INKS), key=worst)


def contrast(one: ColorType, other: ColorType) -> float:
    """Contrast ratio of two colours, 1 to 21, as WCAG 2.1 defines it; text needs 4.5, a mark 3."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: ColorType) -> float:
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear_rgb(colour), strict=True))


def linear_rgb(colour: ColorType) -> tuple[float, ...]:
    """Red, green and blue as amounts of light, 0 to 1: sRGB without its curve."""
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour))
