"""Draw the timeline that the README shows, from a real run of the cell that it shows.

python .ci/site/picture.py
"""

import re
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

import labkit

HERE = Path(__file__).parent
README = (HERE.parents[1] / "README.md").read_text()


def main() -> None:
    options, cell = re.search(r"```python\n%%px( --trace)\n(.*?)```", README, re.DOTALL).groups()
    shell = InteractiveShell.instance()
    lab = labkit.start(4)
    try:
        shell.run_cell_magic("px", "", cell)  # the first run warms up
        shell.run_cell_magic("px", options, cell)
        lab.last.trace.plot().savefig(HERE / "timeline.png", dpi=110)
    finally:
        lab.stop()


if __name__ == "__main__":
    main()
