"""Tab and Shift+Tab in cells of the ranks, asked of a real kernel as any front end does."""

import time

import pytest

from labkit.lab.help import words
from tests.waiting import lasting, until


@pytest.fixture
def rank_answers(kernel):
    """However late it is. Who types does not wait for that, and is told what the kernel knows."""
    with kernel.having("labkit.lab.remote.HELP_WITHIN", 30.0):
        yield


def test_tab_completes_what_lives_on_the_ranks(kernel, rank_answers):
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


def test_help_comes_from_the_rank(kernel, rank_answers):
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


@pytest.mark.timed
def test_it_takes_no_longer_than_somebody_waits(kernel):
    kernel.complete("%%px\ndist.all_re|")
    for ask in (kernel.complete, kernel.inspect):
        took = []
        for _ in range(5):
            start = time.monotonic()
            assert ask("%%px\ndist.all_reduce|")
            took.append(time.monotonic() - start)
        assert min(took) < 0.3, "what else the machine does makes it longer alone"


@pytest.fixture
def busy(tmp_path):
    """A cell that lasts until a file is there, that file, and how to wait until rank 0 is in the cell."""
    begun, end = tmp_path / "begun", tmp_path / "end"
    cell = f"last_word = 1\nif rank == 0: open({str(begun)!r}, 'w').close()\n{lasting(end)}"
    return cell, end, lambda: until(begun.exists)


def test_while_ranks_are_busy_the_cells_say_it(kernel, busy):
    """Who waited for the ranks would get no answer at all."""
    cell, end, begun = busy
    kernel.run("%%px\nlearning_rate = 0.1\ndist.all_reduce_coalesced")
    kernel.run(f"%%px --noblock\n{cell}")
    try:
        assert begun()
        assert "learning_rate" in kernel.complete("%%px\nlearning_r|")
        assert "last_word" in kernel.complete("%%px\nlast_w|")
        assert "all_reduce_coalesced" in kernel.complete("%%px\ndist.all_re|")
        kernel.inspect("%%px\ndist.all_reduce|")
    finally:
        end.touch()
        kernel.run("%pxresult")


@pytest.mark.parametrize(
    "ask, told",
    [
        (lambda kernel: kernel.complete("%%px\nlearning_r|"), "learning_rate"),
        (lambda kernel: kernel.inspect("lab.restart|"), "Replace the ranks"),
    ],
    ids=["Tab", "Shift+Tab"],
)
def test_a_running_cell_holds_up_nobody_who_types(kernel, busy, ask, told):
    cell, end, begun = busy
    kernel.run("%%px\nlearning_rate = 0.1")
    kernel.complete("%%px\nlearning_r|")
    assert told in kernel.during(f"%%px\n{cell}", lambda: begun() and ask(kernel), end)
    assert kernel.text("%%px\nprint('right')") == "[ranks 0-1] right"


WHEN_ASKED = """
import time
from labkit.lab import meanwhile

def when_asked(info):
    events.unregister("pre_run_cell", when_asked)
    questions, until = meanwhile._receiver(get_ipython().kernel)._handed_on, time.monotonic() + 30
    while not questions and time.monotonic() < until:
        time.sleep(0.01)

events = get_ipython().events
events.register("pre_run_cell", when_asked)
"""
"""The next cell begins when somebody has asked, whose question then lies behind that cell."""


def test_who_types_as_a_cell_begins_does_not_wait_for_its_end(kernel, busy):
    cell, end, _ = busy
    kernel.run("%%px\nlearning_rate = 0.1")
    kernel.run(WHEN_ASKED)
    asked = kernel.during(f"%%px\n{cell}", lambda: kernel.complete("%%px\nlearning_r|"), end)
    assert "learning_rate" in asked
    assert kernel.complete("%%px\nlearning_r|") == ["learning_rate"], "and afterwards as ever"
    assert kernel.text("%%px\nprint('right')") == "[ranks 0-1] right"


def test_words_of_the_cells():
    assert words(["dist.all_reduce(x)", "all_right = x.dist.all_no"], "dist.all") == (
        "all",
        {"all_reduce": ""},
    )
    assert words(["a1 = 1\nprint(a2.b)"], "") == ("", {"a1": "", "print": "", "a2": ""})
