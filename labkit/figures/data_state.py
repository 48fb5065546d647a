"""Which rank holds what before and after each collective. First drawn in lesson 02."""

from matplotlib.patches import Rectangle

from labkit.figures.style import COMMUNICATION_ALPHA, figure, rank_colour


def data_state(panels, owners, title):
    """Draw a panel per collective: each rank's cells before it and after it.

    `panels` is a list of (name, before, after); before and after hold a list of numbers per rank,
    an empty one where a rank holds nothing that counts. `owners(number)` gives the ranks whose
    data are in a number: they colour its cell. Returns a Figure.
    """
    columns = (len(panels) + 1) // 2
    made, grid = figure(title, width=8.6, height=3.1, rows=2, columns=columns)
    for axes in grid.flat:
        axes.axis("off")
    for axes, (name, before, after) in zip(grid.flat, panels, strict=False):
        width = max(len(cells) for cells in before + after)
        for rank, (held, left) in enumerate(zip(before, after, strict=True)):
            _row(axes, 0, rank, held, owners)
            _row(axes, width + 1, rank, left, owners)
            axes.text(-0.25, rank + 0.5, str(rank), ha="right", va="center", fontsize=9)
        axes.annotate(
            "",
            (width + 0.85, len(before) / 2),
            (width + 0.15, len(before) / 2),
            arrowprops={"arrowstyle": "->"},
        )
        axes.set_title(name, loc="center", fontsize=11)
        axes.set(xlim=(-0.8, 2 * width + 1.1), ylim=(len(before) + 0.1, -0.1), aspect="equal")
    return made


def _row(axes, left, rank, numbers, owners):
    for column, number in enumerate(numbers):
        given = owners(number)
        for part, owner in enumerate(given):
            slot = (left + column + part / len(given), rank)
            colour = {"facecolor": rank_colour(owner), "alpha": COMMUNICATION_ALPHA}
            axes.add_patch(Rectangle(slot, 1 / len(given), 1, linewidth=0, **colour))
        axes.add_patch(Rectangle((left + column, rank), 1, 1, fill=False, edgecolor="white", linewidth=2))
        axes.text(left + column + 0.5, rank + 0.5, f"{number:g}", ha="center", va="center", fontsize=10)
