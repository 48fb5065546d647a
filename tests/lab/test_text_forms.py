"""What labkit shows where a front end has text alone, as VS Code may: no widgets, extensions or scripts."""

import pytest

CELLS = {
    "lab": ("rank  host", "0     ", "ready"),
    "%%px\nprint('from', rank)": ("[rank 0] from 0", "[rank 1] from 1"),
    "%%px\nfor i in range(8): print('line', i, 'of', rank)": (
        "line 7 of 0",
        "[rank 1] line 0",
        "line 7 of 1",
    ),
    "%%px\nimport warnings; warnings.warn('careful')": ("[ranks 0-1] In [", "UserWarning: careful"),
    "%%px\nfrom IPython.display import Markdown\nMarkdown('*well*')": ("[ranks 0-1]\n*well*",),
    "%%px\nx = torch.zeros(1)\nif rank == 0: dist.recv(x, src=1)": (
        "deadlock: rank 1 finished the cell",
        "rank 0 in recv from rank 1, line 3",
    ),
    "%%px\n1 / rank": ("[rank 1] 1.0", "rank 0: ZeroDivisionError: division by zero (line 2: 1 / rank)"),
    "%%px --trace\nif rank == 0: dist.send(x, dst=1)\nelse: dist.recv(x, src=0)": ("Figure: ", "time"),
    "lab.last.trace.table()": ("0  send  to 1", "line 2: if rank == 0: dist.send(x, dst=1)"),
    "lab.last.trace.critical_path()": ("rank  verb", "waiting"),
    "lab.view()": ("waits for or computes", "1     ready"),
    "lab.compare('x')": ("the same on ranks 0-1, bit for bit",),
    "labkit.progress()": ("00      Meet the ranks", "exercises"),
    "%%px\ndef my_sum(numbers): return 0": (),
    "labkit.check('my_sum')": ("not solved yet: in a world of 2, nobody took numbers[0]",),
    "labkit.hint('my_sum')": ("hint 1 of 2",),
}
SHOWN = {"execute_result", "display_data", "update_display_data", "stream", "error", "clear_output"}


def plain(output: dict) -> str:
    kind = output["output_type"]
    if kind == "stream":
        return output["text"]
    return output["evalue"] if kind == "error" else output.get("data", {}).get("text/plain", "")


@pytest.mark.parametrize("watched", ["0", "1"], ids=["stored", "watched"])
def test_the_text_says_it_all(kernel, watched, tmp_path):
    kernel.run(f"import os\nos.environ.update(LABKIT_LIVE='{watched}', LABKIT_PROGRESS={str(tmp_path)!r})")
    try:
        for cell, expected in CELLS.items():
            shown = [output for output in kernel.run(cell) if output["output_type"] in SHOWN]
            for bundle in (output["data"] for output in shown if "data" in output):
                assert "text/plain" in bundle, f"{cell}: {list(bundle)}"
            told = "\n".join(map(plain, shown))
            for words in expected:
                assert words in told, f"{cell}\n\n{told}"
    finally:
        kernel.run("for name in ('LABKIT_LIVE', 'LABKIT_PROGRESS'): os.environ.pop(name, None)")
        kernel.run("lab.tiles = None")  # or every cell of other tests would show the view's
