"""One panel per collective: seconds per call against size, one line per contender."""

from pathlib import Path

from tests.bench.report import Row

COLOURS = {"gloo": "#d95f02", "raw": "#8a8a8a", "mpi": "#1f77b4", "checked": "#1f77b4"}
LABELS = {"gloo": "gloo", "raw": "raw blocking mpi4py", "mpi": "mpi", "checked": "mpi, checked"}


def finding(rows: list[Row], ranks: int) -> str:
    """The title: what the picture shows, computed from it."""
    ratios = [row.ratio("gloo", "mpi") for row in rows if row.verb == "all_reduce"]
    if not ratios:
        return f"Time of collectives at {ranks} ranks"
    return f"mpi is {min(ratios):.1f} to {max(ratios):.1f} times as fast as gloo: all_reduce, {ranks} ranks"


def draw(rows: list[Row], ranks: int, path: Path) -> None:
    """Write the figure; the format follows the name."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    verbs = list(dict.fromkeys(row.verb for row in rows if row.bytes and row.verb != "barrier"))
    columns = min(3, len(verbs))
    lines = -(-len(verbs) // columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(max(3.6 * columns, 7.2), 2.7 * lines + 0.6),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for axis in axes.flat[len(verbs) :]:
        axis.set_visible(False)
    for verb, axis in zip(verbs, axes.flat, strict=False):
        of_verb = [row for row in rows if row.verb == verb]
        sizes = [row.bytes for row in of_verb]
        for name, colour in COLOURS.items():
            style = {"linestyle": "--", "alpha": 0.6} if name == "checked" else {}
            times = [row.typical(name) for row in of_verb]
            axis.loglog(sizes, times, marker="o", markersize=3, color=colour, label=LABELS[name], **style)
        axis.set_title(verb, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("seconds per call")
    for axis in axes[-1]:
        axis.set_xlabel("size of the tensor (bytes)")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False)
    figure.suptitle(finding(rows, ranks))
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)
