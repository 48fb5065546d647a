"""`labkit class FOLDER`: what learners share of their progress, as a page that keeps up with them.

tally       from their files to what a teacher wants to know
server      the page, for who has its address or the hub's login
page.html   a heading, a sentence, a table
page.js     asks what there is, and fills them in
page.css    large enough to be read from the back row
"""

import argparse
import atexit
import secrets
import webbrowser
from html import escape
from pathlib import Path

from labkit import LabError
from labkit.launch import private
from labkit.launch.runtime import RUNTIME

PAGE = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>The class</title>
<a href="{address}">The class</a>
"""
"""Leads to the page, whose address has the token in it."""


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
    """Show it in a browser, whose command line all users of the machine can read: it gets a file to open.

    The file lies in a folder that is this user's alone, and goes when this process ends.
    """
    print(address, flush=True)
    file = private.folder(RUNTIME) / f"class-{secrets.token_hex(8)}.html"
    private.write(file, PAGE.format(address=escape(address)), mode=0o600)
    atexit.register(file.unlink, missing_ok=True)
    webbrowser.open(file.as_uri())
