"""Execute lessons top to bottom and store their outputs.

    python tests/notebooks/refresh.py notebooks/03*.ipynb

What is stored is the same from run to run: counts 1 to N, no timestamps, no widget state.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def refresh(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
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


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, flush=True)
        refresh(Path(name))
