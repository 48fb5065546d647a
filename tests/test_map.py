"""The maps of the code name what is there: each folder's list of its files, and labkit/README.md."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "labkit"
FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
INNER = [folder for folder in FOLDERS if folder != PACKAGE]  # labkit's own list is in its README
LISTED = re.compile(r"^([\w.]+/?) {2,}\S", re.MULTILINE)


def listed(folder: Path) -> list[str]:
    """What the folder's own list names: "cell", "display/", "tiles.css"."""
    return LISTED.findall(ast.get_docstring(ast.parse((folder / "__init__.py").read_text()), clean=False))


def there(folder: Path) -> set[str]:
    """The same from the folder itself. Lessons are one line together, or each new one would need another."""
    found = [path for path in folder.iterdir() if not path.name.startswith((".", "__init__", "__pycache__"))]
    names = {f"{path.name}/" if path.is_dir() else path.name.removesuffix(".py") for path in found}
    return {re.sub(r"^lesson_\d\d$", "lesson_NN", name) for name in names}


@pytest.mark.parametrize("folder", INNER, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_lists_its_files_one_a_line(folder):
    names = listed(folder)
    assert len(names) == len(set(names)) and set(names) == there(folder)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_opens_with_one_sentence(folder):
    first = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())).partition("\n\n")[0]
    assert first.endswith(".") and "\n" not in first


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
    folders = {f"{folder.relative_to(PACKAGE)}/" for folder in INNER}
    assert {path for path in in_the_tree() if path.endswith("/")} == folders
    assert there(PACKAGE) == {path for path in folders if path.count("/") == 1} | {"README.md", "py.typed"}


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
