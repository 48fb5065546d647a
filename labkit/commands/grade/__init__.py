"""Answers that were handed in, each run again in a sandbox and judged: who solved what, and which mistake.

again     every answer, judged again
sandbox   a program run between walls, watched and ended
walls     what an answer can see of the machine
veil      what it can see of the lessons
begin     the first that runs there
inside    an answer, judged there
guarded   what ranks tell it, as data alone
unusual   what an answer names that no exercise needs
table     what came of it, as a table and as a page
"""

import argparse
import os
import sys
from pathlib import Path

from labkit import LabError
from labkit.commands.grade import again, sandbox, table
from labkit.commands.grade.walls import Limits
from labkit.exercises.submission import printable
from labkit.launch import private

CSV, PAGE = "grades.csv", "grades.html"
UNSAFE = (
    "No sandbox: each answer runs as you, and can read and change your files, use your network, and end your "
    "programs."
)


def main(arguments: list[str]) -> int:
    """labkit grade FOLDER [--into FOLDER] [--seconds N] [--memory MB] [--at-once N] [--no-sandbox]."""
    usual = Limits()
    parser = argparse.ArgumentParser(prog="labkit grade", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the files are that `labkit submit` wrote")
    parser.add_argument("--into", type=Path, help=f"where {CSV} and {PAGE} go (the same folder)")
    parser.add_argument("--seconds", type=float, default=usual.seconds, help="for one answer (%(default)g)")
    parser.add_argument("--memory", type=int, default=usual.memory, help="MB for one answer (%(default)s)")
    parser.add_argument("--at-once", type=int, default=1, help="answers at the same time (%(default)s)")
    parser.add_argument("--no-sandbox", action="store_true", help="run them as you; for answers of your own")
    args = parser.parse_args(arguments)
    if not args.folder.is_dir():
        raise LabError(
            f"answers in {args.folder}", "there is no such folder", "name the folder of what was handed in"
        )
    found, broken = again.submissions(args.folder)
    if not found and not broken:
        fix = "`labkit submit` writes such files; name the folder they are in"
        raise LabError(f"answers in {args.folder}", "no file there ends in .labkit.json", fix)
    if min(args.seconds, args.memory, args.at_once) <= 0:
        raise LabError("limits for answers", "one of them is not above 0", "leave it out for the usual one")
    into = args.into or args.folder
    for name, begins in ((CSV, ",".join(table.COLUMNS)), (PAGE, f"<!doctype html>\n{table.MARK}")):
        _require_ours(into / name, begins)
    if args.no_sandbox:
        print(UNSAFE, file=sys.stderr)
    bwrap = "" if args.no_sandbox else sandbox.require()
    limits = Limits(args.seconds, args.memory)
    hidden = [args.folder, into]
    if found:
        again.require_fair(bwrap, limits, hidden)
    results = again.judged(found, bwrap, limits, hidden, args.at_once, _tell)
    private.write(into / CSV, table.as_csv(results), mode=0o600)
    private.write(into / PAGE, table.as_page(results, broken), mode=0o600)
    solved, agree = sum(r.solved for r in results), sum(r.agrees for r in results)
    print(f"{len(results)} answers of {len(found)} learners: {solved} right, {agree} as the learner was told")
    for file, why in broken.items():
        print(f"{printable(file)}: {printable(why)}", file=sys.stderr)
    print(f"{into / CSV}\n{into / PAGE}")
    return 1 if broken else 0


def _tell(number: int, of: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if number == of else ""
        print(f"\ranswer {number} of {of}", end=end, file=sys.stderr, flush=True)


def _require_ours(file: Path, begins: str) -> None:
    """LabError if the file is there, and no earlier grading has made it."""
    if not file.parent.is_dir():
        raise LabError(f"{file.name} in {file.parent}", "there is no such folder", "make it first")
    if os.path.lexists(file) and not file.read_text(errors="replace").startswith(begins):
        raise LabError(
            f"{file.name} in {file.parent}", "a file of that name is yours", "--into another folder"
        )
