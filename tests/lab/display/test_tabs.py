"""A tab per rank where output is long and differs; sections where styles are stripped."""

import re
from html.parser import HTMLParser

from labkit.lab.display import tabs
from labkit.lab.display.said import Said

LONG = tuple(Said(r, "".join(f"step {i} of rank {r}\n" for i in range(8))) for r in range(3))


def test_short_or_equal_output_needs_no_tabs():
    assert not tabs.are_worth_it([Said(0, "a\n"), Said(1, "b\n")])
    assert not tabs.are_worth_it([Said(r, "same\n" * 20) for r in range(4)])
    assert tabs.are_worth_it(LONG)


def test_one_tab_for_all_and_one_per_rank():
    html = tabs.html(LONG)
    assert re.findall(r"<label[^>]*>([^<]+)</label>", html) == ["all ranks", "rank 0", "rank 1", "rank 2"]
    assert html.count(" checked>") == 1


def test_the_same_output_gives_the_same_html():
    assert tabs.html(LONG) == tabs.html(LONG) != tabs.html(LONG[:2])


def test_what_a_rank_says_is_text():
    assert "<script>" not in tabs.html([Said(0, "<script>alert(1)</script>"), Said(1, "x\n" * 9)])


def test_without_styles_each_rank_is_a_section_with_its_name():
    class Text(HTMLParser):
        told = ""
        inside = None

        def handle_starttag(self, tag, attrs):
            self.inside = tag

        def handle_data(self, data):
            self.told += data if self.inside in ("b", "pre") else ""

    reader = Text()
    reader.feed(tabs.html(LONG))
    assert reader.told.index("rank 1") < reader.told.index("step 0 of rank 1")
