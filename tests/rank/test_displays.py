"""Clears, updates, progress bars and widgets of ranks, over a real kernel."""

from labkit.rank.displays import DEAF

TABLE = """%%px
class Table:
    def __repr__(self):
        return f"table of {rank}"
    def _repr_html_(self):
        return f"<table><tr><td>{rank}</td></tr></table>"
"""


def test_clear_output_leaves_what_comes_after(kernel):
    shown = kernel.text(
        "%%px\nfrom IPython.display import clear_output, display\n"
        "for i in range(3):\n    clear_output(wait=True)\n    print('step', i)\n    display(10 * i)\n"
        "clear_output(wait=True)"
    )
    assert shown == "[ranks 0-1] step 2\n            20"
    assert kernel.text("%%px\nprint('gone')\nclear_output()") == ""


def test_an_update_takes_its_displays_place(kernel):
    shown = kernel.text("%%px\nh = display('one', display_id=True)\ndisplay('two')\nh.update('three')")
    assert shown == "[ranks 0-1] 'three'\n            'two'"


def test_progress_bars_end_at_100_percent(kernel):
    for module in ("auto", "notebook"):
        shown = kernel.text(f"%%px\nfrom tqdm.{module} import tqdm\nfor i in tqdm(range(3)): pass")
        assert shown.count("100%") == 2 and " 0%" not in shown, shown


def test_widgets_are_text_as_they_are_in_the_end(kernel):
    shown = kernel.run("%%px\nimport ipywidgets\nw = ipywidgets.IntSlider(3)\ndisplay(w)\nw.value = 5")
    assert [o["data"]["text/plain"] for o in shown] == [f"[ranks 0-1] IntSlider(value=5)\n            {DEAF}"]
    for made in ("VBox([HBox([Button()])])", "Text('x')"):
        assert kernel.text(f"%%px\nfrom ipywidgets import *\n{made}").endswith(DEAF)
    assert DEAF not in kernel.text("%%px\nHBox([Label('x'), FloatProgress(1)])")


def test_tables_come_whole_and_in_rank_order(kernel):
    (shown,) = kernel.run(TABLE + "Table()")
    assert shown["data"]["text/plain"] == "[rank 0] table of 0\n[rank 1] table of 1"
    html = shown["data"]["text/html"]
    assert html.index("<td>0</td>") < html.index("<td>1</td>")


def test_markdown_formulas_and_pictures(kernel):
    shown = kernel.run(
        "%%px\nfrom IPython.display import Markdown, Math, SVG\n"
        "display(Markdown('**bold**'))\ndisplay(Math('x^2'))\ndisplay(SVG(f'<svg><text>{rank}</text></svg>'))"
    )
    kinds = ["text/markdown" if "text/markdown" in o["data"] else "text/html" for o in shown]
    assert kinds == ["text/html", "text/markdown", "text/markdown", "text/html"]
    assert "bold" in shown[1]["data"]["text/markdown"] and "x^2" in shown[2]["data"]["text/markdown"]
    assert shown[3]["data"]["text/plain"] == "picture of rank 0\npicture of rank 1"


def test_one_warning_of_all_ranks_is_one(kernel):
    shown = kernel.text("%%px\nimport warnings\nwarnings.warn('careful')")
    assert shown.startswith("[ranks 0-1] In [") and shown.count("UserWarning: careful") == 1
