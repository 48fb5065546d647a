"""A figure as one PNG for a light page and a dark one: pixels that name a colour, and two lists of colours.

The file has the list for a light page. What stands in its place on a dark one goes beside it, a kilobyte,
and `labkit lab` puts it there (commands/page/). Where nothing does, the picture is a white sheet, legible
anywhere.
"""

import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.backend_bases import GraphicsContextBase
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from PIL import Image

from labkit.figures.colours import in_the_dark

MOST = 256
"""Colours of a PNG that has a list of them."""
BITS = 5
"""Of red, green and blue each, by which two colours are told apart while the most frequent are sought."""


def picture(frames: Sequence[Figure], moving: dict[str, Any] | None = None, **how: Any) -> tuple[bytes, str]:
    """(PNG, its colours on a dark page) of a figure, or of several as one that moves.

    The colours are a chunk PLTE of the same length as the PNG's, in base64. `moving` is how fast, in
    Pillow's words; `how` is for `savefig`.
    """
    for frame in frames:
        frame.draw_without_rendering()
    canvases = FigureCanvasAgg, _DarkCanvas
    pages = [np.stack([_drawn(frame, canvas, how) for frame in frames]) for canvas in canvases]
    named, colours = _listed(np.concatenate(pages, axis=-1))
    images = [Image.fromarray(pixels) for pixels in named]
    for image in images:
        image.putpalette(colours[:, :3].tobytes())
    more = {"save_all": True, "append_images": images[1:], **moving} if moving else {}
    file = BytesIO()
    images[0].save(file, "png", optimize=True, **more)
    return file.getvalue(), b64encode(_chunk(b"PLTE", colours[:, 3:].tobytes())).decode()


def _drawn(figure: Figure, canvas: type[FigureCanvasAgg], how: dict[str, Any]) -> np.ndarray:
    """Rows of pixels: red, green and blue, 0 to 255."""
    before, layout, file = figure.canvas, figure.get_layout_engine(), BytesIO()
    canvas(figure)  # which makes it the figure's
    figure.set_layout_engine("none")  # laid out once more, it would be off by a pixel
    try:
        figure.savefig(file, format="png", **how)
    finally:
        figure.set_canvas(before)
        figure.set_layout_engine(layout)
    return np.asarray(Image.open(file).convert("RGB"))


def _listed(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each pixel the number of its colours, and their list: on the one page, and on the other.

    The most frequent ones are in it; any other pixel has those that are nearest on both pages.
    """
    each = pixels.reshape(-1, 6)
    keys = ((each >> (8 - BITS)).astype(np.int64) << (BITS * np.arange(6))).sum(axis=1)
    _, first, which, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    found = each[first].astype(int)  # of colours that are nearly the same, any
    often = np.sort(np.argsort(-count, kind="stable")[:MOST])
    nearest = np.abs(found[:, None] - found[often]).sum(axis=2).argmin(axis=1).astype(np.uint8)
    return nearest[which].reshape(pixels.shape[:-1]), found[often].astype(np.uint8)


def _chunk(kind: bytes, data: bytes) -> bytes:
    """A part of a PNG: its length, kind, content, and what proves that it is whole."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class _DarkCanvas(FigureCanvasAgg):
    """What draws a figure in the colours of a dark page, whichever it was given."""

    def get_renderer(self) -> RendererAgg:
        return _DarkRenderer(*self.get_width_height(physical=True), self.figure.dpi)


class _DarkRenderer(RendererAgg):
    def __init__(self, width: float, height: float, dpi: float) -> None:
        super().__init__(width, height, dpi)
        colours_at = {"draw_markers": (5,), "draw_path_collection": (6, 7), "draw_quad_mesh": (7, 9)}
        for name, places in colours_at.items():  # of each renderer, these are Agg's own
            setattr(self, name, _turning(getattr(self, name), *places))

    def new_gc(self) -> GraphicsContextBase:
        return _DarkContext()

    def draw_path(self, gc: Any, path: Any, transform: Any, rgbFace: Any = None) -> None:
        super().draw_path(gc, path, transform, _turned(rgbFace))


class _DarkContext(GraphicsContextBase):
    """Of lines, text and hatches."""

    _rgb: Any

    def set_foreground(self, fg: Any, isRGBA: bool = False) -> None:
        super().set_foreground(_turned(fg), isRGBA=True)
        self._rgb = _Turned(self._rgb)

    def set_hatch_color(self, hatch_color: Any) -> None:
        super().set_hatch_color(_turned(hatch_color))


class _Turned(tuple):
    """A colour of the dark page. It may come again: text is drawn as paths of the colour that is set."""


def _turning(draw: Callable, *places: int) -> Callable:
    """That method, with the colours among its arguments turned."""

    def drawn(*given: Any, **named: Any) -> None:
        turned = (_turned(value) if place in places else value for place, value in enumerate(given))
        draw(*turned, **{name: _turned(v) if name == "hatchcolors" else v for name, v in named.items()})

    return drawn


def _turned(colours: Any) -> Any:
    if colours is None or isinstance(colours, _Turned) or len(colours) == 0:
        return colours
    turned = in_the_dark(colours)
    return turned if np.ndim(colours) == 2 else _Turned(turned[0])
