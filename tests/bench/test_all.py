"""`make bench` measures everything, says on what machine, and its JSON gives its tables again."""

import pytest

from tests.bench.__main__ import BENCHMARKS, main, tables
from tests.bench.machine import heading

pytestmark = pytest.mark.ranks


def times(value):
    """All numbers in lists, however deep they lie."""
    if isinstance(value, dict):
        return [second for inner in value.values() for second in times(inner)]
    return value if isinstance(value, list) else []


@pytest.mark.nightly
@pytest.mark.timeout(500)
def test_one_command_prints_the_whole_table(measured):
    found, printed = measured("--quick")
    assert set(found) == {"machine", *BENCHMARKS}
    for table in tables(found).values():
        assert table in printed
    for name in BENCHMARKS:
        assert found[name]["machine"] == found["machine"]
        assert all(seconds and min(seconds) > 0 for seconds in map(times, found[name]["rows"]))
    verbs = {row["verb"] for row in found["collectives"]["rows"]}
    assert {"all_reduce", "ddp_step"} <= verbs


@pytest.mark.slow
def test_one_of_them_can_be_asked_for_alone(measured):
    document, printed = measured("trace", "--rounds", "2", "--quick")
    assert heading(document) in printed and tables({"trace": document})[BENCHMARKS["trace"]] in printed
    assert all(min(times(row)) > 0 for row in document["rows"])


def test_an_unknown_benchmark_is_refused_and_the_known_are_named(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["nothing"])
    assert "nothing" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    named = capsys.readouterr().out
    assert all(name in named for name in BENCHMARKS)
