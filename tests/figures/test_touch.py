"""The timeline as a page: each bar and message says what it is, in words too, and colours can be seen."""

import re
from html.parser import HTMLParser

import pytest

from labkit.figures.colours import DARK_PAGE, PAGE, RANK_COLOURS, contrast
from labkit.figures.touch.page import MOST, described, page, said
from labkit.trace import COMPUTE, Event, Trace

from . import traces

SEND = Event(
    0, "send", 0.25, 0.375, (1,), 8_000, "float32", waiting=0.0625, place="cell 3, line 2: x", label="b"
)
CSS = (page.__globals__["_HERE"] / "page.css").read_text()


class Elements(HTMLParser):
    """Every element of a page, and whether all that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.found, self._open = [], []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in ("img",):
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def of(self, tag, kind=""):
        return [a for t, a in self.found if t == tag and kind in a.get("class", "").split() + [""]]


@pytest.mark.parametrize(
    "make", [traces.straggler, traces.naive, traces.pipeline, traces.crowded, traces.ddp]
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_each_event_and_message_is_there_and_described(make, ranks):
    trace = make(ranks)
    text = page(trace, "A <finding>", "{}", b"png")
    elements = Elements(text)
    assert text.count("<title>") == min(MOST, len(trace.events)) + len(trace.messages)
    assert len(elements.of("g", "message")) == len(trace.messages)
    assert "<finding>" not in text and "http://" not in text.replace("http://www.w3.org", "")
    (image,) = elements.of("img")
    assert image["alt"] == "A <finding>" and image["src"].startswith("data:image/png;base64,")
    (whole,) = elements.of("svg", "whole")
    assert whole["role"] == "img" and whole["aria-label"].startswith("A <finding>. ")


def test_bars_are_as_long_as_the_events():
    trace = Trace(2, (Event(0, "recv", 1.0, 2.0, (1,), waiting=0.75), Event(1, COMPUTE, 1.0, 3.0)))
    bars = Elements(page(trace, "x")).of("rect")
    lengths = {bar["class"]: float(bar["width"]) for bar in bars}
    assert lengths == {"waiting": 375.0, "communication": 125.0, "compute": 1000.0}


def test_an_event_in_words():
    assert described(SEND) == (
        "rank 0: send (b) to rank 1, 8 kB of float32, took 125 ms, waited 62.5 ms\ncell 3, line 2: x"
    )
    assert said(Trace(2, (SEND,))) == "125 ms on 2 ranks: 1 send. Waited in all: rank 0 62.5 ms."
    assert said(Trace(2, ())) == "Nothing was recorded."


def test_a_long_trace_makes_no_endless_page():
    trace = traces.busy(8, steps=3000)
    text = page(trace, "x")
    assert len(trace.events) > 2 * MOST and len(text) < 1_000_000
    assert f"The {MOST:,} longest of {len(trace.events):,} events are drawn." in text


def colours(theme):
    blocks = re.findall(r"--(\w+): (#[0-9a-f]{6});", CSS.split("[data-jp-theme-light")[0])
    dark = re.findall(r"--(\w+): (#[0-9a-f]{6});", CSS.split("[data-jp-theme-light")[1].split("}")[0])
    return dict(blocks) | (dict(dark) if theme == "dark" else {})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_marks_have_the_contrast_of_wcag_aa(theme):
    """4.5 to 1 for text, 3 to 1 for marks: of bars it is their edge that is one."""
    found = colours(theme)
    for text in ("ink", "quiet"):
        assert contrast(found[text], found["page"]) >= 4.5
    assert contrast(found["quiet"], found["page"]) >= 3, "the edge of every bar"
    assert contrast(found["ink"], found["wait"]) >= 4.5
    for rank in range(8):
        assert contrast(found[f"r{rank}"], found["page"]) >= 3


def test_ranks_have_the_colours_of_the_course():
    for theme in "light", "dark":
        assert [colours(theme)[f"r{rank}"].upper() for rank in range(8)] == list(RANK_COLOURS)
        page = {"light": PAGE, "dark": DARK_PAGE}[theme]
        assert contrast(colours(theme)["page"], page) == 1
