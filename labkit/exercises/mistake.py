"""What a mistake is called: the same for all who make it, whatever was drawn and whichever rank it was.

A name is made of the sentence that the learner is told, so no exercise has to give names, and who asks about
one finds it in the notebook.
"""

import re

WRONG = "wrong, and no known mistake"
DIED = "a rank dies"
TOO_LONG = "takes too long"
_RANKS = r"ranks? \d+(?:(?:-| and |, )\d+)*"

NAMES = (
    (r"no lab came up", "no lab came up"),
    (r"there is no function", "not written"),
    (r"write .* in the cell above", "not written"),
    (r".* is still as the lesson gave it", "not changed"),
    (r"deadlock", "deadlock"),
    (r"nothing moves", "ranks wait, though all have called"),
    (r"the deadline of", TOO_LONG),
    (rf"{_RANKS} did not answer within", TOO_LONG),
    (rf"{_RANKS} raised an error for which.*?(\w+(?:Error|Exception)):", r"\1"),
    (rf"{_RANKS}: (\w+)", r"\1"),
    (r".*\bdied\b", DIED),
    (r".*could not be brought back", "a rank that cannot be brought back"),
    (r".*tried in (?:a world|worlds) of", "not tried in every world"),
    (r"every rank is right, but over budget: (.+?) [\d.,]+, limit", r"over budget: \1"),
    (r".*not by the way that was asked for: (.+?) [\d.,]+, needed", r"too little: \1"),
    (rf"{_RANKS} never waits for its (.+?):", r"never waits for its \1"),
    (rf"{_RANKS} changes a tensor that isend", "changes a tensor that isend is still sending"),
    (r".*changed (`\w+`), which its caller", r"changes \1, which is its caller's"),
    (r".*a message that nobody received", "a message that nobody receives"),
    (r".*sent and not received", "a message that nobody receives"),
)
"""How a sentence begins, and what it is called. What is not among these was said by an exercise's judge."""


def name(told: str) -> str:
    """The name of the mistake in what `labkit.check` said; "" of what is right.

    >>> name("not solved yet: in a world of 3, deadlock: rank 1 finished the cell, and others wait for it")
    'deadlock'
    >>> name("not solved yet: in a world of 2, ranks 0-1 are wrong\\n  rank 0 expected 2\\nThat is the sum.")
    'That is the sum'
    """
    if told.startswith("solved"):
        return ""
    sentence = re.sub(r"^(?:not solved yet: )?(?:in a world of \d+, )?", "", told)
    for pattern, called in NAMES:
        if found := re.match(pattern, sentence, re.DOTALL):
            return found.expand(called)
    return _of_judge(sentence)


def _of_judge(sentence: str) -> str:
    """What explains the wrong values, which stands below them; or what is wrong, without numbers."""
    first, *more = sentence.splitlines() or [""]
    explained = [line for line in more if line and not line.startswith(" ")]
    if explained:
        return without_numbers(explained[0])
    return WRONG if re.fullmatch(rf"(?:{_RANKS} (?:is|are) wrong)?", first) else without_numbers(first)


def without_numbers(line: str) -> str:
    """What is said, without which rank it was and what was drawn."""
    return re.sub(r"\d+(?:[.,]\d+)*", "…", re.sub(_RANKS, "a rank", line)).rstrip(".")
