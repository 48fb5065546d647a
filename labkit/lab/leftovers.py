"""What a cell has left under way, in words. Pure."""

from collections.abc import Mapping, Sequence

from labkit.rank.protocol import SENDS, Leftover
from labkit.rank.wording import ranks, tells_calls

KEEP = "--keep-pending"
"""The option of %%px with which a cell may leave what it likes to the next one."""
_NONE = "no new_group", ""
_MEANT = f"%%px {KEEP} leaves it to the next cell"


def faults(left: Sequence[Leftover]) -> str:
    """A line for each operation that could not end, or that failed unseen."""
    return "\n".join(_lines([x for x in left if x.fate]))


def discarded(backend: str, what: str = "") -> str:
    """How it was discarded: by itself, or along with `what` where the backend knows no other way."""
    way = f"{backend} can do that only with {what}, new on all ranks" if what else "on all ranks"
    return f"what was under way is discarded{':' if what else ''} {way}; {_MEANT}"


def notes(left: Sequence[Leftover]) -> str:
    """A line for each operation that has ended, though nobody waited."""
    return "\n".join(_lines([x for x in left if not (x.fate or x.waited)]))


def lost(sent_more: int, told: Sequence[Leftover]) -> str:
    """What is not told one by one of messages that were sent and not received; "" if there is nothing."""
    messages = [x for x in told if x.discarded and x.is_message() and not x.of_mpi4py]
    more = sent_more - sum(1 if x.what.startswith(SENDS) else -1 for x in messages)
    if more <= 0:
        return ""
    return f"{'a message was' if more == 1 else f'{more} messages were'} sent and not received"


def groups(made: Mapping[int, Sequence[tuple[str, str]]]) -> str:
    """What is wrong with the groups that ranks made, as what and where; "" if all made the same."""
    most = max(map(len, made.values()))
    for number in range(most):
        calls = {rank: mine[number] if number < len(mine) else _NONE for rank, mine in made.items()}
        if len({what for what, _ in calls.values()}) > 1:
            who: dict[str, list[int]] = {}
            for rank, (what, place) in calls.items():
                who.setdefault(f"{what}{place and f' ({place})'}", []).append(rank)
            rule = "every rank calls new_group for every group, its members or not, in the same order"
            return "\n".join(
                [f"the ranks made different groups; {rule}"]
                + [f"{ranks(of)}: {call}" for call, of in who.items()]
            )
    return ""


def uneven(called: Mapping[int, Mapping[str, int]]) -> str:
    """Who has called fewer collectives of a group than other members; "" if nobody."""
    lines = []
    for group in {name: () for mine in called.values() for name in mine}:
        counts = {rank: mine[group] for rank, mine in called.items() if group in mine}
        most = max(counts.values())
        behind = [rank for rank, count in counts.items() if count < most]
        if behind:
            others = [rank for rank in counts if rank not in behind]
            lines.append(f"{ranks(behind)} did not call all collectives that {ranks(others)} called")
    return "\n".join(dict.fromkeys(lines))


def unlike(called: Mapping[int, Sequence[tuple[str, int, int]]]) -> str:
    """Who has called fewer or other collectives of a communicator; "" if all have called the same."""
    fewer = uneven({rank: {key: count for key, count, _ in mine} for rank, mine in called.items()})
    if fewer:
        return fewer
    which: dict[str, dict[int, list[int]]] = {}
    for rank, mine in called.items():
        for key, _, verbs in mine:
            which.setdefault(key, {}).setdefault(verbs, []).append(rank)
    lines = []
    for by_verbs in which.values():
        first, *others = by_verbs.values()
        lines += [f"{ranks(other)} called other collectives than {ranks(first)}" for other in others]
    return "\n".join(dict.fromkeys(lines))


def _lines(left: Sequence[Leftover]) -> list[str]:
    """The same of several ranks once, and of one rank how often."""
    who: dict[str, list[int]] = {}
    for x in left:
        who.setdefault(_sentence(x), []).append(x.rank)
    lines = []
    for sentence, said in who.items():
        often = len(said) // len(set(said))
        lines.append(f"{ranks(set(said))}: {f'{often} times ' if often > 1 else ''}{sentence}")
    return lines


def _sentence(x: Leftover) -> str:
    place = f" ({x.place})" if x.place else ""
    if x.waited:
        return f"{x.what}: {x.fate}{place}"
    if tells_calls(x.fate) and not x.is_message():
        return f"a collective that was never waited for differs:\n       {x.fate}"
    return f"{x.what} was never waited for{x.fate and '; ' + x.fate}{place}"
