"""What this machine lacks for labkit, in one sentence with its fix; says nothing when all is there.

    python3 cluster/local/prerequisites.py .venv mpich [index of CPU-only wheels]

`make install` runs this with whatever Python it was given, before it makes the environment. So this file
uses the standard library only, in a syntax that every Python reads, however old.
"""

import collections
import os
import platform
import subprocess
import sys

# The oldest that labkit runs on, held against pyproject.toml by tests/test_packaging.py; the newest that
# constraints.txt was made for.
OLDEST, NEWEST = (3, 10), (3, 14)
GB = 10**9
# Measured: 1.6 GB for everything with a CPU-only PyTorch. On Linux the usual PyTorch brings CUDA's libraries.
CPU_BYTES, CUDA_BYTES = 2 * GB, 8 * GB

# Where PyTorch and the MPIs have wheels; labkit builds nothing from source.
OLDEST_GLIBC = (2, 28)
OLDEST_MACOS = (14,)

Machine = collections.namedtuple("Machine", "system machine bits glibc macos")


def version(text):
    """
    >>> version("2.36")
    (2, 36)
    """
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def this_machine():
    bits = 64 if sys.maxsize > 2**32 else 32
    libc, release = platform.libc_ver()
    glibc = version(release) if libc == "glibc" else ()
    return Machine(platform.system(), platform.machine().lower(), bits, glibc, version(platform.mac_ver()[0]))


def usable(name):
    """Whether the command is a Python that runs; version managers put commands on the PATH that do not."""
    with open(os.devnull, "w") as nowhere:
        try:
            return subprocess.call([name, "-c", ""], stdout=nowhere, stderr=nowhere) == 0
        except OSError:
            return False


def lacks_python(found, name, others=None):
    if OLDEST <= found[:2] <= NEWEST:
        return None
    if others is None:
        supported = ["python3.{}".format(minor) for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
        others = [command for command in supported if usable(command)]
    fix = (
        "this machine has one: make install PYTHON=" + others[0]
        if others
        else ("install one of these and name it: make install PYTHON=python3.{}".format(NEWEST[1]))
    )
    needs = "labkit needs" if found[:2] < OLDEST else "what make installs was tested with"
    return "{} Python {}.{} to {}.{} and {} is {}.{}; {}".format(
        *((needs,) + OLDEST + NEWEST + (name,) + tuple(found[:2]) + (fix,))
    )


def lacks_platform(m, mpi):
    wsl = "run it in WSL 2, which is Linux: wsl --install, then the same command there"
    if m.system not in ("Linux", "Darwin"):
        return "labkit has no MPI on {}; {}".format(m.system, wsl)
    if m.bits < 64:
        return "labkit needs a 64-bit Python and this is a 32-bit one; name another: make install PYTHON=..."
    if m.system == "Darwin" and (m.machine != "arm64" or m.macos < OLDEST_MACOS):
        return (
            "PyTorch has wheels for macOS {} or newer on Apple silicon and this is macOS {} on {}; "
            "use a Linux machine instead".format(OLDEST_MACOS[0], ".".join(map(str, m.macos)), m.machine)
        )
    if m.system == "Linux" and m.machine not in ("x86_64", "aarch64"):
        return "PyTorch has wheels for x86_64 and aarch64, this is {}; use such a machine".format(m.machine)
    if m.system == "Linux" and m.glibc < OLDEST_GLIBC:
        found = "glibc {}.{}".format(*m.glibc[:2]) if m.glibc else "another C library"
        return (
            "PyTorch and MPI have wheels for Linux with glibc {}.{} or newer and this one has {}; "
            "use a newer distribution, or environment.yml with conda".format(*(OLDEST_GLIBC + (found,)))
        )
    if mpi == "impi" and (m.system, m.machine) != ("Linux", "x86_64"):
        return "Intel MPI has wheels for Linux on x86_64 only; choose another: make install MPI=mpich"
    return None


def lacks_venv(name):
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as missing:
        return (
            "{} has no module {}, so it cannot make an environment; on Debian and Ubuntu: "
            "apt-get install python{}.{}-venv, or name another Python: make install PYTHON=...".format(
                name, missing.name, *sys.version_info[:2]
            )
        )
    return None


def free(directory):
    """Free bytes where the directory is, or will be."""
    import shutil

    directory = os.path.abspath(directory)
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return shutil.disk_usage(directory).free


def lacks_disk(venv, needed=CPU_BYTES):
    if free(venv) >= needed:
        return None
    return (
        "labkit's environment needs {:.1f} GB and {:.1f} GB are free for {}; make room, or choose "
        "another disk: make install VENV=/other/disk/labkit".format(
            needed / GB, free(venv) / GB, os.path.abspath(venv)
        )
    )


def main(venv, mpi, torch_index=""):
    name = sys.executable or "this Python"
    lack = lacks_python(sys.version_info, name) or lacks_platform(this_machine(), mpi) or lacks_venv(name)
    made = os.path.exists(os.path.join(venv, "pyvenv.cfg"))
    if not lack and not made:
        lack = lacks_disk(venv)
    if lack:
        sys.exit(lack)
    if not made and not torch_index and platform.system() == "Linux" and free(venv) < CUDA_BYTES:
        print("Little disk: PyTorch with CUDA may not fit; a CPU-only one does: make install TORCH_INDEX=...")


if __name__ == "__main__":
    main(*sys.argv[1:])
