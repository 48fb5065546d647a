"""A lesson's cells as a script: it says what the lesson says, under launchers that know nothing of labkit."""

import ast
import json
import os
import shutil
import subprocess

import nbformat
import pytest
import torch
import torch.distributed as dist
from nbformat import v4

from labkit import LabError
from labkit.commands import export
from labkit.commands.__main__ import main
from labkit.launch.hosts.ports import free_port
from tests.conftest import in_tiers
from tests.environments import environment_without
from tests.lessons import NOTEBOOKS, lesson, said
from tests.mpi import launcher


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
    """A Python without labkit."""
    return environment_without(("labkit",), tmp_path_factory.mktemp("bare"))


def clean_environment(**extra: str) -> dict[str, str]:
    ours = ("LABKIT_", "PYTHONPATH", "MASTER_", "GLOO_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"OMP_NUM_THREADS": "1"} | extra


def ended_well(command, folder, env) -> None:
    """Run it; a launcher that takes too long is asked to end, and so ends its ranks."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=folder, env=env, **pipes) as process:
        try:
            said, _ = process.communicate(timeout=150)
        except BaseException:
            process.terminate()
            raise
    assert process.returncode == 0, said


def under_mpiexec(python, script, ranks, folder) -> list[list[str]]:
    mpi = launcher.find_mpi()
    env = clean_environment(MASTER_PORT=str(free_port()), **mpi.environment())
    to_a_file = 'exec "$@" >rank${PMI_RANK:-$OMPI_COMM_WORLD_RANK}'
    command = [mpi.mpiexec, "-n", str(ranks), "sh", "-c", to_a_file, "sh", python, script]
    ended_well(command, folder, env)
    return [(folder / f"rank{rank}").read_text().splitlines() for rank in range(ranks)]


def under_torchrun(python, script, ranks, folder) -> list[list[str]]:
    port = f"--master-port={free_port()}"
    split = ["--log-dir", str(folder / "logs"), "--redirects", "1"]
    command = [python, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", port, *split, script]
    ended_well(command, folder, clean_environment())
    files = {int(path.parent.name): path for path in folder.glob("logs/**/stdout.log")}
    return [files[rank].read_text().splitlines() for rank in range(ranks)]


def test_the_bare_environment_has_torch_and_no_labkit(bare, tmp_path):
    code = "import importlib.util as u; print(bool(u.find_spec('torch')), bool(u.find_spec('labkit')))"
    done = subprocess.run([bare, "-c", code], cwd=tmp_path, env=clean_environment(), capture_output=True)
    assert done.stdout.split() == [b"True", b"False"], done.stderr


WAYS = under_mpiexec, under_torchrun
SCRIPTS = [(number, way) for way in WAYS for number in "02 01 04 12 13 14 18 19 20 22 23 25".split()]


@pytest.mark.ranks
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "number, way", in_tiers(SCRIPTS, 1, 3, lambda number, way: f"{number}-{way.__name__}")
)
def test_a_script_says_what_the_lesson_says(number, way, bare, tmp_path):
    ranks = 3 if number == "02" else 4
    script = tmp_path / "lesson.py"
    script.write_text(export.script(lesson(number)))
    expected = said(lesson(number), ranks)
    assert all(expected)
    assert way(str(bare), str(script), ranks, tmp_path) == expected


@pytest.fixture
def exported(tmp_path):
    """The script of a notebook with these cells; a cell may be a pair of source and tag."""

    def exported(*cells) -> str:
        pairs = [(cell, []) if isinstance(cell, str) else (cell[0], [cell[1]]) for cell in cells]
        made = [nbformat.v4.new_code_cell(source, metadata={"tags": tags}) for source, tags in pairs]
        nbformat.write(nbformat.v4.new_notebook(cells=made), tmp_path / "n.ipynb")
        return export.script(tmp_path / "n.ipynb")

    return exported


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_lesson_makes_a_script_that_names_labkit_nowhere(path):
    text = export.script(path)
    compile(text, path.stem, "exec")
    code = "\n".join(line.split("#")[0] for line in text.splitlines())
    assert "labkit" not in code and "%%px" not in code


def test_a_class_whose_annotations_name_itself_can_be_defined(exported):
    text = exported("%%px\nfrom labkit.algorithms.activations import Activations\nkept = Activations")
    alone = text.replace(export.PREAMBLE, "rank = 0\n").replace("dist.destroy_process_group()", "")
    exec(alone, found := {})
    assert found["kept"].__name__ == "Activations"


def test_the_preamble_is_short_and_sets_what_a_cell_finds():
    assert len(export.PREAMBLE.splitlines()) == 8
    for name in ("rank =", "world_size =", "device =", "dist.init_process_group("):
        assert name in export.PREAMBLE


@pytest.mark.parametrize("names", [
    ("RANK", "WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"),
])  # fmt: skip
def test_each_processs_own_variables_are_read(names):
    env, (rank, size) = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, names
    env |= {rank: "0" if rank == "RANK" else "2", size: "3"}  # "0" is a rank too, although it looks like none
    found = {"env": env}
    exec("\n".join(export.PREAMBLE.splitlines()[1:3]), found)
    assert (found["rank"], found["world_size"]) == (0 if rank == "RANK" else 2, 3)


@pytest.mark.parametrize("gpus, device", [(0, "cpu"), (1, "cpu"), (2, "cuda:1")])
def test_ranks_that_would_share_a_gpu_take_the_cpu(monkeypatch, gpus, device):
    """NCCL refuses two ranks on one."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # gloo alone, as here there is no NCCL
    monkeypatch.setattr(dist, "init_process_group", lambda *args, **kwargs: None)
    monkeypatch.setattr(
        dist, "all_gather_object", lambda told, mine: told.__setitem__(slice(2), [gpus > 0, mine])
    )
    found = {"env": {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}, "torch": torch, "dist": dist}
    exec(export.PREAMBLE, found)
    assert str(found["device"]) == device


@pytest.mark.parametrize("options, condition", [
    ("--targets 1", "rank == 1"), ("-t 0,1", "rank in (0, 1)"), ("--targets=[2]", "rank in (2,)"),
    ("--targets ::2", "rank in range(world_size)[::2]"),
])  # fmt: skip
def test_targets_become_a_condition(exported, options, condition):
    assert f"if {condition}:\n    x = rank\n" in exported(f"%%px {options}\nx = rank")


@pytest.mark.parametrize("options", ["", "--targets all", "--no-stream --deadline 5"])
def test_without_targets_there_is_no_condition(exported, options):
    assert "\nx = rank\n" in exported(f"%%px {options}\nx = rank")


def test_targets_that_name_no_rank(exported):
    with pytest.raises(LabError, match="fix:   --targets 0,1"):
        exported("%%px --targets nobody\nx = 1")


@pytest.mark.parametrize("cell, why", [
    (("%%px\n1 / 0", "raises-exception"), "this cell fails on purpose"),
    ("%%px\nfrom mpi4py.MPI import COMM_WORLD", "this cell talks to MPI itself"),
    ("%%px\n!hostname", "this cell is not Python alone"),
])  # fmt: skip
def test_what_is_left_out_says_why(exported, cell, why):
    assert f"# Left out: {why}" in exported("%%px\nx = 1", cell)


def test_the_kernel_s_cells_are_left_out(exported):
    assert "here" not in exported("here = 1", "%%px\nx = 1", "%px here", "lab[0]['here']")


def test_a_name_that_only_the_kernel_knows(exported):
    with pytest.raises(LabError, match="its cells use alpha, lab, and"):
        exported("alpha = 1", "%%px\nprint(alpha, lab)")


def test_a_script_asks_for_the_most_ranks_that_its_lesson_has(exported):
    assert "mpiexec -n 3 " in exported("lab = labkit.start(1)", "lab.restart(ranks=3)", "%%px\nx = 1")
    assert "mpiexec -n 4 " in exported("%%px\nx = 1")


def test_modules_with_a_state_of_their_own_are_seeded(exported):
    plain, both = exported("%%px\nx = 1"), exported("%%px\nimport random\nimport numpy as np")
    assert "torch.manual_seed(rank)" in plain and "random.seed" not in plain
    assert "\nrandom.seed(rank)\n" in both and "\nnumpy.random.seed(rank)\n" in both


def test_no_lesson(tmp_path, exported):
    with pytest.raises(LabError, match="no notebook there"):
        export.script(tmp_path / "none.ipynb")
    with pytest.raises(LabError, match="no cell in it begins with %%px"):
        exported("print(1)")


def test_the_command(tmp_path, capsys):
    assert main(["export", str(lesson("01"))]) == 0
    printed = capsys.readouterr().out
    assert printed == export.script(lesson("01")) and "mpiexec -n 4 python" in printed
    assert main(["export", str(lesson("01")), "-o", str(tmp_path / "s.py")]) == 0
    assert (tmp_path / "s.py").read_text() == printed
    assert main(["export", str(lesson("01")), "-o", str(tmp_path / "s.py")]) == 1, "that script is there"
    assert "a file of that name" in capsys.readouterr().err
    mine = shutil.copy(lesson("01"), tmp_path)
    assert main(["export", mine, "-o", mine]) == 1 and nbformat.read(mine, as_version=4)
    capsys.readouterr()
    assert main(["export", "none.ipynb"]) == 1
    assert capsys.readouterr().err.startswith("asked: the script of none.ipynb")


BROKEN = {
    "empty": b"",
    "not UTF-8": b"\xff\xfe\x00",
    "another JSON": b'{"cells": 3}',
    "a list": b"[]",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_notebook_is_told_in_a_sentence(what, tmp_path):
    path = tmp_path / "lesson.ipynb"
    path.write_bytes(BROKEN[what])
    with pytest.raises(LabError, match="no notebook there, or a broken one"):
        export.script(path)


TITLES = [
    "Sum\rimport os",
    r"The sum $\sum_i \xi \N \u \x$",
    'a """ + 1 / 0 + """',
    'ends in "',
    "ends in \\",
    "a\u2028import os",
    "a\x0cimport os",
    "a\x85import os",
    "a\0b",
    "{title} {0} %s",
    "a\x1cimport os",
    "a\r\nimport os",
]
"""Of which something would become code, or end what quotes them."""
CELL = """%%px
# quoted\u2028import sys as wrong\x0cimport sys as wrong
text = '''a\x0cb'''
from labkit.algorithms import shard
print(rank)"""


@pytest.mark.parametrize("title", TITLES, ids=ascii)
def test_nothing_of_a_notebook_but_its_cells_is_code(title, tmp_path):
    """Neither a title, a heading, a count, a file's name, nor what a comment has after a strange sign."""
    cells = [v4.new_markdown_cell(f"# {title}\n## {title}"), v4.new_code_cell(CELL)]
    path = tmp_path / 'a"""\n1; b.ipynb'
    nbformat.write(v4.new_notebook(cells=cells), path)
    told = json.loads(path.read_text())
    told["cells"][1]["execution_count"] = "1]\nimport os"
    path.write_text(json.dumps(told))
    tree = ast.parse(export.script(path))
    imports = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert imports == {"sys", "torch", "torch.distributed"}
    assert [type(node).__name__ for node in tree.body[:2]] == ["Expr", "ImportFrom"]  # a title, and no more
    (text,) = (node for node in tree.body if ast.unparse(node).startswith("text = "))
    assert ast.literal_eval(text.value) == "a\x0cb"
    assert any(isinstance(node, ast.FunctionDef) and node.name == "shard" for node in tree.body)


@pytest.mark.parametrize("targets", ["٣", "1:٣", "1:import os", "1\n2", "0x1"], ids=ascii)
def test_what_names_ranks_is_numbers(targets, tmp_path):
    cell = v4.new_code_cell(f"%%px --targets '{targets}'\nprint(rank)")
    nbformat.write(v4.new_notebook(cells=[cell]), tmp_path / "a.ipynb")
    with pytest.raises(LabError):
        export.script(tmp_path / "a.ipynb")
