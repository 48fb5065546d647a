"""What others on the network can see and do: no cell, no output; and no client without the keys."""

import json
import os
import secrets
import socket
import subprocess

import pytest
import zmq
from jupyter_client.session import Session

from labkit.lab.remote import ask_states
from tests.faults.test_faults import run
from tests.waiting import WITHIN, until

pytestmark = pytest.mark.hosts


@pytest.fixture
def capture(tmp_path):
    """All bytes that pass the bridge from here on; the call ends the capture and returns them.

    It is told what passes last: until then the kernel has not handed over all packets.
    """
    file = tmp_path / "capture"
    tcpdump = subprocess.Popen(
        [
            "tcpdump",
            "-i",
            "labkitbox",
            "--immediate-mode",
            "-U",
            "-s",
            "0",
            "-B",
            "65536",
            "-Z",
            "root",
            "-w",
            file,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert any("listening on" in line for line in iter(tcpdump.stderr.readline, ""))

    def bytes_seen(last: bytes) -> bytes:
        until(lambda: last in file.read_bytes())
        tcpdump.terminate()
        tcpdump.wait(60)
        return file.read_bytes()

    yield bytes_seen
    tcpdump.kill()
    tcpdump.wait()


def test_neither_cells_nor_outputs_nor_keys_are_seen_on_the_network(pair, capture, monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", secrets.token_hex(16))  # MPIs hand on the environment in clear text
    lab = pair().restart()
    words = {what: secrets.token_hex(16) for what in ("source", "output", "error", "variable")}
    run(lab, f"# {words['source']}\nprint(''.join(reversed('{words['output'][::-1]}')))")
    with pytest.raises(Exception, match=words["error"]):
        run(lab, f"raise ValueError('{words['error']}')")
    lab[:]["variable"] = words["variable"]
    assert lab[:]["variable"] == [words["variable"]] * 2
    assert ask_states(lab, [0, 1], timeout=30.0)
    engine_file = json.loads((lab._engines.folder / "security" / "ipcontroller-engine.json").read_text())
    in_clear_text = b"a word in clear text"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as in_clear:
        in_clear.bind((lab._engines.address, 0))
        in_clear.sendto(in_clear_text, (lab._engines.address.rpartition(".")[0] + ".2", 9))
    seen = capture(in_clear_text)
    assert in_clear_text in seen, "the capture would find one"
    keys = {"key": engine_file["key"], "curve": engine_file["curve_serverkey"]}
    keys["environment"] = os.environ["SOME_TOKEN"]
    for what, word in (words | keys).items():
        assert word.encode() not in seen, what


@pytest.fixture
def engine_file(pair):
    return json.loads((pair()._engines.folder / "security" / "ipcontroller-engine.json").read_text())


def hub_answers(told: dict, curve: bytes | None, key: bytes, within: float = 2.0) -> bool:
    """Whether the controller answers a client that comes with this server key and this signing key."""
    session = Session(key=key, signature_scheme=told["signature_scheme"])
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        if curve:
            dealer.curve_serverkey = curve
            dealer.curve_publickey, dealer.curve_secretkey = zmq.curve_keypair()
        dealer.connect(f"{told['interface']}:{told['registration']}")
        session.send(dealer, "connection_request")
        return bool(dealer.poll(int(1000 * within)))


def test_a_client_without_the_keys_is_refused(engine_file):
    curve, key = engine_file["curve_serverkey"].encode(), engine_file["key"].encode()
    assert hub_answers(engine_file, curve, key, within=WITHIN), "with both it is served"
    assert not hub_answers(engine_file, None, key), "not encrypted"
    assert not hub_answers(engine_file, zmq.curve_keypair()[0], key), "encrypted for another server"
    assert not hub_answers(engine_file, curve, b"guess"), "encrypted, with a wrong signature"
    assert not hub_answers(engine_file, curve, b""), "encrypted, with no signature"


def test_ranks_meet_in_a_file_which_the_network_does_not_reach(pair):
    find = "from torch.distributed.distributed_c10d import _get_default_store as store"
    pair()[:].execute(f"{find}\nmet = store()", block=True)
    pair()[:].execute("while hasattr(met, 'underlying_store'): met = met.underlying_store", block=True)
    pair()[:].execute("met = type(met).__name__", block=True)
    assert pair()[:]["met"] == ["FileStore"] * len(pair().ranks)


def test_what_is_for_the_notebook_alone_listens_on_loopback(pair, engine_file):
    told = json.loads((pair()._engines.folder / "security" / "ipcontroller-client.json").read_text())
    assert told["interface"] == "tcp://127.0.0.1"
    assert engine_file["interface"] == f"tcp://{pair()._engines.address}"
