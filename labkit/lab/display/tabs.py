"""What the ranks said, as HTML with a tab per rank. Pure.

Tabs are radio buttons and a style sheet, no script. Where a page strips the styles, what is left
is a plain section per rank.
"""

import hashlib
from collections.abc import Sequence
from html import escape

from labkit.lab.display import rich
from labkit.lab.display.said import Said, plain, text

LONG = 6
"""Lines a rank must have said for tabs to be worth it; shorter output is read faster side by side."""

_STYLE = """
.labkit-tabs{display:flex;flex-wrap:wrap;column-gap:2px;font-family:var(--jp-code-font-family,monospace)}
.labkit-tabs>input{position:absolute;opacity:0}
.labkit-tabs>label{order:0;padding:2px 10px;cursor:pointer;border-bottom:2px solid transparent;
 color:var(--jp-ui-font-color1,inherit)}
.labkit-tabs>input:checked+label{border-bottom-color:var(--jp-brand-color1,#0072B2);font-weight:bold}
.labkit-tabs>input:focus-visible+label{outline:2px solid var(--jp-brand-color1,#0072B2)}
.labkit-tabs>section{order:1;width:100%;display:none}
.labkit-tabs>section>b{display:none}
.labkit-tabs>input:checked+label+section{display:block}
.labkit-tabs pre{margin:4px 0;max-height:30em;overflow:auto}
"""


def are_worth_it(said: Sequence[Said]) -> bool:
    """Whether several ranks said different and long things."""
    words = {s.words() for s in said}
    return len(words) > 1 and max(len(w.split("\n")) for w in words) >= LONG


def html(said: Sequence[Said]) -> str:
    """A tab for all ranks together, then one for each rank."""
    together = f"<pre>{escape(plain(text(said)))}</pre>"
    sections = [("all ranks", together), *((f"rank {s.rank}", rich.body(s)) for s in said)]
    group = "labkit-" + hashlib.sha256(repr(sections).encode()).hexdigest()[:12]  # the same from run to run
    tabs = (
        f'<input type="radio" name="{group}" id="{group}-{i}"{" checked" if i == 0 else ""}>'
        f'<label for="{group}-{i}">{name}</label><section><b>{name}</b>{shown}</section>'
        for i, (name, shown) in enumerate(sections)
    )
    return f'<style>{_STYLE}</style><div class="labkit-tabs">{"".join(tabs)}</div>'
