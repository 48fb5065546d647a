"""A lesson's %%px cells as one plain script, which runs where labkit is not.

    $ labkit export notebooks/04_train_in_step.ipynb > lesson.py
    $ mpiexec -n 4 python lesson.py
    $ torchrun --nproc-per-node 4 lesson.py
    $ srun -n 4 python lesson.py

What runs in the notebook's own kernel is left out, and so are cells that fail on purpose. What a
cell imports from labkit is put in its place. A cell's last expression is shown as an interactive
session shows it. The ranks' lines come as they are printed; each launcher can label them
(`mpiexec -prepend-rank`, `torchrun --tee 3`, `srun --label`).

assignment  a lesson's exercises for otter-grader or nbgrader
inline    what a cell imports from labkit, put in its place
rewrite   small changes to a cell's source
"""

import argparse
import ast
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import ValidationError

from labkit import LabError
from labkit.commands.export.assignment import FORMS, assignment
from labkit.commands.export.inline import inlined
from labkit.commands.export.rewrite import in_docstring, indented, one_line, shown, undefined
from labkit.exercises.catalogue import LESSONS
from labkit.launch import private

HEADER = """\
\"\"\"{title}: the cells that the ranks run, as a script.

    mpiexec -n {ranks} python {script}
    torchrun --nproc-per-node {ranks} {script}
    srun -n {ranks} python {script}

Ranks on several hosts need MASTER_ADDR, the host of rank 0; MASTER_PORT is 29500 unless it says otherwise.
\"\"\"

from __future__ import annotations  # as in the files of which the cells' imports have come

import sys
from os import environ as env

import torch
import torch.distributed as dist

# torchrun, Hydra (MPICH, Intel MPI), Open MPI and srun each have names of their own for these numbers.
"""
PREAMBLE = """\
env.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"} | env)
rank = int(env.get("RANK") or env.get("PMI_RANK") or env.get("OMPI_COMM_WORLD_RANK") or env.get("SLURM_PROCID", 0))
world_size = int(env.get("WORLD_SIZE") or env.get("PMI_SIZE") or env.get("OMPI_COMM_WORLD_SIZE") or env.get("SLURM_NTASKS", 1))
local_rank = int(env.get("LOCAL_RANK") or env.get("MPI_LOCALRANKID") or env.get("OMPI_COMM_WORLD_LOCAL_RANK") or env.get("SLURM_LOCALID") or rank)
dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", rank=rank, world_size=world_size)
enough = [False] * world_size  # NCCL wants a GPU for each rank
dist.all_gather_object(enough, local_rank < torch.cuda.device_count())
device = torch.device("cuda", local_rank) if all(enough) else torch.device("cpu")
"""  # noqa: E501 - a line for each name
BECOMING = {e.name: e for lesson in LESSONS for e in lesson.exercises if e.becomes}
"""The exercises whose functions later cells call by another name."""

SEEDS = {
    "random": "random.seed(rank)",
    "numpy": "numpy.random.seed(rank)",
    "torch": "torch.manual_seed(rank)",
}
"""What a lab does on each rank before the first cell, for the modules that a lesson uses."""


def script(notebook: Path) -> str:
    """The script of a lesson. LabError if its cells do not make one."""
    try:
        lesson = nbformat.read(notebook, as_version=4)
        for cell in lesson.cells:
            cell.source = re.sub(r"\r\n?", "\n", cell.source)  # as Python reads it: each is the end of a line
        cells = list(_cells(lesson.cells))
    except (OSError, ValueError, LookupError, AttributeError, TypeError, ValidationError) as error:
        found = f"no notebook there, or a broken one: {str(error)[:200]}"
        raise LabError(f"the script of {notebook}", found, "name an .ipynb") from None
    if not cells:
        raise LabError(f"the script of {notebook}", "no cell in it begins with %%px", "name a lesson")
    body = "\n\n".join(cells)
    kernel = "\n".join(c.source for c in lesson.cells if c.cell_type == "code" and _options(c.source) is None)
    asked = re.findall(r"\b(?:labkit\.start|lab\.restart)\((?:ranks=)?([0-9]{1,6})\b", kernel)
    prose = "\n".join(c.source for c in lesson.cells if c.cell_type == "markdown")
    title = re.search(r"^# (.+)$", prose, re.MULTILINE)
    head = HEADER.format(
        title=in_docstring(title[1] if title else notebook.stem),
        ranks=max(map(int, asked), default=4),
        script=in_docstring(shlex.quote(f"{notebook.stem}.py")),
    )
    whole = f"{head}{PREAMBLE}\n{_seeds(body)}\n\n{body}\n\ndist.destroy_process_group()\n"
    try:
        missing = undefined(whole)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        found = f"its cells make no script together: {error}"
        raise LabError(
            f"the script of {notebook}", found, "run the lesson from top to bottom first"
        ) from None
    if missing:
        raise LabError(
            f"the script of {notebook}",
            f"its cells use {', '.join(missing)}, and no cell that a script can have defines that",
            "define it in a %%px cell that does not fail",
        )
    return re.sub(r"\n{4,}", "\n\n\n", whole)


def _cells(cells: list) -> Iterator[str]:
    """Each %%px cell as source under a line that says where in the lesson it is."""
    heading = ""
    for cell in cells:
        if cell.cell_type == "markdown":
            heading = ([heading] + re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE))[-1]
        elif heart := _heart(cell.source, cells):
            yield f"{_mark(cell, heading)}\n{inlined(heart)}"
        options = _options(cell.source) if cell.cell_type == "code" else None
        if options is None:
            continue
        source = cell.source.split("\n", 1)[1] if "\n" in cell.source else ""
        why = _left_out(source, cell.metadata.get("tags", []))
        text = f"# Left out: {why}." if why else _on(options, shown(inlined(source)))
        yield f"{_mark(cell, heading)}\n{text}"


def _mark(cell: nbformat.NotebookNode, heading: str) -> str:
    """A comment of one line; a notebook that is not as it should be may count in anything but numbers."""
    count = cell.get("execution_count")
    return f"# %% [{count if type(count) is int else ' '}] {one_line(heading)}".rstrip()


def _heart(check: str, cells: list) -> str:
    """What a check leaves for later cells by another name: the learner's function, or labkit's; or ""."""
    asked = re.fullmatch(r'labkit\.check\("(\w+)"\)', check.strip())
    exercise = BECOMING.get(asked[1]) if asked else None
    if exercise is None:
        return ""
    if all(cell.source != f"%%px\n{exercise.stub.rstrip()}" for cell in cells):
        return f"{exercise.becomes} = {exercise.name}"
    return re.sub(rf"\b{exercise.name}\b", exercise.becomes, exercise.solution).rstrip()


def _options(source: str) -> list[str] | None:
    """What follows %%px in the first line of a cell; None if the cell is not for the ranks."""
    first = source.split("\n", 1)[0]
    return shlex.split(first)[1:] if re.match(r"%%px(\s|$)", first) else None


def _left_out(source: str, tags: list[str]) -> str:
    """Why a script cannot have this cell, or "" if it can."""
    if "raises-exception" in tags:
        return "this cell fails on purpose, and would end the script"
    try:
        tree = ast.parse(source)
    except (SyntaxError, RecursionError, MemoryError):
        return "this cell is not Python alone, but uses commands of IPython"
    imports = (ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom))
    if any("mpi4py" in line for line in imports):
        return "this cell talks to MPI itself, and not every launcher makes an MPI world"
    return ""


def _on(options: list[str], source: str) -> str:
    """The source for the ranks that --targets names."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("-t", "--targets", default="all")
    targets = parser.parse_known_args(options)[0].targets
    if targets == "all":
        return source
    if re.fullmatch(r"[0-9]+", targets):
        condition = f"rank == {int(targets)}"
    elif re.fullmatch(r"\[?[0-9]+(,\s*[0-9]+)*,?\]?", targets):
        condition = f"rank in {tuple(map(int, re.findall('[0-9]+', targets)))}"
    elif re.fullmatch(r"-?[0-9]*:-?[0-9]*(:-?[0-9]*)?", targets):
        condition = f"rank in range(world_size)[{targets}]"
    else:
        raise LabError(
            f"--targets {targets}", "no rank, list of ranks or slice", "--targets 0,1 or --targets 1:"
        )
    return f"if {condition}:\n{indented(source)}"


def _seeds(body: str) -> str:
    imported = {"torch", *re.findall(r"^[ \t]*(?:import|from) (\w+)", body, re.MULTILINE)}
    used = [name for name in SEEDS if name in imported]
    imports = [f"import {name}" for name in used if name != "torch"]
    return "\n".join([*imports, "# A lab seeds each rank with its number.", *(SEEDS[name] for name in used)])


def main(arguments: list[str]) -> int:
    """labkit export NOTEBOOK [-o FILE], or labkit export --for otter|nbgrader NUMBER [-o FILE]."""
    parser = argparse.ArgumentParser(prog="labkit export", description="A lesson's %%px cells as a script.")
    parser.add_argument("notebook", type=Path, help="with --for, the number of a lesson: 02")
    parser.add_argument("--for", dest="form", choices=FORMS, help="its exercises, as an assignment for these")
    parser.add_argument("-o", "--output", type=Path, help="a file to write, in place of standard output")
    args = parser.parse_args(arguments)
    if args.output and args.output.exists():
        raise LabError(
            f"the export of {args.notebook} in {args.output}",
            "there is a file of that name",
            "name another one, or remove it first",
        )
    made = assignment(args.form, str(args.notebook)) if args.form else None
    text = nbformat.writes(made) + "\n" if made else script(args.notebook)
    if args.output:
        private.write(args.output, text)
    else:
        sys.stdout.write(text)
    return 0
