"""What cells set for the whole process changes no check, is so after it, and is gone after a clean start."""

import pytest
import torch

from labkit.exercises.catalogue import exercise_named
from labkit.exercises.grade import grade
from labkit.rank.settings import SETTINGS, as_at_start

SET = {  # what a cell does, and where it can be read
    "torch.set_default_dtype(torch.float64)": "torch.get_default_dtype()",
    "torch.set_default_dtype(torch.bfloat16)": "torch.get_default_dtype()",
    "torch.set_default_device('meta')": "torch.get_default_device()",
    "torch.set_grad_enabled(False)": "torch.is_grad_enabled()",
    "torch.autograd.set_detect_anomaly(True)": "torch.is_anomaly_enabled()",
    "torch.use_deterministic_algorithms(True)": "torch.are_deterministic_algorithms_enabled()",
    "torch.set_num_threads(2)": "torch.get_num_threads()",
    "torch.set_float32_matmul_precision('medium')": "torch.get_float32_matmul_precision()",
    "torch.set_autocast_enabled('cpu', True)": "torch.is_autocast_enabled('cpu')",
    "warnings.simplefilter('error')": "warnings.filters[0][0]",
    "numpy.seterr(all='raise')": "numpy.geterr()['over']",
    "sys.setrecursionlimit(5_000)": "sys.getrecursionlimit()",
}
CHECKED = ("mean_loss", "my_sync_gradients")  # of which the second needs gradients


@pytest.mark.ranks
@pytest.mark.parametrize("statement", SET)
def test_a_right_answer_is_right_whatever_a_cell_has_set(labs, ask, statement):
    read = f"str({SET[statement]})"
    lab = labs(2)
    at_start = ask(lab[:], read, "import numpy, sys, warnings")
    for name in CHECKED:
        lab[:].execute(exercise_named(name).solution, block=True)
    assert (set_to := ask(lab[:], read, statement)) != at_start
    for name in CHECKED:
        assert grade(lab, exercise_named(name), seed=1).text.startswith(
            "not solved yet: right in a world of 2, "
        )
    assert ask(lab[:], read) == set_to
    assert ask(labs(2)[:], read, "import numpy, sys, warnings") == at_start


@pytest.mark.ranks
def test_nor_what_the_notebook_has_set(labs):
    lab = labs(2)
    lab[:].execute(exercise_named("mean_loss").solution, block=True)
    torch.set_default_dtype(torch.float64)
    try:
        told = grade(lab, exercise_named("mean_loss"), seed=1).text
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert told.startswith("not solved yet: right in a world of 2, ")


def test_what_is_set_meanwhile_is_put_back():
    before = [setting.read() for setting in SETTINGS]
    with pytest.raises(ZeroDivisionError), as_at_start():
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        raise ZeroDivisionError
    assert [setting.read() for setting in SETTINGS] == before


def test_inference_mode_is_left_for_a_check():
    with torch.inference_mode():
        with as_at_start():
            torch.ones(1, requires_grad=True).sum().backward()
        assert torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
