"""What the site needs besides a build without warnings, which is a part of `make test-all`."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def sources(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / ".ci" / "site")
    yield
    sys.modules.pop("benchmarks", None)


def test_the_glossary_has_every_term_in_three_more_languages_in_order():
    glossary = (ROOT / "notebooks" / "README.md").read_text().partition("\n## Glossary\n")[2]
    rows = [line.split("|")[1:-1] for line in glossary.splitlines() if "|" in line]
    terms = [[cell.strip() for cell in row] for row in rows[2:]]
    assert len(terms) >= 40 and all(len(row) == 5 and all(row) for row in terms)
    assert [row[0] for row in terms] == sorted((row[0] for row in terms), key=str.lower)


def test_benchmarks_are_drawn_from_kept_measurements_or_say_how_to_make_one(tmp_path):
    import benchmarks

    assert "python -m tests.bench --json" in benchmarks.page(tmp_path)
    seconds = '{"gloo": [2e-3], "raw": [1e-3], "mpi": [1e-3], "checked": [1e-3]}'
    row = f'{{"verb": "all_reduce", "bytes": 8, "seconds": {seconds}, "ratios": {{}}}}'
    about = '"machine": {"processor": "abacus", "cores": 2, "python": "3", "versions": {}}'
    collectives = f'{{{about}, "busy_before": 0.9, "ranks": 4, "launches": 1, "rows": [{row}]}}'
    (tmp_path / "bench.json").write_text(f'{{"collectives": {collectives}}}')
    page = benchmarks.page(tmp_path)
    assert "## Collectives" in page and "abacus, 2 cores" in page and "on a quiet machine" in page
    assert "4 ranks share 2 cores" in page and "all_reduce" in page and "2.00" in page
