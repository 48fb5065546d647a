"""The controller of a lab is one process, whose end is noticed; no part of it can end alone."""

from labkit.launch import processes


def test_a_controller_is_one_process(labs):
    """Its heart monitor had its own: killed while a lab started, no rank came, and nobody knew for 120 s."""
    (controller,) = processes.of_lab(labs(2)._engines.lab_id, module="ipyparallel.controller")
    assert controller.children() == []
