"""Later cells call the heart of a lesson: the learner's function once it is right, labkit's until then."""

import labkit
from labkit.exercises.catalogue import exercise_named

HEART = exercise_named("my_least_bandwidth")
WRONG = "def my_least_bandwidth(n, t_comp, overhead):\n    return 1.0"


def test_later_cells_have_a_right_function_in_any_case(labs, ask, monkeypatch):
    lab = labs(4)
    monkeypatch.setattr("labkit.lab.session.running", lambda asked: lab)
    called, learners = "least_bandwidth(1_000_000, 0.05, 0.01)", "least_bandwidth is my_least_bandwidth"
    for source, is_right in (HEART.stub, False), (WRONG, False), (HEART.solution, True), (WRONG, False):
        lab[:].execute(source, block=True)
        labkit.check("my_least_bandwidth")
        assert ask(lab[:], f"abs({called} - 1.5e6 / 0.14) < 100") == [True] * 4
        assert ask(lab[:], learners) == [is_right] * 4
