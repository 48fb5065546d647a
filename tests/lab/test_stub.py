"""%%px where no lab was started says what to run."""

import shutil

import nbformat
import pytest
from nbclient import NotebookClient

import labkit
from labkit.commands import page

pytestmark = pytest.mark.ranks  # no ranks, but kernels
CONFIGURED = page.HERE / "config" / "ipython" / "ipython_kernel_config.json"


def said(folder, monkeypatch, *cells):
    """What the last of these cells ends with, in a kernel of its own."""
    monkeypatch.setenv("IPYTHONDIR", str(folder))
    written = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(written, timeout=60, kernel_name="python3", allow_errors=True).execute()
    (output,) = written.cells[-1].outputs
    return "\n".join(output.traceback)


@pytest.mark.parametrize("line", ["%%px\nrank", "%px rank"])
def test_a_kernel_of_an_installed_labkit_has_it_before_any_import(tmp_path, monkeypatch, line):
    """The wheel puts that file into the environment's etc/ipython, which a profile stands for here."""
    (tmp_path / "profile_default").mkdir()
    shutil.copy(CONFIGURED, tmp_path / "profile_default")
    told = said(tmp_path, monkeypatch, line)
    assert "lab = labkit.start(4)" in told and len(told.splitlines()) == 4


def test_import_labkit_brings_it(tmp_path, monkeypatch):
    told = said(tmp_path, monkeypatch, "import labkit", "%%px\nrank")
    assert "this kernel has started none" in told and "Traceback" not in told


def test_it_takes_nobodys_place(shell):
    from labkit.lab.stub import NoLab, load_ipython_extension

    def mine(line, cell=None):
        return "mine"

    shell.register_magic_function(mine, "cell", "px")
    load_ipython_extension(shell)
    assert shell.run_cell_magic("px", "", "rank") == "mine"
    shell.register_magics(NoLab(shell))
    with pytest.raises(labkit.LabError, match="labkit.start"):
        shell.run_cell_magic("px", "", "rank")
