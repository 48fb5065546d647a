"""What is more than text is shown whole, in rank order, equal things once; the text stays beside it."""

import base64

from labkit.lab.display import rich
from labkit.lab.display.said import Said, text

TABLE = {"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "1"}
MARKDOWN = {"text/markdown": "# Title", "text/plain": "<Markdown>"}
RED, BLUE = ({"image/png": name, "text/plain": "<Figure>"} for name in ("red", "blue"))


def test_plain_output_has_no_more():
    assert not rich.is_there([Said(0, "a\n", displays=({"text/plain": "1"},))])


def test_tables_are_tables_once_and_text_beside():
    said = [Said(r, "a\n", displays=(TABLE,)) for r in range(2)]
    html = rich.html(said)
    assert (
        html.count("<table>") == 1 and "[ranks 0-1]" in html and text(said) == "[ranks 0-1] a\n            1"
    )


def test_stderr_is_set_apart():
    html = rich.html([Said(0, "out\n", "careful\n")])
    assert 'class="labkit-stdout"' in html.split("out</pre>")[0]
    assert 'class="labkit-stderr"' in html.split("out</pre>")[1].split("careful</pre>")[0]


def test_text_is_no_html():
    html = rich.html([Said(0, "<b>\n", "<i>\n", ({"text/plain": "<u>"},))])
    assert "&lt;b&gt;" in html and "&lt;i&gt;" in html and "&lt;u&gt;" in html and "<i>" not in html


def test_equal_warnings_of_other_processes_are_equal():
    said = [Said(r, stderr=f"/tmp/ipykernel_{r}/{r}.py:1: UserWarning: careful\n") for r in range(3)]
    assert text(said) == "[ranks 0-2] the cell:1: UserWarning: careful"


def test_markdown_has_a_label_and_is_not_shown_twice():
    said = [Said(0, displays=(MARKDOWN,)), Said(1, displays=(MARKDOWN,))]
    assert rich.others(said) == [
        {"text/markdown": "**[ranks 0-1]**\n\n# Title", "text/plain": "[ranks 0-1]\n# Title"}
    ]
    assert "Markdown" not in rich.html(said)


def test_what_the_page_draws_itself_is_handed_on():
    bundle = {"application/geo+json": {"type": "Point"}, "text/plain": "<GeoJSON>"}
    label, data = rich.others([Said(1, displays=(bundle,))])
    assert label == {"text/markdown": "**[rank 1]**", "text/plain": "[rank 1]"} and data == {
        "application/geo+json": {"type": "Point"}
    }


def test_pictures_stand_in_a_grid_with_labels_and_alternative_text():
    grid = rich.gallery([Said(0, displays=(RED,)), Said(1, displays=(BLUE,)), Said(2, displays=(RED,))])
    assert grid["text/plain"] == "picture of ranks 0, 2\npicture of rank 1"
    assert grid["text/html"].count("<img") == 2 and 'alt="picture of rank 1"' in grid["text/html"]


def test_one_picture_is_as_it_was():
    assert rich.gallery([Said(0), Said(1, displays=(RED,))]) == {
        "image/png": "red",
        "text/plain": "picture of rank 1",
    }
    assert rich.gallery([Said(0)]) == {}


def test_a_drawing_is_a_picture():
    svg = {"image/svg+xml": "<svg/>"}
    html = rich.gallery([Said(0, displays=(svg,)), Said(1, displays=(RED,))])["text/html"]
    assert f"data:image/svg+xml;base64,{base64.b64encode(b'<svg/>').decode()}" in html
