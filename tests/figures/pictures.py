"""Every figure that is drawn from a trace or from states: what is compared, and what the gallery shows.

python -m tests.figures.pictures             draws all of them at 2, 4 and 16 ranks into tests/figures/gallery
python -m tests.figures.pictures --baseline  draws them anew, small, as what the tests compare with
"""

import math
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image

from labkit.algorithms import gpipe, one_forward_one_backward
from labkit.figures import animation, curves, data_state, idle, step_time, steps, tiles, timeline, traffic
from labkit.figures.lessons.pipeline import pipeline
from labkit.figures.lessons.staleness import staleness
from labkit.figures.lessons.throughput import throughput
from labkit.figures.lessons.timelines import timelines
from labkit.schedule import pipeline_schedule
from labkit.simulate import ETHERNET_1G, simulate
from labkit.simulate.arrivals import asynchronous
from labkit.trace import Trace

from . import states, traces

HERE = Path(__file__).parent
RELEASE = HERE / "baseline" / "matplotlib.txt"
"""The release that drew the baselines; from one to the next letters change, and with them all places."""
WORLD_SIZES = (2, 4, 16)
SMALL, TALLEST = 45, 480  # dots per inch of what is compared, and dots at most


def release():
    return ".".join(matplotlib.__version__.split(".")[:2])


def runs(count):
    """Curves of as many runs, each a little worse than the one before."""
    found = {}
    for run in range(count):
        losses = [2.3 * math.exp(-step / (60 + 9 * run)) + 0.02 + 0.002 * run for step in range(200)]
        accuracies = [0.98 - 0.6 * math.exp(-epoch / (2 + 0.2 * run)) for epoch in range(10)]
        found[f"{run + 1} ranks" if run else "one process"] = (losses, accuracies)
    return found


def mixed(world_size):
    """Messages and two kinds of collectives in one trace."""
    sums = traces.straggler(world_size).events
    spread = tuple(replace(event, verb="broadcast") for event in sums if event.verb == "all_reduce")
    return Trace(world_size, traces.naive(world_size).events + sums + spread)


def serving(world_size):
    """Seconds of a step by the number of workers, by 1, 2, ... servers and by an all-reduce."""
    workers = [2**k for k in range(world_size.bit_length())]
    found = {f"servers: {s}": [0.2 + 0.1 * max(1, w / s) for w in workers] for s in workers}
    return workers, {"all-reduce": [0.3] * len(workers)} | found


def served_by(workers):
    """(worker, staleness) of 2,000 updates by like workers, and with a last one five times as slow."""

    def history(slow):
        random = np.random.default_rng(0)
        times = {worker: slow if worker == workers else 1 for worker in range(1, workers + 1)}
        arrivals = asynchronous(workers, 2000, lambda worker: times[worker] * random.normal(1, 0.1))
        return [(arrival.worker, arrival.staleness) for arrival in arrivals]

    return {"like": history(1), "unlike": history(5)}


def frame(world_size):
    """The middle frame of an animation."""
    found = states.ring(world_size)
    return animation(found, "Ring all-reduce, step by step").frame(len(found) // 2)


def pipelines(world_size):
    """GPipe and 1F1B with passes of 10 and 20 ms, between them messages that take 2 ms."""
    makes = {"GPipe": gpipe, "1F1B": one_forward_one_backward}
    slots = {name: make(world_size, world_size + 4) for name, make in makes.items()}
    return {
        name: simulate(pipeline_schedule(own, 0.01, 0.02), ETHERNET_1G, 250_000)
        for name, own in slots.items()
    }


PICTURES = {
    **{f"timeline_{name}": (lambda n, make=make: timeline(make(n))) for name, make in traces.TRACES.items()},
    "traffic": lambda n: traffic(mixed(n)),
    "data_state": lambda n: data_state(
        *states.collectives(n), "Who holds what before and after a collective"
    ),
    "steps": lambda n: steps(states.ring(n), "A ring all-reduce sends one chunk per rank and step"),
    "animation": frame,
    "curves": lambda n: curves(runs(n)),
    "timelines": lambda n: timelines(
        {"in step": traces.straggler(n), "on arrival": traces.served(n)}, "Two runs on one axis of time"
    ),
    "throughput": lambda n: throughput(
        *serving(n), serving(n)[1], "One server ends at 10 mini-batches per second"
    ),
    "pipeline": lambda n: pipeline(pipelines(n)),
    "staleness": lambda n: staleness(served_by(n)),
    "idle": lambda n: idle(traces.layers(n)),
    "tiles": lambda n: tiles(states.products(n), "A split by rows makes sums; one by columns does not"),
    "step_time": lambda n: step_time(traces.ddp(n), steps=2),
    "step_time_of_runs": lambda n: step_time(
        {f"{k} ranks": traces.straggler(k) for k in range(2, n + 2)}, steps=3
    ),
}


def write_small(made, path: Path):
    """The picture with few dots and few colours: a baseline is kept for ever."""
    file = BytesIO()
    made.savefig(file, format="png", dpi=min(SMALL, TALLEST / made.get_figheight()))
    Image.open(file).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)


def main(folder: Path, write):
    matplotlib.use("Agg")
    folder.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        for world_size in WORLD_SIZES:
            write(draw(world_size), folder / f"{name}_{world_size}.png")
    print(f"{len(PICTURES) * len(WORLD_SIZES)} pictures in tests/figures/{folder.name}")


if __name__ == "__main__":
    if "--baseline" in sys.argv:
        main(HERE / "baseline", write_small)
        RELEASE.write_text(release() + "\n")
    else:
        main(HERE / "gallery", lambda made, path: made.savefig(path))
