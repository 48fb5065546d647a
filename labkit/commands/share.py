"""`labkit share`: let the teacher see which exercises you have tried and solved; `--stop` takes it back."""

import argparse
from pathlib import Path

from labkit.exercises import sharing


def main(arguments: list[str]) -> int:
    """labkit share [FOLDER | --stop]."""
    parser = argparse.ArgumentParser(prog="labkit share", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="the class's; at a hub it is known")
    parser.add_argument("--stop", action="store_true", help="share no more, and remove what was shared")
    args = parser.parse_args(arguments)
    if args.stop:
        file = sharing.end()
        print(f"nothing is shared any more; {file} is removed" if file else "nothing was shared")
        return 0
    file = sharing.begin(args.folder)
    print(
        "Your teacher sees from now on which exercises you tried, which are solved, and what the mistake in"
    )
    print("the others is called. Your answers, predictions and times are not shown.")
    print(f"All of it is in {file}; `labkit share --stop` ends it.")
    return 0
