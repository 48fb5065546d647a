"""Why ranks did not come up, in a sentence that a newcomer can act on, from what they said last. Pure."""

import re
import sys
from pathlib import Path

from labkit.launch.preflight import judge

UNKNOWN = "run `labkit doctor` in a terminal, which says what this machine lacks"
"""The fix where the last lines are no known story."""
_IMPORT = re.compile(r"^(?:\w*ImportError|ModuleNotFoundError|AttributeError): (.*)$", re.M)
_LACKING = re.compile(r"No module named '([\w.]+)'$")
_NO_MEMORY = re.compile(r"MemoryError|Cannot allocate memory|Out of memory|ENDED: -9\b", re.I)


def why(said: str, folder: Path) -> tuple[str, str]:
    """(found, fix), empty and UNKNOWN if the story is not known; `folder` is where the ranks were started.

    >>> why("ModuleNotFoundError: No module named 'scipy'", Path("/nowhere"))[0]
    'the ranks lack the module scipy'
    """
    if "Bus error" in said:
        return "the ranks' shared memory is full", judge.MORE_SHARED_MEMORY
    for words in reversed(_IMPORT.findall(said)):
        hidden = [name for name in re.findall(r"'(\w+)(?:\.[\w.]+)?'", words) if _hides(folder, name)]
        if hidden:
            file = folder / f"{hidden[0]}.py"
            return f"{file.name} in {folder} hides the module {hidden[0]}", f"rename {file.name}"
        if lacking := _LACKING.search(words):
            name = lacking[1].partition(".")[0]
            return f"the ranks lack the module {name}", f"{sys.executable} -m pip install {name}"
    if _NO_MEMORY.search(said):
        return "there was not enough memory for so many ranks", "ask for fewer, or close other notebooks"
    return "", UNKNOWN


def _hides(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file()
