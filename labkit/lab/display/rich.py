"""What ranks showed that is more than text, in rank order and equal things once. Pure.

The text of a cell has a line for each of these too: pages without HTML show that, and nbval compares it.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from labkit.lab.display.said import Said, pictures, plain, settled, together
from labkit.rank.protocol import WIDGET
from labkit.rank.wording import in_the_cell, ranks

# Beside each thing, for a page that trusts no styles of an output trusts these.
_TEXT = "margin:0;white-space:pre-wrap"
_STDERR = (
    f"{_TEXT};padding:2px 6px;border-left:3px solid var(--jp-warn-color0,#b05f00);"
    "background-color:var(--jp-rendermime-error-background,rgba(221,136,68,.12))"
)
_MARKDOWN = ("text/markdown", "text/latex")
_GRID = "display:flex;flex-wrap:wrap;gap:12px"
_PICTURE = "margin:0;flex:0 1 auto;max-width:100%"


def is_there(said: Sequence[Said]) -> bool:
    """Whether a page with HTML shows more of it than the text."""
    return any(s.stderr.strip() or any(map(_has_more, s.displays)) for s in said)


def html(said: Sequence[Said]) -> str:
    """What each rank said, under its label: text, what it wrote to stderr set apart, tables."""
    parts = together((body(s), s.rank) for s in said)
    sections = (
        f'<section style="margin-bottom:6px"><b>[{ranks(who)}]</b>{part}</section>' for part, who in parts
    )
    return f'<div class="labkit-said">{"".join(sections)}</div>'


def body(s: Said) -> str:
    """The same of one rank."""
    texts = (("stdout", _TEXT, s.stdout), ("stderr", _STDERR, in_the_cell(s.stderr)))
    parts = [
        f'<pre class="labkit-{name}" style="{look}">{_escaped(settled(text))}</pre>'
        for name, look, text in texts
        if text.strip()
    ]
    for bundle in s.displays:
        if "text/html" in bundle:
            parts.append(f"<div>{bundle['text/html']}</div>")
        elif not _has_more(bundle) and not pictures(bundle) and bundle.get("text/plain"):
            parts.append(f'<pre style="{_TEXT}">{_escaped(bundle["text/plain"])}</pre>')
    return "".join(parts)


def others(said: Sequence[Said]) -> list[dict[str, Any]]:
    """MIME bundles of what needs a display of its own: Markdown, formulas, data that the page draws."""
    shown = []
    for bundle, who in _by_rank(_other, said):
        label, text = f"[{ranks(who)}]", next((bundle[mime] for mime in _MARKDOWN if mime in bundle), None)
        written, plain_text = f"**{label}**", label
        if text is not None:
            written, plain_text = f"{written}\n\n{text}", f"{plain_text}\n{text}"
        shown.append({"text/markdown": written, "text/plain": plain_text})
        shown += [bundle] if text is None else []
    return shown


def gallery(said: Sequence[Said]) -> dict[str, str]:
    """All pictures in one MIME bundle: one as it is, several in a grid with labels. Empty without any."""
    found = _by_rank(pictures, said)
    names = [f"picture of {ranks(who)}" for _, who in found]
    if not found:
        return {}
    if len(found) == 1:
        return {**found[0][0], "text/plain": names[0]}
    figures = "".join(
        f'<figure style="{_PICTURE}"><figcaption><b>[{ranks(who)}]</b></figcaption>'
        f'<img alt="{name}" src="{_source(picture)}" style="max-width:100%"></figure>'
        for name, (picture, who) in zip(names, found, strict=True)
    )
    return {"text/html": f'<div style="{_GRID}">{figures}</div>', "text/plain": "\n".join(names)}


def _by_rank(part: Callable[[dict], dict], said: Sequence[Said]) -> list[tuple[dict[str, Any], set[int]]]:
    """That part of each bundle, where it has one, and which ranks have the same."""
    found: dict[str, tuple[dict, set[int]]] = {}
    for s in said:
        for bundle in filter(None, map(part, s.displays)):
            found.setdefault(str(bundle), (bundle, set()))[1].add(s.rank)
    return list(found.values())


def _source(picture: dict[str, str]) -> str:
    mime, data = next(iter(picture.items()))
    encoded = b64encode(data.encode()).decode() if mime == "image/svg+xml" else data.replace("\n", "")
    return f"data:{mime};base64,{encoded}"


def _has_more(bundle: dict[str, Any]) -> bool:
    return "text/html" in bundle or bool(_other(bundle))


def _other(bundle: dict[str, Any]) -> dict[str, Any]:
    """What of a bundle is neither text, HTML nor a picture; empty if one of the latter shows it."""
    if "text/html" in bundle or pictures(bundle):
        return {}
    return {mime: data for mime, data in bundle.items() if mime not in ("text/plain", WIDGET)}


def _escaped(text: str) -> str:
    return escape(plain(text).rstrip("\n"))
