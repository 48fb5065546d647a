"""Flight Recorder dumps: torch's analyser reads ours, we read torch's, and nobody's code is run by it."""

import os
import pickle
import subprocess
import sys

import pytest

from labkit import LabError
from labkit.trace import Event, Trace


def call(rank: int, number: int, verb: str = "all_reduce", nbytes: int = 16, ended: bool = True) -> Event:
    return Event(
        rank,
        verb,
        number,
        number + 0.5,
        (0, 1, 2),
        nbytes,
        "float32",
        "g",
        number,
        ended=ended,
        place="line 3",
    )


TOGETHER = [call(rank, 1) for rank in range(3)]
WRONG = {
    "a rank is missing": (
        [*TOGETHER, call(0, 2, ended=False), call(1, 2, ended=False)],
        ["Not all ranks joining collective, sequence number: 2", "missing ranks: {2}"],
    ),
    "another verb": (
        [*TOGETHER, call(0, 2, ended=False), call(1, 2, ended=False), call(2, 2, "broadcast", ended=False)],
        ["sequence number: 2 has errors", "does not match found collective type"],
    ),
    "another size": (
        [*TOGETHER, call(0, 2, ended=False), call(1, 2, ended=False), call(2, 2, nbytes=8, ended=False)],
        ["sequence number: 2 has errors", "does not match found input sizes"],
    ),
    "another order": (
        [call(0, 1), call(1, 1), call(2, 1, "barrier", 0)]
        + [call(0, 2, "barrier", 0), call(1, 2, "barrier", 0), call(2, 2)],
        ["sequence number: 1 has errors", "does not match found collective type"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_torchs_analyser_names_rank_and_number(name, analysed, tmp_path):
    events, sentences = WRONG[name]
    said = analysed(Trace(3, tuple(events)).save(tmp_path / "fr", format="flight_recorder"))
    for sentence in sentences:
        assert sentence in said


VERBS = ["all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter",
         "reduce_scatter_tensor", "gather", "scatter", "all_to_all", "barrier"]  # fmt: skip


def test_torchs_analyser_finds_no_fault_in_what_is_right(analysed, tmp_path):
    events = [
        call(rank, n, verb, 0 if verb == "barrier" else 24)
        for n, verb in enumerate(VERBS)
        for rank in range(3)
    ]
    for rank in range(3):  # a ring, in which all send first
        right, left = (rank + 1) % 3, (rank - 1) % 3
        events.append(Event(rank, "send", 20.0, 21.0, (right,), 8, "int64", sequence=1, tag=rank))
        events.append(Event(rank, "recv", 20.5, 21.0, (left,), 8, "int64", sequence=1, tag=left))
    said = analysed(Trace(3, tuple(events)).save(tmp_path / "fr", format="flight_recorder"))
    assert "error" not in said.lower() and "not all ranks" not in said.lower(), said


def test_a_dump_of_ours_is_read_again(tmp_path):
    events = [
        *TOGETHER,
        call(0, 2, "all_gather_into_tensor"),
        call(1, 2, "all_gather_into_tensor", ended=False),
    ]
    found = Trace.load(Trace(3, tuple(events)).save(tmp_path / "fr", format="flight_recorder"))
    assert found.world_size == 3
    kept = [(e.rank, e.verb, e.bytes, e.dtype, e.peers, e.sequence, e.ended) for e in found.events]
    assert sorted(kept) == sorted(
        (e.rank, e.verb, e.bytes, e.dtype, e.peers, e.sequence, e.ended) for e in events
    )
    assert [e.start for e in found.events if e.rank == 0] == [0, 1]


GLOO = """
import sys, torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace
folder, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
x = torch.ones(4)
dist.all_reduce(x)
dist.broadcast(x, 1)
dist.barrier()
open(f"{folder}/dumps/rank_{rank}", "wb").write(_dump_fr_trace())
dist.barrier()
"""


@pytest.mark.slow  # two processes that import torch
def test_a_dump_of_torch_itself_is_drawn(tmp_path):
    (tmp_path / "dumps").mkdir()
    env = os.environ | {"TORCH_FR_BUFFER_SIZE": "100", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen([sys.executable, "-c", GLOO, tmp_path, str(rank)], env=env, stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    for rank in ranks:
        assert rank.wait(60) == 0, rank.stderr.read()
    trace = Trace.load(tmp_path / "dumps")
    said = [(e.rank, e.verb, e.bytes, e.dtype, e.peers) for e in trace.events if e.rank == 0]
    everybody = (0, 1)
    assert said == [
        (0, "all_reduce", 16, "float32", everybody),
        (0, "broadcast", 16, "float32", everybody),
        (0, "barrier", 0, "", everybody),
    ]
    assert trace.plot().axes


class Evil:
    def __reduce__(self):
        return os.mkdir, (os.environ["EVIL"],)


def test_a_dump_runs_nobodys_code(tmp_path, monkeypatch):
    monkeypatch.setenv("EVIL", str(tmp_path / "made"))
    (tmp_path / "fr").mkdir()
    (tmp_path / "fr" / "rank_0").write_bytes(pickle.dumps({"version": "2.10", "entries": [Evil()]}))
    with pytest.raises(LabError, match=r"it wants to run posix\.mkdir"):
        Trace.load(tmp_path / "fr")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "EOFError"),
        (b"no pickle", "UnpicklingError"),
        (pickle.dumps([1]), "holds a list"),
        (pickle.dumps({}), "KeyError 'pg_config'"),
    ],
)
def test_what_is_no_dump_is_said(content, found, tmp_path):
    (tmp_path / "rank_0").write_bytes(content)
    with pytest.raises(LabError, match=found):
        Trace.load(tmp_path)


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "mine").write_text("")
    with pytest.raises(LabError, match="something is in it"):
        Trace(3, tuple(TOGETHER)).save(tmp_path, format="flight_recorder")
    with pytest.raises(LabError, match='format="chrome" or "flight_recorder"'):
        Trace(3, tuple(TOGETHER)).save(tmp_path / "x", format="json")


MADE_UP = [
    {"pg_config": {"default_pg": {"ranks": "[999999999]"}}},
    {"pg_config": {"default_pg": {"ranks": "(" * 300}}},
    {"pg_config": {"default_pg": {"ranks": str(list(range(10**6)))}}},
    {"pg_config": []},
    {"entries": 3},
    {"entries": [{}]},
]


@pytest.mark.parametrize("wrong", MADE_UP, ids=lambda wrong: str(wrong)[:40])
def test_dumps_that_somebody_has_made_up_are_refused(tmp_path, wrong):
    whole = {"version": "2.10", "entries": [], "pg_config": {"default_pg": {"ranks": "[0, 1]"}}}
    (tmp_path / "rank_0").write_bytes(pickle.dumps(whole | wrong))
    with pytest.raises(LabError, match="Flight Recorder"):
        Trace.load(tmp_path)
