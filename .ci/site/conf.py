"""The site: lessons as stored, pages that lie beside their subject, and the reference from the docstrings.

    python -m sphinx -W --keep-going -b html .ci/site build/site

No notebook is executed: what a reader sees is what the tests compare.
"""

import json
import re
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


PAGES = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "notebooks/README.md",
    "notebooks/course/README.md",
    "notebooks/hang_museum.md",
    "cluster/README.md",
    "cluster/hub/README.md",
    "cluster/hub/WALLS.md",
    "cluster/box/README.md",
    "cluster/slurm/README.md",
    "cluster/ssh/README.md",
    "labkit/README.md",
    "tests/faults/BELOW.md",
    "tests/faults/FAULTS.md",
    "tests/faults/PROGRAMS.md",
)


def stage() -> None:
    """Bring what lies elsewhere in the project into `made`, at the same place in it, so that links hold."""
    made = HERE / "made"
    shutil.rmtree(made, ignore_errors=True)
    lessons = (ROOT / "notebooks" / lesson.file for lesson in front_page.lessons(ROOT / "notebooks"))
    for file in (*lessons, *ROOT.glob("notebooks/course/*.ipynb")):
        notebook = json.loads(file.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            describe(cell)
        write(made / file.relative_to(ROOT), json.dumps(notebook))
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        write(made / page, text)
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            bring_along(made, ROOT / page, target)
    write(made / "benchmarks.md", benchmarks.page(ROOT / "tests" / "bench"))
    write(made / "figures.md", figures.page(made / "figures"))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def bring_along(made: Path, page: Path, target: str) -> None:
    """A file that a page links to and that is no page itself: the site offers it as it is."""
    file = (page.parent / target).resolve().relative_to(ROOT)
    if file.suffix not in (".md", ".ipynb"):
        write(made / file, (ROOT / file).read_text(encoding="utf-8"))


def describe(cell: dict) -> None:
    """Tell MyST-NB, which asks the cell, the description that a picture brings along."""
    for output in cell.get("outputs", ()):
        alt = output.get("metadata", {}).get("image/png", {}).get("alt")
        if alt:
            cell["metadata"]["mystnb"] = {"image": {"alt": alt}}


def require_descriptions(app, page: str, template: str, context: dict, doctree) -> None:
    """A picture that says nothing to a screen reader is a warning, so it fails the build."""
    for picture in doctree.findall(nodes.image) if doctree else ():
        if not picture.get("alt"):
            logger.warning("a picture without alternative text: %s", picture.get("uri"), location=page)


def without_files(app, what, name, found, options, lines: list[str]) -> None:
    """The list of files in a folder's docstring is for who reads the code, not for who uses a name."""
    if what == "module":
        lines[:] = [line for line in lines if not re.match(r"[\w.]+/? {2,}\S", line)]


def setup(app) -> None:
    stage()
    app.connect("autodoc-process-docstring", without_files)
    app.connect("html-page-context", require_descriptions)
