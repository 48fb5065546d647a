"""import-linter holds the layers: an import upwards, and a circle between neighbours, are found."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINT = "from importlinter.cli import lint_imports_command as lint; lint()"


@pytest.mark.parametrize(
    ("file", "planted", "broken"),
    [
        ("schedule/counts.py", "", None),
        ("schedule/counts.py", "import labkit.lab.px", "Arrows point down only"),
        ("mpi/wire/meet.py", "from labkit.launch import keeper", "Arrows point down only"),
        ("trace/event.py", "from labkit.trace import merge", "No circle between neighbours"),
    ],
)
def test_a_planted_import_is_found(tmp_path, file, planted, broken):
    shutil.copytree(ROOT / "labkit", tmp_path / "labkit", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with open(tmp_path / "labkit" / file, "a") as module:
        module.write(f"\n{planted}\n")
    said = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (said.returncode == 0) == (broken is None), said.stdout
    assert broken is None or f"{broken} BROKEN" in said.stdout
