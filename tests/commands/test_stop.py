"""`labkit stop` ends the labs of this machine, and leaves those of others that share the home folder."""

from labkit.commands import stop
from labkit.launch import processes, slurm
from labkit.launch.runtime import WHERE


def test_labs_of_another_machine_go_on(tmp_path, monkeypatch, capsys):
    cancelled = []
    monkeypatch.setattr(stop, "RUNTIME", tmp_path)
    monkeypatch.setattr(processes, "of_any_lab", list)
    monkeypatch.setattr(slurm, "cancel", cancelled.append)
    of = {"mine": processes.here(), "theirs": f"another-{processes.here()}", "older": None}
    for name, where in of.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / slurm.MARKER).touch()
        if where:
            (tmp_path / name / WHERE).write_text(where)
    assert stop.main([]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"] and sorted(cancelled) == ["mine", "older"]
    machine = of["theirs"].split()[0]
    assert capsys.readouterr().out == (
        f"no lab is running\nthere are labs of {machine}: run `labkit stop` there to end those\n"
    )
