"""What labkit shows in JupyterLab has the contrast of WCAG AA, in text and marks, in both of its themes."""

import re
from pathlib import Path

import pytest
from jupyterlab.commands import get_app_dir
from matplotlib.colors import to_rgb

from labkit.commands.page import HERE
from labkit.figures.colours import DARK_PAGE, PAGE, RANK_COLOURS, contrast
from labkit.lab.display import rich, tabs, widget

THEMES = Path(get_app_dir(), "themes", "@jupyterlab")
TILES = (Path(widget.__file__).parent / "tiles.css").read_text()
STEPS = (Path(widget.__file__).parent / "steps.css").read_text()
PAGE_JS = (HERE / "labextensions" / "labkit" / "static" / "labkit.js").read_text()


def colours(theme):
    """What JupyterLab's variables stand for in a theme, as #rrggbb."""
    css = "".join(path.read_text() for path in sorted((THEMES / f"theme-{theme}-extension").rglob("*.css")))
    given = dict(re.findall(r"(--[\w-]+):\s*([^;}]+)", css))

    def resolved(value):
        inner = re.fullmatch(r"var\((--[\w-]+)(?:, *(.+))?\)", value.strip())
        if inner is None:
            return value.strip()
        return resolved(given[inner[1]] if inner[1] in given else inner[2])

    return {name: resolved(value) for name, value in given.items()}


def seen(colour, background):
    """A colour that lets some of its background through, as a matplotlib colour."""
    if not colour.startswith("rgba"):
        return colour
    *own, alpha = map(float, re.findall(r"[\d.]+", colour))
    return tuple(alpha * o / 255 + (1 - alpha) * b for o, b in zip(own, to_rgb(background), strict=True))


def used(css, what):
    return set(re.findall(rf"[;{{ \n]{what}:\s*[^;]*?var\((--jp-[\w-]+)", css))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("css", [TILES, tabs._STYLE, PAGE_JS], ids=["tiles", "tabs", "page"])
def test_text_can_be_read(css, theme):
    found = colours(theme)
    backgrounds = used(css, "background") | {"--jp-layout-color1"}
    for text in used(css, "color"):
        for background in backgrounds:
            ratio = contrast(seen(found[text], found[background]), found[background])
            assert ratio >= 4.5, f"{text} on {background}: {ratio:.1f}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_marked_by_a_line_can_be_seen(theme):
    """On what lies behind a cell's output, which is also the page on which figures are drawn."""
    found = colours(theme)
    page = found["--jp-layout-color0"]
    assert contrast(page, {"light": PAGE, "dark": DARK_PAGE}[theme]) == 1
    marks = set().union(
        *(used(css, "(?:border[a-z-]*|stroke|outline)") for css in (STEPS, tabs._STYLE, PAGE_JS))
    )
    marks |= {"--jp-error-color0", *used(f"; {rich._STDERR}", "border-left")}
    assert len(marks) >= 4
    for mark in marks:
        assert contrast(seen(found[mark], page), page) >= 3, mark
    for colour in RANK_COLOURS:
        assert contrast(colour, page) >= 3, "the upper edge of a tile, a step of a cell"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_a_rank_wrote_to_stderr_can_be_read(theme):
    found = colours(theme)
    behind = seen(found["--jp-rendermime-error-background"], found["--jp-layout-color0"])
    assert contrast(seen(found["--jp-content-font-color1"], found["--jp-layout-color0"]), behind) >= 4.5
