"""Every relative link in a Markdown file leads to a file that is there, and to a heading that is there."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("labkit", "notebooks", "cluster", "tests", ".github")
CODE = re.compile(r"(?ms)^```.*?^```|`[^`\n]*`")
LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)\)")


def texts() -> list[Path]:
    """The Markdown files of the project; links of those in `.ci/site` lead to pages, which Sphinx checks."""
    below = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))
    return sorted([*ROOT.glob("*.md"), *below])


@cache
def anchors(path: Path) -> set[str]:
    """A file's headings as code hosts write them into addresses."""
    headings = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```", "", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(path: Path, text: str) -> list[str]:
    """The links of a text, as it stands in that file, that lead nowhere."""
    found = []
    for link in LINK.findall(CODE.sub("", text)):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("path", texts(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path):
    assert broken(path, path.read_text(encoding="utf-8")) == []


def test_every_test_that_a_page_names_is_there():
    page = (ROOT / "cluster" / "hub" / "WALLS.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), (file, test)


def test_a_link_that_leads_nowhere_is_found():
    text = "[a](gone.md) [b](#help) [c](LICENSE) [d](#gone) [e](CHANGELOG.md#gone) `[f](code.md)` [g](https://x.y)"
    assert broken(ROOT / "README.md", text) == ["gone.md", "#gone", "CHANGELOG.md#gone"]


def test_the_entrances_are_among_the_files():
    names = {str(path.relative_to(ROOT)) for path in texts()}
    assert {
        "README.md",
        "CONTRIBUTING.md",
        "labkit/README.md",
        "notebooks/README.md",
        "cluster/README.md",
    } <= names
