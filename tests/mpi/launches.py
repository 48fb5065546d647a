"""Launches of the table: run every wanted case on one set of ranks, start again after one that broke."""

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from labkit.launch.hosts.ports import free_port
from tests.seed import SEED

from . import launcher
from .ranks import Plan
from .table import MODULES, Case

START_SECONDS = 120.0


@dataclass(frozen=True)
class Verdict:
    """What became of one case: one word per rank, and what to read when it is not `passed`."""

    words: tuple[str, ...]
    text: str
    reason: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.words) and set(self.words) == {"passed"}

    @property
    def word(self) -> str:
        """`passed`, `skipped` or `failed`, of all ranks together; a skip on any rank is a skip."""
        if self.passed:
            return "passed"
        return "skipped" if set(self.words) in ({"skipped"}, {"skipped", "passed"}) else "failed"


@dataclass
class Launches:
    """The verdicts for one world size and mode; cases run when the first of them is asked for."""

    size: int
    checked: bool
    wanted: list[Case]
    modules: tuple[str, ...] = MODULES
    carry_on: bool = False
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Verdict:
        while name not in self.verdicts:
            self._launch([c for c in self.wanted if c.name not in self.verdicts])
        return self.verdicts[name]

    def _launch(self, cases: list[Case]) -> None:
        assert cases, "every wanted case has a verdict"
        with tempfile.TemporaryDirectory(prefix="labkit-mpi-") as name:
            folder = Path(name)
            plan = Plan(
                [c.name for c in cases],
                launcher.BACKEND,
                SEED,
                free_port(),
                name,
                self.checked,
                self.size,
                self.modules,
                self.carry_on,
            )
            path = folder / "plan.json"
            path.write_text(json.dumps(asdict(plan)))
            allowed = START_SECONDS + sum(c.deadline for c in cases)
            finished = launcher.run(
                self.size,
                ["-m", f"{__package__}.ranks", str(path)],
                folder / "output.txt",
                allowed,
                LABKIT_CHECK="1" if self.checked else "0",
                TMPDIR=name,  # what an MPI leaves behind when it is killed goes with the folder
            )
            self._read(folder, cases, finished)

    def _read(self, folder: Path, cases: list[Case], finished: launcher.Finished) -> None:
        words: dict[str, dict[int, str]] = {}
        texts: dict[str, list[str]] = {}
        reasons: dict[str, str] = {}
        for rank in range(self.size):
            for line in lines(folder / f"rank{rank}.jsonl"):
                if "case" not in line:
                    continue
                words.setdefault(line["case"], {})[rank] = line.get("verdict", "no verdict")
                if line.get("said"):
                    reasons[line["case"]] = f"rank {rank}: {line['said']}"
                elif line.get("verdict") == "skipped":
                    reasons[line["case"]] = line["text"]
                elif "text" in line:
                    texts.setdefault(line["case"], []).append(f"rank {rank}:\n{line['text']}")
        stacks = "".join(
            f"\nrank {rank}:\n{path.read_text()}"
            for rank in range(self.size)
            if (path := folder / f"rank{rank}.stacks").exists() and path.stat().st_size
        )
        for case, of_rank in words.items():
            row = tuple(of_rank.get(r, "not begun") for r in range(self.size))
            text = f"ranks: {', '.join(row)}; seed {SEED}\n" + "\n".join(texts.get(case, []))
            if set(row) != {"passed"}:
                # What the ranks printed explains a death; a traceback explains itself.
                text += stacks or (f"\n{finished.output[-3000:]}" if case not in texts else "")
                text += f"\nexit {finished.code}"
            self.verdicts[case] = Verdict(row, text, reasons.get(case, ""))
        self._log(words)
        if not words:
            missing = f"no rank began a case; exit {finished.code}\n{finished.output[-6000:]}"
            self.verdicts.update({c.name: Verdict((), missing) for c in cases})

    def _log(self, names) -> None:
        """For who waits: what each launch found, as it is found, in the file that LABKIT_TEST_LOG names."""
        if path := os.environ.get("LABKIT_TEST_LOG"):
            with open(path, "a") as log:
                for name in names:
                    verdict = self.verdicts[name]
                    detail = "" if verdict.word != "failed" else f"\n{verdict.text}"
                    log.write(f"{self.size} ranks: {verdict.word}: {name} {verdict.reason}{detail}\n")


def lines(path: Path) -> list[dict]:
    """The JSON lines that a rank wrote, without a last one that it did not finish."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return found


def selects(size: int, checked: bool) -> Callable[[Case], bool]:
    """Which cases run at this size, in this mode, on the backend under test."""

    def chosen(case: Case) -> bool:
        if size not in case.sizes or (launcher.BACKEND == "gloo" and not case.gloo):
            return False
        return case.checked is None or case.checked == checked

    return chosen
