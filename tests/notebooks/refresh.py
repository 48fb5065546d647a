"""Execute lessons top to bottom and store their outputs.

    python tests/notebooks/refresh.py notebooks/03*.ipynb

What is stored is the same from run to run: counts 1 to N, no timestamps, no widget state. With --tidy nothing
is executed: what an editor added to the files goes, outputs and counts stay, and the exit code is 1 if a file
changed.
"""

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from labkit.exercises import course


def refresh(path: Path) -> None:
    """Execute it, as part of its course if it lies beside one."""
    described = path.with_name("course.toml")
    of_course = course.read(described).environment() if described.exists() else {}
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],  # it would warn that it talks to us over TCP, on loopback
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute(env=os.environ | of_course)
    tidy(notebook)
    nbformat.write(notebook, path)


def tidy(notebook) -> None:
    """Keep of the metadata what means something to a reader: the kernel, the language, the tags."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{i:02d}"
        cell.metadata = {key: value for key, value in cell.metadata.items() if key in ("tags", "jupyter")}


def tidy_file(path: Path) -> bool:
    """Tidy a notebook as it is stored; whether that changed it."""
    before = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(before, as_version=4)
    tidy(notebook)
    after = nbformat.writes(notebook) + "\n"
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def main(names: list[str]) -> int:
    if "--tidy" in names:
        changed = [name for name in names if name != "--tidy" and tidy_file(Path(name))]
        print("\n".join(f"tidied {name}" for name in changed))
        return int(bool(changed))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LABKIT_PROGRESS"] = folder  # as somebody sees it who has predicted nothing yet
        for name in names:
            print(name, flush=True)
            refresh(Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
