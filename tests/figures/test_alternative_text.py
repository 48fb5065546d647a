"""A picture says in words what it shows, in the notebook's file and on pages made from it."""

from base64 import b64decode

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbclient import NotebookClient
from nbconvert import HTMLExporter

CELL = """
from labkit.figures import curves

curves({"one process": ([2.0, 1.0], []), "four ranks": ([2.0, 1.1], [])}, "Four ranks end as one does")
"""


@pytest.fixture(scope="module")
def notebook():
    """A notebook with one picture, as a kernel stores it."""
    written = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    return NotebookClient(written, timeout=120, kernel_name="python3").execute()


@pytest.mark.ranks  # no ranks, but a kernel
def test_the_stored_picture_has_it_and_text_in_its_place(notebook):
    (output,) = notebook.cells[0].outputs
    said = "Figure: Four ranks end as one does (loss over step)"
    assert "image/png" in output.data and output.metadata["image/png"]["alt"] == said
    assert output.data["text/plain"] == said
    assert b"PLTE" in b64decode(output.data["image/png"]), "not matplotlib's picture of any figure"
    assert b"PLTE" in b64decode(output.metadata["image/png"]["dark"])


@pytest.mark.ranks
def test_a_page_made_from_it_has_it(notebook):
    page, _ = HTMLExporter(template_name="classic").from_notebook_node(notebook)
    (picture,) = BeautifulSoup(page, "html.parser").select("img")
    assert picture["alt"].startswith("Figure: Four ranks end as one does")
