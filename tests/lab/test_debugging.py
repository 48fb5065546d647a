"""%debug opens the learner's own code, and never labkit's."""

from labkit.lab.display.said import plain


def test_an_error_of_ranks_cannot_be_opened_here(kernel):
    kernel.run("%%px\n1 / 0")
    (error,) = kernel.run("%debug")
    assert error["ename"] == "LabError" and "raised on ranks" in error["evalue"]


def test_the_frames_of_labkit_are_left_out(kernel):
    kernel.run("def called():\n    lab.compare('no such thing')\ncalled()")
    told = plain("".join(o.get("text", "") for o in kernel.run("%debug", "where", "q")))
    assert "lab.compare('no such thing')" in told and "labkit/lab" not in told


def test_other_errors_are_ipythons(kernel):
    kernel.run("def called():\n    return 1 / 0\ncalled()")
    told = plain("".join(o.get("text", "") for o in kernel.run("%debug", "where", "q")))
    assert "return 1 / 0" in told
