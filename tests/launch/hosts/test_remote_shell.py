"""What an MPI would run on a host by ssh runs there with the lab's mark, word for word."""

import subprocess

import pytest

from labkit.launch import processes
from labkit.launch.hosts import remote_shell

CALLS = {  # how the three call their ssh
    "mpich": [
        "-x",
        "a",
        '"/opt/my env/hydra_pmi_proxy"',
        "--control-port",
        "10.0.0.1:4000",
        "--proxy-id",
        "0",
    ],
    "impi": ["-q", "-x", "a", "/opt/hydra_bstrap_proxy", "--upstream-host", "10.0.0.1"],
    "openmpi": ["a", "PRTE_PREFIX=/opt;export PRTE_PREFIX;/opt/prted", "--prtemca", "ess", '"env"'],
}


@pytest.mark.parametrize("mpi", CALLS)
def test_options_go_to_ssh_and_the_words_to_the_host(mpi):
    command = remote_shell.command("ab12", CALLS[mpi])
    host = CALLS[mpi].index("a")
    assert command[-2] == "a" and command[-2 - host : -2] == CALLS[mpi][:host]
    assert command[-1].startswith(f"env {processes.MARK}=ab12 sh -c ")


def test_a_shell_there_gets_mark_and_words():
    words = ["X='1 2';export X;", "echo", '"$X"', f"${processes.MARK}", '"$0$#"']
    there = remote_shell.command("ab12", ["a", *words])[-1]
    assert subprocess.check_output(there, shell=True, text=True) == "1 2 ab12 sh0\n"


def test_hydra_is_told_there_too_to_write_no_file(monkeypatch):
    monkeypatch.setenv("HWLOC_XMLFILE", "/nonexistent/x.xml")
    there = remote_shell.command("ab12", ["a", "printenv", "HWLOC_XMLFILE"])[-1]
    assert subprocess.check_output(there, shell=True, text=True) == "/nonexistent/x.xml\n"
