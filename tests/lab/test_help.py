"""Tab and Shift+Tab in cells of the ranks, asked of a real kernel as any front end does."""

import time

import pytest

from labkit.lab.help import words


def test_tab_completes_what_lives_on_the_ranks(kernel):
    kernel.run("%%px\nmine = torch.zeros(2, 3)\nmodel = torch.nn.Sequential(torch.nn.Linear(2, 2))")
    assert kernel.complete("%%px\ndist.all_re|") == ["all_reduce", "all_reduce_coalesced"]
    assert "mine" in kernel.complete("%%px\nmi|")
    assert "numel" in kernel.complete("%%px --trace\nx = 1\nprint(mine.num|, 2)")
    assert "in_features" in kernel.complete("%%px\nmodel[0].in_|")
    assert "tensor=" in kernel.complete("%%px\ndist.all_reduce(ten|")
    kernel.run("%%px --targets 1\nonly_here = 1")
    assert kernel.complete("%%px --targets 1\nonly_h|") == ["only_here"]


def test_tab_completes_what_the_cell_is_about_to_define(kernel):
    assert "gradient_norm" in kernel.complete("%%px\ngradient_norm = 1\nprint(grad|)")


def test_tab_completes_the_options(kernel):
    assert kernel.complete("%%px --tr|\n1") == ["--trace"]
    assert kernel.complete("%%px --deadline 3 --keep|") == ["--keep-pending"]
    assert kernel.complete("%%px --targets |") == ["0", "1", "all"]
    assert kernel.complete("%%px -t 0,|\nrank") == ["0", "1", "all"]
    assert kernel.complete("%%px --group-outputs e|") == ["engine"]


def test_other_cells_are_the_kernels_own(kernel):
    assert "lab" in kernel.complete("la|")
    assert "mine" not in kernel.complete("mi|")
    assert "torch" in kernel.complete("%%px\nimport tor|")


def test_help_comes_from_the_rank(kernel):
    kernel.run('%%px\ndef twice(x: int) -> int:\n    """Two times x."""\n    return 2 * x')
    shown = kernel.inspect("%%px\ntwice|(3)")
    assert "twice(x: int) -> int" in shown and "Two times x." in shown and "return" not in shown
    assert "return" in kernel.inspect("%%px\ntwice(|3)", detail=1)
    assert "Reduces the tensor data" in kernel.inspect("%%px --trace\ndist.all_re|duce(x)")
    assert kernel.inspect("%%px\nno_such_na|me") == ""


def test_a_question_mark_is_answered_in_the_output(kernel):
    kernel.run('%%px\ndef twice(x: int) -> int:\n    """Two times x."""\n    return 2 * x')
    short, long = kernel.text("%%px\ntwice?"), kernel.text("%%px\ntwice??")
    assert short.startswith("[ranks 0-1]") and "Two times x." in short and "return" not in short
    assert "return" in long


def test_it_takes_no_longer_than_somebody_waits(kernel):
    kernel.complete("%%px\ndist.all_re|")
    for ask in (kernel.complete, kernel.inspect):
        start = time.monotonic()
        assert ask("%%px\ndist.all_reduce|")
        assert time.monotonic() - start < 0.3


def test_while_ranks_are_busy_the_cells_say_it(kernel):
    kernel.run("%%px\nlearning_rate = 0.1\ndist.all_reduce_coalesced")
    kernel.run("%%px --noblock\nimport time\nlast_word = 1\ntime.sleep(1.5)")
    time.sleep(0.3)
    start = time.monotonic()
    assert "learning_rate" in kernel.complete("%%px\nlearning_r|")
    assert "last_word" in kernel.complete("%%px\nlast_w|")
    assert "all_reduce_coalesced" in kernel.complete("%%px\ndist.all_re|")
    kernel.inspect("%%px\ndist.all_reduce|")
    assert time.monotonic() - start < 1.2
    kernel.run("%pxresult")


@pytest.mark.timed
def test_a_running_cell_holds_up_nobody_who_types(kernel):
    kernel.run("%%px\nlearning_rate = 0.1")
    kernel.complete("%%px\nlearning_r|")
    cell = "%%px\nimport time\nlast_word = 1\ntime.sleep(1.4)"
    answer, took = kernel.during(cell, 0.4, lambda: kernel.complete("%%px\nlearning_r|"))
    assert "learning_rate" in answer and took < 1
    answer, took = kernel.during(cell, 0.4, lambda: kernel.inspect("lab.restart|"))
    assert "Replace the ranks" in answer and took < 1
    assert kernel.text("%%px\nprint('right')") == "[ranks 0-1] right"


@pytest.mark.timed
def test_who_types_as_a_cell_begins_does_not_wait_for_its_end(kernel):
    kernel.run("%%px\nlearning_rate = 0.1")
    kernel.run("import time\ndef slow(info): time.sleep(0.2)\nevents = get_ipython().events")
    kernel.run("events.register('pre_run_cell', slow)")
    cell = "%%px\nimport time\ntime.sleep(1)"
    answer, took = kernel.during(cell, 0.05, lambda: kernel.complete("%%px\nlearning_r|"))
    kernel.run("events.unregister('pre_run_cell', slow)")
    assert "learning_rate" in answer and took < 0.8
    assert kernel.complete("%%px\nlearning_r|") == ["learning_rate"], "and afterwards as ever"
    assert kernel.text("%%px\nprint('right')") == "[ranks 0-1] right"


def test_words_of_the_cells():
    assert words(["dist.all_reduce(x)", "all_right = x.dist.all_no"], "dist.all") == (
        "all",
        {"all_reduce": ""},
    )
    assert words(["a1 = 1\nprint(a2.b)"], "") == ("", {"a1": "", "print": "", "a2": ""})
