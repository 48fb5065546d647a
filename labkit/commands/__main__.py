"""The command: `labkit lab`, `labkit run` and the others, a module each."""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from labkit import LabError

OF_A_COURSE = ("lab", "reset", "grade", "export")
"""The commands that take `--course course.toml`."""
COMMANDS = {
    "lab": ("jupyterlab", "open JupyterLab; its notebooks share one lab"),
    "reset": ("reset", "a lesson as it was; yours is kept beside it"),
    "stop": ("stop", "end every lab of yours on this machine, also what a crash left"),
    "export": ("export", "a lesson's cells as a plain script"),
    "submit": ("submit", "your answers as one file, to hand in"),
    "grade": ("grade", "answers that were handed in, run again and judged"),
    "share": ("share", "let your teacher see which exercises you have solved"),
    "class": ("classroom", "what learners share, as a page that keeps up with them"),
    "run": ("run", "run a script where a lab's ranks would run"),
    "doctor": ("doctor", "what is wrong with this machine or these hosts"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one of the commands; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="labkit", description="A teaching lab for distributed deep learning."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (_, help) in COMMANDS.items():
        commands.add_parser(name, help=help, add_help=name == "stop")  # the others parse their own arguments
    asked, rest = parser.parse_known_args(argv)
    try:
        if asked.command in OF_A_COURSE:
            rest = _in_its_course(rest)
        module = import_module(f"labkit.commands.{COMMANDS[asked.command][0]}")
        return module.main(rest)
    except LabError as error:
        print(_shown(str(error)), file=sys.stderr)
    except OSError as error:  # of a file that was named, or a disk that is full
        print(f"labkit {asked.command}: the system says: {_shown(str(error))}", file=sys.stderr)
    return 1


def _shown(text: str) -> str:
    """Without what a terminal would obey: an error may quote files and names that other people made."""
    return "".join(sign if sign.isprintable() or sign == "\n" else ascii(sign)[1:-1] for sign in text)


def _in_its_course(arguments: list[str]) -> list[str]:
    """The arguments without `--course FILE`, which this process and all that it starts know from here on."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--course", type=Path)
    asked, rest = parser.parse_known_args(arguments)
    if asked.course:
        os.environ["LABKIT_COURSE"] = str(asked.course.resolve())  # before the catalogue of lessons is read
        from labkit.exercises import course

        os.environ.update(course.current().environment())
    return rest


if __name__ == "__main__":
    sys.exit(main())
