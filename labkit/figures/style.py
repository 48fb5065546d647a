"""The one style of every figure: a colour per rank that never changes, grey for waiting.

The rank colours are Okabe and Ito's palette, made to be told apart by colour-blind readers
(https://jfly.uni-koeln.de/color/).
"""

import matplotlib.pyplot as plt

RANK_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
WAIT = "#D9D9D9"
COMMUNICATION_ALPHA = 0.5
_STYLE = {
    "figure.dpi": 96,
    "savefig.dpi": 96,
    "figure.facecolor": "white",
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def rank_colour(rank: int) -> str:
    """The colour of a rank in every figure of the course: rank 0 is blue, rank 1 orange."""
    return RANK_COLOURS[rank % len(RANK_COLOURS)]


def figure(title: str, *, width: float = 7.0, height: float = 3.0, rows: int = 1, columns: int = 1):
    """A figure and its axes in the course's style; the title states the finding. Sizes in inches."""
    with plt.rc_context(_STYLE):
        made, axes = plt.subplots(rows, columns, figsize=(width, height), layout="constrained")
        made.suptitle(title, x=0.01, ha="left", fontsize=12)
    plt.close(made)  # or a notebook would show it twice: as the cell's value and as an open figure
    return made, axes
