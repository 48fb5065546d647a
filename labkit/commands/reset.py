"""`labkit reset 05`: a lesson as it was when it was installed; what you made of it is kept beside it."""

import argparse
from pathlib import Path

from labkit import LabError
from labkit.commands import lessons


def main(arguments: list[str]) -> int:
    """labkit reset LESSON: its number, or its file."""
    parser = argparse.ArgumentParser(prog="labkit reset", description=__doc__)
    parser.add_argument("lesson", help="its number, as 05, or its file")
    asked = parser.parse_args(arguments).lesson
    found = [Path(asked), *Path().glob(f"{asked}_*.ipynb"), *Path("notebooks").glob(f"{asked}_*.ipynb")]
    file = next((path for path in found if path.is_file()), None)
    if file is None:
        raise LabError(f"lesson {asked} as it was", "it is not here", "cd to the folder of the lessons")
    kept = lessons.reset(file)
    print(f"{file.name} is as it was; yours is {kept}")
    return 0
