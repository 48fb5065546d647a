"""The site: lessons as they are stored, how-to pages, and the reference from the docstrings.

    python -m sphinx -W --keep-going -b html .ci/docs build/site

No notebook is executed: what a reader sees is what the tests compare.
"""

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(HERE))

import benchmarks  # noqa: E402
import figures  # noqa: E402
from docutils import nodes  # noqa: E402
from sphinx.util import logging  # noqa: E402

import labkit  # noqa: E402
from labkit.commands import front_page  # noqa: E402

logger = logging.getLogger(__name__)

project, author, copyright = "labkit", "the labkit authors", "the labkit authors"
release = version = labkit.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "formulas"]
exclude_patterns = ["made/parts/*"]
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # lessons have their own order of headings

autodoc_typehints = "signature"
autodoc_inherit_docstrings = False  # torch's refer to pages of its own site
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
highlight_language = "none"  # for blocks that name none: most are commands and outputs
default_role = "literal"  # docstrings write `code` so

html_math_renderer = "mathml"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = "labkit"
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False


def stage() -> None:
    """Bring what lies elsewhere in the project into `made`, from where Sphinx reads it."""
    made = HERE / "made"
    shutil.rmtree(made, ignore_errors=True)
    (made / "lessons").mkdir(parents=True)
    lessons = front_page.lessons(ROOT / "notebooks")
    for lesson in lessons:
        notebook = json.loads((ROOT / "notebooks" / lesson.file).read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            describe(cell)
        (made / "lessons" / lesson.file).write_text(json.dumps(notebook), encoding="utf-8")
    (made / "lessons.md").write_text(contents(lessons))
    (made / "benchmarks.md").write_text(benchmarks.page(ROOT / "tests" / "commands" / "bench"))
    (made / "figures.md").write_text(figures.page(made / "figures"))
    faults = (ROOT / "tests" / "faults" / "FAULTS.md").read_text()
    (made / "faults.md").write_text(faults)
    (made / "changes.md").write_text((ROOT / "CHANGELOG.md").read_text())


def describe(cell: dict) -> None:
    """Tell MyST-NB, which asks the cell, the description that a picture brings along."""
    for output in cell.get("outputs", ()):
        alt = output.get("metadata", {}).get("image/png", {}).get("alt")
        if alt:
            cell["metadata"]["mystnb"] = {"image": {"alt": alt}}


def contents(lessons) -> str:
    """The page of all lessons: its table, and the list that Sphinx follows."""
    rows = [f"| {x.file[:2]} | [{x.title}](lessons/{x.file}) | {x.question} | {x.minutes} |" for x in lessons]
    table = "\n".join(["| | lesson | question | minutes |", "|---|---|---|---|", *rows])
    entries = "\n".join(f"lessons/{x.file.removesuffix('.ipynb')}" for x in lessons)
    followed = f"```{{toctree}}\n:hidden:\n\n{entries}\n```"
    return "\n\n".join(["# Lessons", "As they are stored: run them to see yours.", table, followed]) + "\n"


def require_descriptions(app, page: str, template: str, context: dict, doctree) -> None:
    """A picture that says nothing to a screen reader is a warning, so it fails the build."""
    for picture in doctree.findall(nodes.image) if doctree else ():
        if not picture.get("alt"):
            logger.warning("a picture without alternative text: %s", picture.get("uri"), location=page)


def setup(app) -> None:
    stage()
    app.connect("html-page-context", require_descriptions)
