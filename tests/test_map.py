"""The maps of the code name what is there: labkit/README.md."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "labkit"
FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))


MAP = (PACKAGE / "README.md").read_text()


def in_the_tree() -> list[str]:
    """The paths of the tree in labkit/README.md, whose depth is told by its indentation."""
    tree = MAP.partition("## The tree")[2].partition("```text\n")[2].partition("```")[0]
    above: dict[int, str] = {}
    found = []
    for line in tree.splitlines():
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        above[depth] = above.get(depth - 1, "") + name
        found.append(above[depth])
    return found


def named() -> set[str]:
    """All paths that labkit/README.md names: in its tree, in its walks, as targets of links."""
    walks = re.findall(r"`(?:labkit/)?([\w/]+(?:/|\.py))`", MAP)
    return {*in_the_tree(), *walks, *re.findall(r"\]\(([^)]+)\)", MAP)}


def test_the_map_names_what_exists():
    missing = {path for path in named() if not (PACKAGE / path).exists()}
    assert len(named()) > 60 and missing == set()


def test_the_map_has_every_folder():
    folders = {f"{folder.relative_to(PACKAGE)}/" for folder in FOLDERS if folder != PACKAGE}
    assert {path for path in in_the_tree() if path.endswith("/")} == folders


def walks() -> list[tuple[str, list[str]]]:
    """Each walk with the files that begin its numbered lines, in order."""
    sections = re.findall(r"(?ms)^## (A .+?)\n(.*?)(?=^## |\Z)", MAP)
    return [(title, re.findall(r"(?m)^\d+\. `([\w/]+\.py)`:", text)) for title, text in sections]


@pytest.mark.parametrize(
    ("title", "files"), walks(), ids=lambda found: found if isinstance(found, str) else ""
)
def test_a_walk_passes_each_folder_once(title, files):
    """But where the map says why: the word "back" in the walk."""
    folders = [str(Path(file).parent) for file in files]
    visits = [folder for folder, before in zip(folders, [None, *folders], strict=False) if folder != before]
    again = {folder for folder in visits if visits.count(folder) > 1}
    text = MAP.partition(f"## {title}\n")[2].partition("\n## ")[0]
    explained = {folder for folder in again if re.search(rf"\bback (in|to) `{folder}/`", text)}
    assert len(files) > 9 and again == explained


def test_the_layers_are_those_that_are_held():
    held = re.search(r"layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL)[1]
    layers = MAP.partition("## The layers")[2].partition("```text\n")[2].partition("```")[0]
    assert layers.split("\n")[:-1] == re.findall(r'"(.*?)"', held)
