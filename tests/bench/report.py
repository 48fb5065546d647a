"""From the seconds of several launches to ratios, and to the table that a reader sees."""

from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True)
class Row:
    """One verb at one size: seconds per call of each contender, one number per launch."""

    verb: str
    bytes: int | None
    seconds: dict[str, list[float]]

    @property
    def peer(self) -> str:
        """Whom mpi is compared with, beside gloo."""
        return next(name for name in ("raw", "ring", "alone") if name in self.seconds)

    def typical(self, name: str) -> float:
        return median(self.seconds[name])

    def ratio(self, of: str, to: str) -> float:
        """Median of the ratios within each launch: what was measured together is compared."""
        return median(a / b for a, b in zip(self.seconds[of], self.seconds[to], strict=True))

    def spread(self, of: str, to: str) -> tuple[float, float]:
        ratios = [a / b for a, b in zip(self.seconds[of], self.seconds[to], strict=True)]
        return min(ratios), max(ratios)

    def as_json(self) -> dict:
        ratios = {}
        other = self.peer
        for name, of, to in (
            ("gloo_over_mpi", "gloo", "mpi"),
            (f"mpi_over_{other}", "mpi", other),
            ("checked_over_mpi", "checked", "mpi"),
        ):
            ratios[name] = {"median": self.ratio(of, to), "range": self.spread(of, to)}
        return asdict(self) | {"ratios": ratios}


def collect(launches: list[list[dict]]) -> list[Row]:
    """Rows with one number per launch; every launch measured the same rows in the same order."""
    rows = []
    for same in zip(*launches, strict=True):
        names = same[0]["seconds"]
        seconds = {name: [row["seconds"][name] for row in same] for name in names}
        rows.append(Row(same[0]["verb"], same[0]["bytes"], seconds))
    return rows


def size_text(nbytes: int | None) -> str:
    if nbytes is None:
        return ""
    for unit, name in ((2**20, "MB"), (2**10, "KB")):
        if nbytes >= unit:
            return f"{nbytes // unit} {name}"
    return f"{nbytes} B"


def time_text(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def rate_text(row: Row) -> str:
    """Bytes of the whole tensor per second, where the size and not the latency decides."""
    if not row.bytes or row.bytes < 2**16:
        return ""
    return f"{row.bytes / row.typical('mpi') / 1e9:.2f} GB/s"


HEAD = ("verb", "size", "gloo", "raw", "mpi", "checked", "mpi rate", "gloo/mpi", "mpi/raw", "checked/mpi")


def table(rows: list[Row]) -> str:
    """One line a row; `raw` is for the DDP step the same without communication, for a flat ring that ring."""
    lines: list[tuple[str, ...]] = [HEAD]
    for row in rows:
        times = [time_text(row.typical(name)) for name in ("gloo", row.peer, "mpi", "checked")]
        ratios = [row.ratio("gloo", "mpi"), row.ratio("mpi", row.peer), row.ratio("checked", "mpi")]
        texts = [f"{ratio:.2f}" for ratio in ratios]
        lines.append((row.verb, size_text(row.bytes), *times, rate_text(row), *texts))
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
