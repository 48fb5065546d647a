"""What is left of a rank's output where it has cleared or updated some of it. Pure.

>>> left("0 %\\n" + CLEAR[True] + "100 %\\n", CLEAR[True], [{"data": {CLEARED: True}}])
('100 %\\n', '', ())
"""

import re
from collections.abc import Sequence
from typing import Any

from labkit.rank.protocol import CLEAR, CLEARED

_MARK = re.compile("|".join(map(re.escape, CLEAR)))


def left(stdout: str, stderr: str, contents: Sequence[dict[str, Any]]) -> tuple[str, str, tuple[dict, ...]]:
    """What a notebook would show in the end: the rest of both texts, and the MIME bundles.

    `contents` are of display_data, in order, as `labkit.rank.displays` has told them.
    """
    texts, errors, shown = _MARK.split(stdout), _MARK.split(stderr), _between_clears(contents)
    whole = min(len(texts), len(errors), len(shown))  # a clear may have come with one of them alone, as yet
    out, err, displays = (
        "".join(texts[whole - 1 :]),
        "".join(errors[whole - 1 :]),
        sum(shown[whole - 1 :], []),
    )
    for wait in reversed(_MARK.findall(stdout)[: whole - 1]):
        if out or err or displays or wait != CLEAR[True]:
            break
        whole -= 1  # nothing came since, so what was before is there still
        out, err, displays = texts[whole - 1], errors[whole - 1], shown[whole - 1]
    return out, err, tuple(displays)


def _between_clears(contents: Sequence[dict[str, Any]]) -> list[list[dict]]:
    """The bundles since each clear; of those with one identity the last, where the first was."""
    parts: list[dict[str, dict]] = [{}]
    for number, content in enumerate(contents):
        about = content.get("transient", {})
        identity = about.get("display_id", f"number {number}")
        if CLEARED in content["data"]:
            parts.append({})
        elif identity in parts[-1] or not (about.get("update") and any(identity in part for part in parts)):
            parts[-1][identity] = content["data"]
    return [list(part.values()) for part in parts]
