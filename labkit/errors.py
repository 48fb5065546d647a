"""The one error that labkit raises for what a user did, or for what a machine lacks."""


class LabError(Exception):
    """Something a user can mend: says what was asked, what was found, and the fix.

    >>> raise LabError("4 ranks", "no mpiexec in this environment", "pip install 'labkit[mpich]'")
    Traceback (most recent call last):
        ...
    labkit.errors.LabError: asked: 4 ranks
    found: no mpiexec in this environment
    fix:   pip install 'labkit[mpich]'
    """

    def __init__(self, asked: str, found: str, fix: str):
        super().__init__(f"asked: {asked}\nfound: {found}\nfix:   {fix}")
        self.asked, self.found, self.fix = asked, found, fix

    def __reduce__(self):
        return LabError, (self.asked, self.found, self.fix)

    def _render_traceback_(self):
        """What IPython prints: the three lines, without labkit's own frames."""
        return [f"\x1b[31mLabError\x1b[0m\n{self}"]


def one_of(what: str, asked: str, known: tuple[str, ...]) -> None:
    """LabError unless what was asked is one of those that labkit knows."""
    if asked not in known:
        raise LabError(f"{what} {asked!r}", "labkit does not know it", f"use one of {', '.join(known)}")
