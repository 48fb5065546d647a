"""What helps the ranks may end or be stopped too: it is told, or replaced."""

import signal
import threading
import time

import pytest

from labkit import LabError
from labkit.launch import keeper, processes

from .test_faults import run

pytestmark = pytest.mark.ranks


@pytest.mark.slow
def test_the_end_of_hydras_proxy_is_told_as_such(labs):
    lab = labs(2)
    proxy = keeper.vital(lab._engines.folder).get("hydra_pmi_proxy")
    if proxy is None:
        pytest.skip("this MPI has none")
    threading.Timer(0.5, proxy.kill).start()
    start = time.monotonic()
    with pytest.raises(LabError, match="found: hydra_pmi_proxy died") as caught:
        run(lab, "import time; time.sleep(100)")
    assert time.monotonic() - start < 5 and "lab.restart()" in caught.value.fix


@pytest.mark.parametrize("how", ["kill", "suspend"])
def test_a_keeper_that_is_killed_or_stopped_is_replaced(labs, how):
    folder = labs(2)._engines.folder
    [first] = keeper.noted(folder / keeper.SELF)
    getattr(first, how)()
    deadline = time.monotonic() + 10
    while (now := keeper.noted(folder / keeper.SELF)) == [first] or not any(map(processes.is_alive, now)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert labs(2).is_running() and not processes.is_alive(first)


@pytest.mark.parametrize("name", ["rank 1", "the controller"])
def test_a_stopped_process_is_told_and_nothing_is_lost(labs, name):
    lab = labs(2)
    run(lab, "x = rank")
    process = {"rank 1": lab.ranks[1].process(), **keeper.vital(lab._engines.folder)}[name]
    timer = threading.Timer(0.5, process.send_signal, [signal.SIGSTOP])
    timer.start()
    try:
        with pytest.raises(LabError, match=rf"{name}.* is stopped \(SIGSTOP\)") as caught:
            run(lab, "import time; time.sleep(2); dist.barrier()")
        assert f"kill -CONT {process.pid}" in caught.value.fix
    finally:
        timer.join()
        process.send_signal(signal.SIGCONT)
    assert [s.words() for s in run(lab, "x").said] == ["0", "1"]
