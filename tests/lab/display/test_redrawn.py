"""What is left of a rank's output is what a notebook would show in the end."""

from labkit.lab.display.redrawn import left
from labkit.rank.protocol import CLEAR, CLEARED

NOW, WHEN_MORE_COMES = CLEAR


def shown(text, display_id=None, update=False):
    return {"data": {"text/plain": text}, "transient": {"display_id": display_id} if display_id else {}} | (
        {"transient": {"display_id": display_id, "update": True}} if update else {}
    )


def cleared(wait):
    return {"data": {CLEARED: wait}}


def test_what_was_never_cleared_is_left():
    assert left("a\n", "b\n", [shown("c")]) == ("a\n", "b\n", ({"text/plain": "c"},))


def test_a_clear_takes_text_and_displays():
    assert left(f"a\n{NOW}", f"b\n{NOW}", [shown("c"), cleared(False)]) == ("", "", ())
    assert left(f"a\n{NOW}x", f"b\n{NOW}", [shown("c"), cleared(False)]) == ("x", "", ())


def test_a_clear_that_waits_takes_nothing_until_something_comes():
    wait = WHEN_MORE_COMES
    before = ("a\n", "b\n", ({"text/plain": "c"},))
    assert left(f"a\n{wait}", f"b\n{wait}", [shown("c"), cleared(True)]) == before
    assert left(f"a\n{wait}{wait}", f"b\n{wait}{wait}", [shown("c"), cleared(True), cleared(True)]) == before
    displays = [shown("c"), cleared(True), shown("d")]
    assert left(f"a\n{wait}", f"b\n{wait}", displays) == ("", "", ({"text/plain": "d"},))


def test_marks_may_come_one_by_one():
    assert left(f"a\n{WHEN_MORE_COMES}", "b\n", [shown("c")])[0] == "a\n"


def test_an_update_is_where_its_display_is():
    displays = [shown("a", "1"), shown("b"), shown("c", "1", update=True)]
    assert left("", "", displays)[2] == ({"text/plain": "c"}, {"text/plain": "b"})


def test_an_update_of_what_was_cleared_shows_nothing():
    displays = [shown("a", "1"), cleared(False), shown("c", "1", update=True)]
    assert left(NOW, NOW, displays)[2] == ()
