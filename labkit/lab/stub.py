"""%%px where no lab was started: it says what to run, in place of "magic not found".

Every kernel of an environment in which labkit is installed has it from the start, also after a restart
(`etc/ipython` in the wheel); elsewhere `import labkit` brings it. `labkit.start` puts the real one there.
"""

from typing import NoReturn

from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class

from labkit import LabError
from labkit.lab import numbering

NO_RANKS = LabError(
    "a cell on the ranks",
    "this kernel has started none: it is new, or was restarted",
    "import labkit; lab = labkit.start(4)   (then run this cell again)",
)


@magics_class
class NoLab(Magics):
    """Stands for ipyparallel's magics."""

    @line_cell_magic
    def px(self, line: str = "", cell: str | None = None) -> NoReturn:
        """Run a cell on every rank, once `labkit.start` has started them."""
        raise NO_RANKS

    @line_magic
    def pxresult(self, line: str = "") -> NoReturn:
        """Wait for what was sent to the ranks, once there are some."""
        raise NO_RANKS


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register it where there is no %%px yet."""
    numbering.count(shell)
    if "px" not in shell.magics_manager.magics["cell"]:
        shell.register_magics(NoLab(shell))


def offer() -> None:
    """The same in the notebook or IPython session that this process is, if it is one."""
    shell = get_ipython()
    if shell is not None:
        load_ipython_extension(shell)
