"""The page of figures: each kind that labkit draws, at 2, 4 and 16 ranks."""

from pathlib import Path

import matplotlib.pyplot as plt

from labkit.figures.style import description
from tests.figures.pictures import PICTURES, WORLD_SIZES

ABOVE = """# Figures

What `labkit.figures` draws, at 2, 4 and 16 ranks. Here it draws made-up traces, those that the tests compare
with stored pictures; in a lesson, the trace of your own cell."""


def page(folder: Path) -> str:
    """Markdown with all figures, which are drawn into the folder beside it."""
    plt.switch_backend("Agg")
    folder.mkdir()
    parts = [ABOVE]
    for name, draw in PICTURES.items():
        parts.append("## " + name.replace("_", " ").capitalize())
        for world_size in WORLD_SIZES:
            made, file = draw(world_size), f"{name}_{world_size}.png"
            made.savefig(folder / file, dpi=90)
            parts.append(f"![{description(made)}]({folder.name}/{file})")
            plt.close(made)
    return "\n\n".join(parts) + "\n"
