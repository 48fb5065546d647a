"""`labkit submit "Ada Lovelace"`: your answers as one file, to hand in; of you it has the name alone."""

import argparse
from pathlib import Path

from labkit import LabError
from labkit.exercises import submission


def main(arguments: list[str]) -> int:
    """labkit submit NAME [--into FOLDER]."""
    parser = argparse.ArgumentParser(prog="labkit submit", description=__doc__)
    parser.add_argument("name", help="yours, or what your teacher knows you by")
    parser.add_argument("--into", type=Path, default=Path(), help="the folder to write it into (this one)")
    args = parser.parse_args(arguments)
    if not args.into.is_dir():
        raise LabError(f"answers in {args.into}", "there is no such folder", "make it, or name another one")
    collected = submission.collected(args.name)
    file = submission.write(collected, args.into)
    right = sum(answer.solved for answer in collected.answers.values())
    print(f"{file}: {len(collected.answers)} answers as they were checked last, {right} of them right")
    print("It is plain text: look what is in it, then hand it in.")
    return 0
