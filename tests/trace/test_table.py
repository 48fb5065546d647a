"""The table of a trace."""

from labkit.trace import COMPUTE, Event, Trace

TRACE = Trace(3, (
    Event(2, "all_reduce", 0.0, 0.5, (0, 1, 2), 400, "float32", place="line 1: dist.all_reduce(x)"),
    Event(0, COMPUTE, 0.0, 0.25, cpu=0.125),
    Event(0, "send", 0.25, 0.375, (1,), 8, "int64", tag=7, waiting=0.0625, label="chunk 2"),
))  # fmt: skip


def test_without_times():
    assert (
        TRACE.table()
        == """\
rank  verb          with         bytes  dtype    line
   0  send chunk 2  to 1, tag 7      8  int64
   2  all_reduce    0-2            400  float32  line 1: dist.all_reduce(x)"""
    )


def test_with_times():
    head, *rows = TRACE.table(times=True).splitlines()
    assert head.split()[5:] == ["start", "ms", "waiting", "cpu", "line"]
    assert [row.split()[:2] for row in rows] == [["0", "compute"], ["0", "send"], ["2", "all_reduce"]]
    assert rows[0].split()[2:] == ["0.000", "250.000", "0.000", "125.000"]
    assert rows[1].split()[-4:] == ["250.000", "125.000", "62.500", "0.000"]


def test_a_page_shows_it_as_a_table():
    page = TRACE.table()._repr_html_()
    assert page.count("<tr>") == 3 and "<th>verb</th>" in page and "<td>send chunk 2</td>" in page
    assert repr(TRACE.table()) == str(TRACE.table()) and isinstance(TRACE.table(), str)


def test_the_critical_path_is_a_tuple_that_reads_like_a_table():
    path = TRACE.critical_path()
    assert tuple(path) == path and path[-1] == TRACE.events[0]
    assert repr(path).splitlines()[-1].split()[:2] == ["2", "all_reduce"] and "<table>" in path._repr_html_()
