"""Cells that await: all that holds of a plain one holds there, and tasks that are left harm no later one."""

import re
import time

import pytest
from IPython.utils.capture import capture_output

from labkit.lab import remote
from labkit.lab.cell import follow
from labkit.lab.outcome import CellError
from labkit.lab.px import PxMagics
from labkit.launch.interrupts import interrupts_noted
from tests.waiting import NO_HURRY, until, until_ranks

NEXT = "check = torch.ones(1)\ndist.all_reduce(check)\nassert check == world_size"
GIVEN = "import asyncio, sys\nx = torch.ones(1)\n"


@pytest.fixture
def px(labs, shell, monkeypatch):
    """Run a cell on two ranks, then a right one: what the first showed and raised."""
    monkeypatch.setattr(remote, "RETURN_DEADLINE", NO_HURRY)
    lab = labs(2)
    magics = PxMagics(shell, lab)
    magics.cell_px("", GIVEN)

    def run(code, line="", then=NEXT):
        error = None
        with capture_output() as captured:
            try:
                magics.cell_px(line, code)
            except CellError as raised:
                error = raised
        run.last = lab.last
        magics.cell_px("", then)
        return "\n".join(output.data["text/plain"] for output in captured.outputs), error

    run.lab = lab
    return run


RIGHT = {
    "sleep": ("await asyncio.sleep(0.01)\nprint('slept')", "[ranks 0-1] slept"),
    "the last expression": ("await asyncio.sleep(0.01, rank * 2)", "[rank 0] 0\n[rank 1] 2"),
    "gather": (
        "async def twice(n):\n    await asyncio.sleep(0.01)\n    return 2 * n\n"
        "await asyncio.gather(twice(1), twice(2))",
        "[ranks 0-1] [2, 4]",
    ),
    "async with": (
        "lock = asyncio.Lock()\nasync with lock:\n    dist.all_reduce(x)\nx.item()",
        "[ranks 0-1] 2.0",
    ),
    "async for": (
        "async def numbers():\n    for n in range(3):\n        await asyncio.sleep(0)\n        yield n\n"
        "async for n in numbers():\n    print(n)",
        "[ranks 0-1] 0\n            1\n            2",
    ),
    "a comprehension": (
        "async def numbers():\n    yield 1\n    yield 2\n[n async for n in numbers()]",
        "[ranks 0-1] [1, 2]",
    ),
    "a queue": (
        "queue = asyncio.Queue()\nasync def produce():\n    for n in range(3): await queue.put(n)\n"
        "task = asyncio.create_task(produce())\n[await queue.get() for _ in range(3)]",
        "[ranks 0-1] [0, 1, 2]",
    ),
    "a thread": ("await asyncio.to_thread(dist.all_reduce, x)\nx.item()", "[ranks 0-1] 2.0"),
    "a thread that is slow": (
        "import time\nawait asyncio.to_thread(time.sleep, 0.8)\ndist.barrier()\n'done'",
        "[ranks 0-1] 'done'",
    ),
    "a straggler": ("await asyncio.sleep(1.5 * rank)\ndist.barrier()\nx.item()", "[ranks 0-1] 1.0"),
    "a process": (
        "p = await asyncio.create_subprocess_exec('echo', 'hello', stdout=-1)\nawait p.communicate()",
        "[ranks 0-1] (b'hello\\n', None)",
    ),
    "a semaphore": (
        "gate = asyncio.Semaphore(1)\nasync def pass_by(n):\n    async with gate: return n\n"
        "await asyncio.wait_for(asyncio.gather(*map(pass_by, range(3))), 20)",
        "[ranks 0-1] [0, 1, 2]",
    ),
    "asyncio.run": (
        "async def main():\n    await asyncio.sleep(0.01)\n    dist.all_reduce(x)\n    return x.item()\n"
        "asyncio.run(main())",
        "[ranks 0-1] 2.0",
    ),
    "a loop of one's own": (
        "loop = asyncio.new_event_loop()\nloop.run_until_complete(asyncio.sleep(0.01, 'own'))",
        "[ranks 0-1] 'own'",
    ),
    "the loop that is there": (
        "asyncio.get_event_loop().run_until_complete(asyncio.sleep(0.01, 'there'))",
        "[ranks 0-1] 'there'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_ends(px, name):
    code, shown = RIGHT[name]
    assert px(code) == (shown, None)


WRONG = {
    "a receive after an await": (
        "await asyncio.sleep(0)\nif rank == 0:\n    dist.recv(x, src=1)",
        r"deadlock: rank 1 finished(?s:.*)rank 0 in recv from rank 1, line 4: dist.recv",
    ),
    "a collective in a task": (
        "async def reduce():\n    await asyncio.sleep(0)\n    dist.all_reduce(x)\n"
        "await asyncio.gather(*[reduce() for _ in range(1 - rank)])",
        r"deadlock: rank 1 finished(?s:.*)rank 0 in all_reduce number \d+, line 4: dist.all_reduce",
    ),
    "a collective in a thread": (
        "if rank == 0:\n    await asyncio.to_thread(dist.all_reduce, x)",
        r"deadlock: rank 1 finished(?s:.*)rank 0 in all_reduce number \d+, line 3: await",
    ),
    "an await that nothing ends": (
        "if rank == 0:\n    await asyncio.Event().wait()\ndist.barrier()",
        r"nothing is left that could end the await of rank 0\nrank 0 in await, line 3: await"
        r"(?s:.*)rank 1 in barrier number \d+, line 4",
    ),
    "a queue that nobody fills": (
        "async def get(queue):\n    return await queue.get()\nawait get(asyncio.Queue())",
        r"the await of ranks 0-1\nranks 0-1 in await, line 3: return await queue.get\(\)",
    ),
    "a lock that is held": (
        "lock = asyncio.Lock()\nawait lock.acquire()\nasync with lock:\n    pass",
        r"the await of ranks 0-1\nranks 0-1 in await, line 4: async with lock:",
    ),
    "an error": (
        "await asyncio.sleep(0)\n1 / rank",
        r"rank 0: ZeroDivisionError: division by zero \(line 3: 1 / rank\)",
    ),
    "an error in a task": (
        "async def ratio():\n    await asyncio.sleep(0)\n    return 1 / 0\n"
        "await asyncio.create_task(ratio())",
        r"ranks 0-1: ZeroDivisionError: division by zero \(line 4: return 1 / 0\)",
    ),
    "an error while others wait": (
        "await asyncio.sleep(0)\nif rank == 0:\n    raise ValueError('no')\ndist.barrier()",
        r"rank 0 raised an error for which the others wait in vain(?s:.*)line 4: raise ValueError",
    ),
    "a time that is over": (
        "await asyncio.wait_for(asyncio.sleep(100), 0.1)",
        r"ranks 0-1: TimeoutError(.*)\(line 2: await asyncio.wait_for",
    ),
    "cancelled": (
        "asyncio.current_task().cancel()\nawait asyncio.sleep(1)",
        r"ranks 0-1: CancelledError(.*)\(line 3: await",
    ),
    "exit in a task": (
        "async def leave():\n    sys.exit(3)\nawait asyncio.gather(leave())",
        r"ranks 0-1: SystemExit: 3",
    ),
    "a syntax error": ("await asyncio.sleep(0)\nif:", r"ranks 0-1: SyntaxError"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_with_its_line(px, name):
    code, told = WRONG[name]
    shown, error = px(code)
    assert re.search(told, str(error)), str(error)


def test_the_errors_of_a_group_are_told_with_their_lines(px):
    px("import sys\ngroups = sys.version_info >= (3, 11)")
    if not px.lab[0]["groups"]:
        pytest.skip("groups of tasks came with Python 3.11")
    bad = "async def bad(): raise ValueError('no')\n"
    code = f"{bad}async with asyncio.TaskGroup() as group:\n    group.create_task(bad())"
    shown, error = px(code)
    assert re.search(
        r"ExceptionGroup: unhandled errors in a TaskGroup(.*)\(line 2: async def bad", str(error)
    ), str(error)
    assert "ValueError" in str(error) or "ValueError" in shown


def interrupted(lab, code, when):
    """How the cell ends that is interrupted when `when` holds for its ranks' states."""
    with interrupts_noted() as noted:
        result = lab[:].execute(code, silent=False, block=False)
        until_ranks(lab, when)
        noted.set()
        return follow(lab, result, None, interrupted=noted)


CUT = {
    "sleep": ("await asyncio.sleep(1000)", "line 1: await asyncio.sleep(1000)"),
    "a task": (
        "async def last():\n    await asyncio.sleep(1000)\nawait asyncio.create_task(last())",
        "line 3",
    ),
    "a task that computes": (
        "async def last():\n    while True: x.add(1)\nawait asyncio.gather(last(), asyncio.sleep(1000))",
        "line 2",
    ),
    "asyncio.run": (
        "async def last():\n    await asyncio.sleep(1000)\nasyncio.run(last())",
        "line 3: asyncio.run",
    ),
}


@pytest.mark.parametrize("name", CUT)
def test_an_interrupt_ends_it_and_all_its_tasks(px, name):
    code, place = CUT[name]
    outcome = interrupted(px.lab, f"{GIVEN}{code}", lambda state: bool(state.place))
    line = int(place.split()[1].rstrip(":")) + GIVEN.count("\n")
    assert outcome.stopped.startswith("interrupted") and f"ranks 0-1 at line {line}" in outcome.stopped
    assert {s.failure.name for s in outcome.said} == {"KeyboardInterrupt"}
    shown, error = px("print(len(asyncio.all_tasks(asyncio.get_event_loop())))")
    assert (shown, error) == ("[ranks 0-1] 0", None)


def test_the_deadline_ends_it_and_names_its_lines(px):
    shown, error = px("if rank:\n    await asyncio.sleep(1000)\ndist.barrier()", "--deadline 1")
    assert re.search(
        r"deadline of 1 s passed\nrank 0 at line 4: dist.barrier\(\)\nrank 1 at line 3: await", str(error)
    ), str(error)


def test_its_calls_are_traced_and_remembered(px):
    px("await asyncio.sleep(0.01)\ndist.all_reduce(x)\nawait asyncio.sleep(0)\ndist.barrier()", "--trace")
    calls = [(e.verb, e.rank) for e in px.last.trace.events if e.verb in ("all_reduce", "barrier")]
    assert sorted(calls) == [("all_reduce", 0), ("all_reduce", 1), ("barrier", 0), ("barrier", 1)]
    px("await asyncio.sleep(0)\ndist.all_reduce(x)\nif rank: dist.recv(x, src=0)")
    assert "all_reduce" in str(px.last.history)


def test_it_runs_in_every_order(px):
    code = "y = torch.zeros(1)\ndist.recv(y) if rank else dist.send(y, 1)"
    shown, error = px(f"import asyncio\nawait asyncio.sleep(0)\n{code}", "--orders")
    assert error is None and "right in 1 of 1 order" in shown


def test_a_task_goes_on_while_its_rank_is_idle_and_in_later_cells(px):
    px("""seen = []
async def tick():
    while True:
        await asyncio.sleep(0.01)
        seen.append(1)
task = asyncio.create_task(tick())""")
    assert until(lambda: all(len(seen) > 3 for seen in px.lab[:]["seen"]))
    px("had = len(seen)\nawait asyncio.sleep(0.2)\nassert len(seen) > had and not task.done()")
    assert px("task.cancel()\nawait asyncio.sleep(0)\ntask.cancelled()") == ("[ranks 0-1] True", None)


def test_a_server_in_a_task_answers_while_its_rank_is_idle(px):
    px("""async def echo(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()
port = [0]
if rank == 0:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = [server.sockets[0].getsockname()[1]]
dist.broadcast_object_list(port)""")
    shown, error = px("""if rank == 1:
    reader, writer = await asyncio.open_connection("127.0.0.1", port[0])
    writer.write(b"hello\\n")
    print(await reader.readline())""")
    assert (shown, error) == ("[rank 1] b'hello\\n'", None)
    px("if rank == 0: server.close()")


def test_a_task_that_waits_in_vain_on_an_idle_rank_is_told_in_the_next_cell(px):
    late = "async def late():\n    await asyncio.sleep(0.05)\n    dist.recv(x, src=1)\n"
    px(f"{late}task = asyncio.create_task(late()) if rank == 0 else None", then="0")
    until_ranks(px.lab, lambda state: state.doing == "waiting", ranks=[0])
    shown, error = px("'next'")
    assert re.search(r"deadlock: rank 1 finished(?s:.*)rank 0 in recv from rank 1, .*line 4", str(error)), (
        str(error)
    )


def test_what_a_task_raises_for_which_nobody_waits_is_said_in_short(px):
    shown, error = px("async def bad():\n    return 1 / 0\ntask = asyncio.create_task(bad())\n"
                      "await asyncio.sleep(0.05)\ndel task\nimport gc\ncollected = gc.collect()")  # fmt: skip
    assert error is None and "never retrieved" in shown and "return 1 / 0" in shown
    assert "asyncio/events.py" not in shown


def test_a_lab_with_clean_namespaces_has_no_tasks(px, labs):
    px("async def last():\n    await asyncio.sleep(1000)\ntask = asyncio.create_task(last())")
    labs(2)
    assert px("import asyncio\nlen(asyncio.all_tasks(asyncio.get_event_loop()))")[0] == "[ranks 0-1] 0"


def test_breakpoint_stops_where_it_stands_and_steps_over_an_await(session):
    half = "async def half(x):\n    await asyncio.sleep(0.01)\n    breakpoint()\n    return x / 2\n"
    cell = f"import asyncio\n{half}y = await half(3)\nz = y"
    transcript, error = session(cell, "p x", "n", "r", "p y", "go", ranks=1)
    assert error is None and "[rank 0] line 5: breakpoint()" in transcript
    assert "[rank 0] 3\n" in transcript and "[rank 0] 1.5\n" in transcript


def test_pdb_stops_where_a_task_raises(session):
    bad = "async def bad(n):\n    await asyncio.sleep(0)\n    return 1 / n\n"
    cell = f"import asyncio\n{bad}await asyncio.create_task(bad(0))"
    transcript, error = session(cell, "p n", "c", line="--pdb", ranks=1)
    assert "[rank 0] line 5: return 1 / n" in transcript and "[rank 0] 0" in transcript
    assert re.search("ZeroDivisionError", str(error)), str(error)


@pytest.mark.slow
def test_loops_that_are_nested_by_nest_asyncio(px):
    try:
        nested = "import nest_asyncio2\nnest_asyncio2.apply()\nasyncio.run(asyncio.sleep(0.01, 'nested'))"
        assert px(nested) == ("[ranks 0-1] 'nested'", None)
        assert px("await asyncio.sleep(0.01, 'beside')") == ("[ranks 0-1] 'beside'", None)
    finally:
        px.lab.restart()


def test_it_takes_no_longer_than_its_awaits(px):
    began = time.monotonic()
    px("await asyncio.gather(*[asyncio.sleep(0.5) for _ in range(40)])")
    assert time.monotonic() - began < 15, "one after the other they would take 20 s"
