"""Hosts are named, and what ssh says about one that cannot be used becomes a finding and a fix."""

import subprocess
import sys

import psutil
import pytest

from labkit import LabError
from labkit.launch.hosts import ssh
from labkit.launch.hosts.names import Host, parse


@pytest.mark.parametrize(
    "text, slots",
    [
        ("miriad2a:2,miriad2b:2", {"miriad2a": 2, "miriad2b": 2}),
        ("a", {"a": 1}),
        (" a : 2 , b.example.org slots=3 ", {"a": 2, "b.example.org": 3}),
        ("10.0.0.1:16", {"10.0.0.1": 16}),
        ("", {}),
    ],
)
def test_hosts_and_their_slots(text, slots):
    assert parse(text) == tuple(Host(name, n) for name, n in slots.items())


def test_hosts_from_a_file_in_the_form_of_either_mpi(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# the room on the left\na slots=2\n\nb:3  # the new one\nc\n")
    assert parse(str(file)) == (Host("a", 2), Host("b", 3), Host("c", 1))


@pytest.mark.parametrize(
    "text", ["a:0", "a:-1", "a:two", "user@a", "a,a", "a:1:2", ",", "-oProxyCommand=x", "./no"]
)
def test_bad_hosts_are_refused(text):
    with pytest.raises(LabError, match="fix:   .*a:2"):
        parse(text)


def test_ssh_never_asks_and_takes_the_configuration_that_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv(ssh.SSH_CONFIG, str(tmp_path / "config"))
    command = ssh.ssh("a", "-x")
    assert command[:3] == ["ssh", "-F", str(tmp_path / "config")] and command[-2:] == ["-x", "a"]
    assert "-oBatchMode=yes" in command
    monkeypatch.delenv(ssh.SSH_CONFIG)
    assert "-F" not in ssh.ssh("a")


def fake_ssh(folder, script):
    program = folder / "ssh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


SAID = [
    ("ssh: Could not resolve hostname a: Name or service not known",
     "host unknown", "nobody knows", "mend the name"),
    ("ssh: connect to host a port 22: Connection refused", "host down", "no ssh server", "start sshd on a"),
    ("ssh: connect to host a port 22: Connection timed out", "host down", "cannot be reached", "start a"),
    ("ssh: connect to host a port 22: No route to host", "host down", "cannot be reached", "start a"),
    ("root@a: Permission denied (publickey,password).",
     "password asked", "asks for a password", "ssh-copy-id a"),
    ("root@a: Permission denied (keyboard-interactive).",
     "password asked", "asks for a password", "ssh-copy-id a"),
    ("root@a: Permission denied (publickey).", "wrong key", "none of your keys", "ssh-copy-id a"),
    ("Host key verification failed.", "other host key", "host key", "ssh-keygen -R a"),
    ("env: '/opt/python': No such file or directory",
     "other Python", "is not there", "same environment on a"),
    ("sh: /opt/python: not found", "other Python", "is not there", "same environment on a"),
    ("something new", "no ssh", "something new", "ssh a"),
]  # fmt: skip


@pytest.mark.parametrize("said, fault, found, fix", SAID)
def test_what_ssh_says_becomes_a_fault_a_finding_and_a_fix(monkeypatch, tmp_path, said, fault, found, fix):
    fake_ssh(tmp_path, f'cat >/dev/null; echo "{said}" >&2; exit 255')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (answer,) = ssh.probe(parse("a"), deadline=60.0)
    assert answer.facts is None and answer.fault == fault
    assert found in answer.found and said in answer.found and fix in answer.fix


def test_hosts_are_asked_at_once_and_none_for_longer_than_the_deadline(monkeypatch, tmp_path):
    fake_ssh(tmp_path, "exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    answers = ssh.probe(parse("a,b,c"), deadline=0.5)
    assert [answer.host for answer in answers] == ["a", "b", "c"]
    assert all("no answer within 0.5 s" in answer.found for answer in answers)
    assert {answer.fault for answer in answers} == {"host down"}


def test_a_host_tells_its_facts_without_labkit(monkeypatch, tmp_path):
    (tmp_path / "token").write_text("a secret")
    fake_ssh(tmp_path, 'for last; do :; done; eval "exec $last"')  # what sshd does with a command
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    asked = {"token": str(tmp_path / "token"), "directory": str(tmp_path / "none")}
    (answer,) = ssh.probe(parse("a"), deadline=60.0, **asked)
    assert answer.facts["token"] == "a secret"
    assert answer.facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert answer.facts["labkit"] is True and answer.facts["directory"] is False
    assert answer.facts["cores"] >= 1 and abs(answer.clock_offset) < 1
    assert (
        abs(answer.facts["free_memory"] - psutil.virtual_memory().available) < 4e9 or sys.platform == "darwin"
    )


def test_the_facts_need_the_standard_library_alone():
    source = ssh.Path(ssh.facts.__file__).read_text()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-", "{}"], input=source, capture_output=True, text=True
    )
    assert done.returncode == 0 and '"torch": ""' in done.stdout


def test_an_interface_is_found_by_its_address():
    assert ssh.interface("127.0.0.1") in ("lo", "lo0")
    assert ssh.own_address(towards="127.0.0.1") == "127.0.0.1"
    with pytest.raises(LabError, match="192.0.2.77"):
        ssh.interface("192.0.2.77")
