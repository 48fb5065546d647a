"""Tokens that each expert gets, and those it has no room for. Lesson 20."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from labkit.figures.colours import QUIET, rank_colour
from labkit.figures.style import figure, in_style

Load = tuple[Sequence[int], Sequence[int]]


@in_style
def expert_load(loads: Mapping[str, Load], room: float, title: str) -> Figure:
    """Draw a panel for each router, with a bar for each expert in its rank's colour. Returns a Figure.

    `loads`: {name: (tokens kept, tokens dropped) of each expert}; `room`: tokens that an expert takes.
    """
    made, panels = figure(title, width=7.0, height=3.2, columns=len(loads), sharey=True, squeeze=False)
    for axes, (name, (kept, dropped)) in zip(panels[0], loads.items(), strict=True):
        experts = range(len(kept))
        axes.bar(experts, kept, color=[rank_colour(e) for e in experts])
        look = {"color": "white", "edgecolor": QUIET, "hatch": "//", "linewidth": 0.5}
        axes.bar(experts, dropped, bottom=kept, label="dropped", **look)
        axes.axhline(room, color=QUIET, linestyle=":", label="room of an expert")
        axes.set(title=f"{name}: {sum(dropped) / sum((*kept, *dropped)):.0%} dropped", xlabel="expert")
        axes.set_xticks(experts)
    panels[0][0].set_ylabel("tokens")
    panels[0][0].set_ylim(top=1.35 * panels[0][0].get_ylim()[1])  # room for the legend
    panels[0][-1].legend(loc="upper right", fontsize=9)
    return made
