"""What a learner reads of the user's text is read in linear time, and cut where it is long."""

import time

import pytest

from labkit.lab.display.said import Failure
from labkit.rank import wording

HOSTILE = {
    "no blank": "x" * 10**6,
    "slashes": "/ipykernel_1" * 10**5,
    "digits": "/ipykernel_" + "1" * 10**6,
    "cells": "Cell In [1], line 5\n" * 30_000,
    "colours": "\x1b[1;" * 10**5,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_text_of_the_user_is_read_in_linear_time(name):
    text, start = HOSTILE[name], time.process_time()
    assert wording.in_the_cell(text) == text
    Failure("ValueError", text, tuple(text.splitlines())).in_short()
    assert time.process_time() - start < 2


def test_a_file_of_ipykernel_is_the_cell():
    assert wording.in_the_cell("in /tmp/ipykernel_7/12.py, line 3") == "in the cell, line 3"


@pytest.mark.parametrize("text", ["", "short", "two\nlines\n", "x" * wording.LONG_LINE])
def test_what_can_be_read_is_left_whole(text):
    assert wording.cut(text) == text


def test_a_long_line_keeps_both_its_ends():
    told = wording.cut("first\n" + "a" * 50_000 + "z\nlast")
    assert told.startswith("first\na") and told.endswith("az\nlast")
    assert len(told) < wording.LONG_LINE + 100 and "48,001 characters" in told


def test_a_long_message_says_how_much_is_left_out():
    told = wording.cut("line\n" * 10**5)
    assert told.endswith("460,000 characters more") and len(told) < wording.LONG_MESSAGE + 100
