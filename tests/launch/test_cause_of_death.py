"""Who died is read from what was left behind: the keeper's note, mpiexec's report, the ranks' own lines."""

import pytest

from labkit.launch import MPI, Plan, cause_of_death, endings, keeper
from labkit.launch.ranks import Rank

PLAN = Plan(2, MPI("mpich", "5.0", "mpiexec"))
RANKS = tuple(Rank(r, host, 71, "cpu", "mpi", 0.0) for r, host in enumerate(("a", "b")))
HYDRA = """\
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID {} RUNNING AT {}
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
"""


@pytest.fixture
def folder(tmp_path):
    """What a lab across hosts leaves: mpiexec's report under ipyparallel's name, a file of each rank."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "ipengine-1700000000.log").write_text(HYDRA.format(71, "b"))
    for rank in range(2):
        (tmp_path / "log" / f"ipengine-rank{rank}.log").write_text(f"rank {rank} was here\n")
    cause_of_death.keep_report(tmp_path / "log" / "ipengine-1700000000.log")
    return tmp_path


def test_each_line_is_told_once_and_the_report_last(folder):
    said = ["rank 0 was here", "rank 1 was here", *HYDRA.format(71, "b").splitlines()]
    assert [line for line in cause_of_death.last_lines(folder).splitlines() if line] == said
    assert cause_of_death.last_lines(folder, lines=1) == said[-1]


def test_the_report_outlives_its_removal(folder):
    (folder / "log" / "ipengine-1700000000.log").unlink()
    assert "Killed" in cause_of_death.last_lines(folder)
    assert (
        cause_of_death.cause_of_death(PLAN, folder, RANKS) == "rank 1 (pid 71 on b) died: Killed (signal 9)"
    )


def test_a_report_that_is_gone_already_cannot_be_kept(tmp_path):
    cause_of_death.keep_report(tmp_path / "log" / "ipengine-1700000000.log")
    assert cause_of_death.last_lines(tmp_path) == "(their log is empty)"
    assert cause_of_death.cause_of_death(PLAN, tmp_path, RANKS) == "mpiexec died, and the ranks with it"


@pytest.mark.parametrize(("missed", "told"), [("the controller", "in use"), ("mpiexec", ""), ("", "")])
def test_a_controller_that_ended_first_is_quoted(tmp_path, missed, told):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "ipcontroller-7.log").write_text("started\nin use\n\n")
    (tmp_path / keeper.GONE).write_text(missed)
    assert cause_of_death.controllers_last_line(tmp_path) == told


@pytest.mark.parametrize(("noted", "cause"), [
    (["labkit: PID 71 ON a ENDED: 7"], "rank 0 (pid 71 on a) died: exit code 7"),
    ([endings.aborts(1, 3), endings.said(71, 3)], "rank 1 (pid 71 on b) died: called MPI_Abort with 3"),
])  # fmt: skip
def test_what_was_noted_in_the_lab_is_told_where_nothing_else_was(tmp_path, monkeypatch, noted, cause):
    (tmp_path / "log").mkdir()
    monkeypatch.setenv("LABKIT_FOLDER", str(tmp_path))
    for said in noted:
        endings.note(said)
    assert cause_of_death.cause_of_death(PLAN, tmp_path, RANKS) == cause


WITNESSES = "labkit: PID 72 ON b ENDED: -6\nlabkit: PID 71 ON a ENDED: -15\n"
ABORT = "Abort(3) on node 1 (rank 0 in comm 496): application called MPI_Abort(comm=0x84, 3) - process 0\n"
PRTE = """\
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
  Proc: [[1234,1],1]
  Errorcode: 3
labkit: PID 71 ON a ENDED: 3
"""


@pytest.mark.parametrize(("said", "cause"), [
    (WITNESSES, "rank 1 (pid 72 on b) died: Aborted (signal 6)"),
    (ABORT, "rank 1 (pid 72 on b) died: application called MPI_Abort(comm=0x84, 3) - process 0"),
    (PRTE, "rank 1 (pid 72 on b) died: called MPI_Abort with 3"),
])  # fmt: skip
def test_what_was_said_first_counts_more_than_whom_mpiexec_names(folder, said, cause):
    ranks = RANKS[:1] + (Rank(1, "b", 72, "cpu", "mpi", 0.0),)
    (folder / "log" / "ipengine-1700000000.log").write_text(said + HYDRA.format(71, "a"))
    assert cause_of_death.cause_of_death(PLAN, folder, ranks) == cause


@pytest.mark.parametrize(("missed", "cause"), [
    ("the controller", "the controller died"),
    ("host b", "host b cannot be reached any more"),
    ("host a\nhost b\nmpiexec", "host a and host b cannot be reached any more"),
    ("mpiexec", "rank 1 (pid 71 on b) died: Killed"),
    ("", "rank 1 (pid 71 on b) died: Killed"),
])  # fmt: skip
def test_what_the_keeper_missed_comes_first(folder, missed, cause):
    (folder / keeper.GONE).write_text(missed)
    assert cause_of_death.cause_of_death(PLAN, folder, RANKS).startswith(cause)


@pytest.mark.parametrize(("said", "first"), [
    ("[mpiexec@vm] control_cb: assert (!closed) failed\n", "hydra_pmi_proxy"), ("", "mpiexec"),
])  # fmt: skip
def test_mpiexec_has_ended_with_its_proxy_where_it_says_so_itself(folder, said, first):
    (folder / "log" / "ipengine-1700000000.log").write_text(said)
    (folder / keeper.GONE).write_text("mpiexec\nhydra_pmi_proxy")
    assert cause_of_death.cause_of_death(PLAN, folder, RANKS).startswith(f"{first} died")


def test_under_slurm_srun_tells(folder):
    plan = Plan(2, PLAN.mpi, launcher="slurm")
    assert cause_of_death.cause_of_death(plan, folder, RANKS) == "srun died, and the ranks with it"
    (folder / "log" / "ipengine-1700000000.log").write_text("srun: error: vm: task 1: Killed\n")
    assert cause_of_death.cause_of_death(plan, folder, RANKS) == "rank 1 (pid 71 on b) died: Killed"
