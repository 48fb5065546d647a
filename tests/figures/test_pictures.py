"""Every figure looks as it did when somebody last looked at it.

After a change that is meant: `python -m tests.figures.pictures`, look at tests/figures/gallery, then
`python -m tests.figures.pictures --baseline`.
"""

from itertools import product

import pytest
from matplotlib.testing.compare import compare_images

from labkit.figures import timeline
from labkit.trace import Trace
from tests.conftest import in_tiers

from . import traces
from .pictures import HERE, PICTURES, RELEASE, WORLD_SIZES, release, write_small

pytestmark = pytest.mark.skipif(
    release() != RELEASE.read_text().strip(),
    reason=f"the baselines are matplotlib {RELEASE.read_text().strip()}'s, and here is {release()}",
)
BASELINE = HERE / "baseline"
TOLERANCE = 6
"""Root mean square over pixels of 0 to 255: room for another machine's rounding."""


EACH = in_tiers(product(PICTURES, WORLD_SIZES), len(PICTURES), len(PICTURES), "{}-{}".format)
"""Every figure at every world size; `make test` draws as many as there are figures."""


@pytest.mark.parametrize(("name", "world_size"), EACH)
def test_picture(name, world_size, tmp_path):
    found = tmp_path / f"{name}_{world_size}.png"
    write_small(PICTURES[name](world_size), found)
    assert compare_images(BASELINE / found.name, found, TOLERANCE) is None


def test_a_wrong_picture_is_found(tmp_path):
    """A tolerance that lets everything pass would compare nothing: here one of four ranks is missing."""
    trace = traces.straggler(4)
    events = tuple(event for event in trace.events if event.rank != 3)
    found = tmp_path / "wrong.png"
    write_small(timeline(Trace(4, events), "3 of 4 ranks wait 562 ms for rank 2 in all_reduce"), found)
    assert compare_images(BASELINE / "timeline_straggler_4.png", found, TOLERANCE) is not None


def test_baselines_are_small_and_all_used():
    files = {path.name: path.stat().st_size for path in BASELINE.glob("*.png") if "-failed" not in path.name}
    assert set(files) == {f"{name}_{n}.png" for name in PICTURES for n in WORLD_SIZES}
    assert max(files.values()) < 30_000
