"""`labkit class FOLDER`: what learners share of their progress, as a page that keeps up with them.

tally       from their files to what a teacher wants to know
server      the page, for who has its address or the hub's login
page.html   a heading, a sentence, a table
page.js     asks what there is, and fills them in
page.css    large enough to be read from the back row
"""

import argparse
import webbrowser
from pathlib import Path

from labkit import LabError


def main(arguments: list[str]) -> int:
    """labkit class FOLDER [--port N] [--no-browser] [--hub]."""
    parser = argparse.ArgumentParser(prog="labkit class", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where learners share, as `labkit share FOLDER` does")
    parser.add_argument("--port", type=int, default=0, help="on this machine alone (a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open nothing")
    parser.add_argument("--hub", action="store_true", help="as a service of JupyterHub, with its login")
    args = parser.parse_args(arguments)
    if not args.folder.is_dir():
        raise LabError(f"the class in {args.folder}", "there is no such folder", "make it, and tell learners")
    from labkit.commands.classroom import server

    if args.hub:
        return server.serve_hub(args.folder)
    return server.serve(args.folder, args.port, print if args.no_browser else _open)


def _open(address: str) -> None:
    print(address, flush=True)
    webbrowser.open(address)
