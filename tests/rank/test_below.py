"""What a call is, and what it is called on, is read from its line without running any code."""

import sys
import threading

import pytest

from labkit.rank import below

CALLS = {
    "a method": ("lock.acquire()", "lock.acquire"),
    "in a list": ("locks[0].acquire()", "locks[0].acquire"),
    "in a list of an attribute": ("box.locks[n].acquire()", "box.locks[n].acquire"),
    "over lines": ("lock.acquire(\n        True,\n        -1,\n    )", "lock.acquire"),
    "a value of it": ("taken = [1, lock.acquire()]", "lock.acquire"),
    "within another call": ("print(str([lock.acquire()]))", "lock.acquire"),
    "a name": ("take()", "take"),
}


@pytest.mark.parametrize(("line", "text"), CALLS.values(), ids=CALLS)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not tell where in a line it is")
def test_a_call_is_found_with_its_owner(tmp_path, line, text):
    lock = threading.Lock()
    lock.acquire()
    box = type("Box", (), {})()
    box.locks = [lock]
    names = {"lock": lock, "locks": [lock], "box": box, "take": lock.acquire, "n": 0, "print": len}
    file = tmp_path / "program.py"
    file.write_text(f"def program():\n    {line}\n")
    exec(compile(file.read_text(), str(file), "exec"), names)
    thread = threading.Thread(target=lambda: names["program"](), daemon=True)
    thread.start()
    try:
        frame = None
        while frame is None or frame.f_code.co_name != "program":
            frame = sys._current_frames()[thread.ident]
        assert below._text(frame) == text
        assert below._called(frame) == (lock, "acquire")
    finally:
        lock.release()
        thread.join()


def test_no_code_of_the_program_runs():
    class Trap:
        def __getattr__(self, name):
            raise AssertionError(name)

        @property
        def lock(self):
            raise AssertionError("lock")

        def __getitem__(self, index):
            raise AssertionError(index)

    trap, frame = Trap(), sys._getframe()
    for text in ("trap.lock", "trap.other", "trap[0]", "trap()", "trap.lock.deeper"):
        node = below.ast.parse(text, mode="eval").body
        assert below._value(node, frame) is below._NOTHING, text
    assert below._value(below.ast.parse("trap", mode="eval").body, frame) is trap
