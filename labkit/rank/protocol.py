"""What both sides say to each other: what a rank does, has called and leaves, as data. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit.rank.wording import ranks

COMPUTING, WAITING, FINISHED, RAISED, ABSENT = "computing", "waiting", "finished", "raised", "absent"
STOPPED = "stopped"
AWAIT = "await"
"""The verb of a rank whose cell awaits what nothing in its process can end."""
SENDS, RECEIVES = ("send", "isend"), ("recv", "irecv", "probe")
ANY_TAG = -1
LEFT = "labkit_left"
"""Where the reply to a cell has a Left, if there is anything to tell."""
CLEAR = ("\x1b]labkit:clear\x07\n", "\x1b]labkit:clear when more comes\x07\n")
"""Where a rank's text was cleared, without and with `wait`."""
CLEARED, WIDGET = "application/vnd.labkit.cleared+json", "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class Stop:
    """A rank that waits for the `number`-th line that somebody types.

    In pdb it is a command, and `said` is what pdb has said since the last one. It `asks` where a program has
    called `input`, with that prompt, for what nobody else should see if it is `secret`.
    """

    number: int
    place: str
    said: str = ""
    asks: str | None = None
    secret: bool = False


@dataclass(frozen=True)
class Below:
    """A `call` below all that labkit watches, in which a rank has been for so long, and computes nothing.

    `peers` are those that could end it, empty if any may. Of a `collective` one all must call the same.
    `wants` is what it waits for in the kernel, in words, `holders` the processes that have that. It is `sure`
    if nobody outside of the lab can end it, and `deaf` if it hears no interrupt.
    """

    call: str
    seconds: float
    peers: tuple[int, ...] = ()
    collective: bool = False
    sure: bool = False
    deaf: bool = False
    wants: str = ""
    holders: tuple[int, ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Below":
        """The same again from what `asdict` made of it, after a journey as JSON."""
        return cls(**{**told, "peers": tuple(told["peers"]), "holders": tuple(told["holders"])})

    def what(self) -> str:
        """The call in words: "Win.Fence for 6 s", "s.recv for 6 s, for data of rank 1"."""
        of = f" of {ranks(self.peers)}" if self.holders and self.peers else ""
        return f"{self.call} for {self.seconds:.0f} s" + (f", for {self.wants}{of}" if self.wants else "")


@dataclass(frozen=True)
class Totals:
    """What a rank has called so far: between two cells it is even over all ranks.

    Where calls are not checked, `called` has how many collectives of each group it has called, and
    `called_of_mpi4py` of each communicator, with a checksum of which; `sent_more` is how many messages more
    it has sent than received. The `balance` of all ranks adds up to 0 where every message of mpi4py's was
    received as it was sent.
    """

    called: tuple[tuple[str, int], ...] = ()
    called_of_mpi4py: tuple[tuple[str, int, int], ...] = ()
    sent_more: int = 0
    balance: int = 0

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Totals":
        """The same again from what `asdict` made of it, after a journey as JSON."""
        listed = {name: tuple(map(tuple, told[name])) for name in ("called", "called_of_mpi4py")}
        return cls(**{**told, **listed})


@dataclass(frozen=True)
class State:
    """What one rank does at one moment of a cell.

    `peers` are the ranks of which a waiting rank needs one (point to point; empty: any) or all
    (a collective). `number` counts the collectives of a group, `root` is that of one that has one. `place`
    is the line of the cell. `since` is when the wait began, on the rank's own clock: a ping-pong over a slow
    link is in many waits of one kind.
    """

    rank: int
    doing: str
    verb: str = ""
    peers: tuple[int, ...] = ()
    number: int = 0
    group: str = ""
    tag: int = 0
    place: str = ""
    root: int | None = None
    error: str = ""
    since: float = 0.0  # 0 if not told
    rests: bool = field(default=False, compare=False)  # it waits, and uses next to none of a core meanwhile
    memory: int = field(default=0, compare=False)  # resident bytes; 0 if not told
    stop: Stop | None = None  # of a rank that has stopped
    below: Below | None = field(default=None, compare=False)  # of one that computes, as far as labkit knows
    acts: bool = field(default=False, compare=False)  # a thread that cells have begun does something
    totals: Totals = field(default=Totals(), compare=False)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "State":
        """The same again from what `asdict` made of it, after a journey as JSON."""
        stop = Stop(**told["stop"]) if told["stop"] else None
        below = Below.of(told["below"]) if told["below"] else None
        return cls(**{**told, "stop": stop, "below": below, "totals": Totals.of(told["totals"])})

    def is_point_to_point(self) -> bool:
        return self.verb in SENDS + RECEIVES

    def what(self) -> str:
        """What the rank waits in, in words: "recv from rank 1", "all_reduce number 3"."""
        tag = f" with tag {self.tag}" if self.tag > 0 else ""
        if self.verb in SENDS:
            return f"{self.verb} to {ranks(self.peers)}{tag}"
        if self.verb in RECEIVES:
            verb = "probe for a message" if self.verb == "probe" else self.verb
            return f"{verb} from {ranks(self.peers) if self.peers else 'any rank'}{tag}"
        return self.verb + (f" number {self.number}" if self.number else "")


@dataclass(frozen=True)
class Called:
    """A call that a rank has made in its cell. `peers`, `number` and `tag` are as in State.

    `source` is whose message a receive has got, where it has asked for anybody's. `bytes` and `dtype` are of
    its tensors; 0 and "" of mpi4py's calls.
    """

    verb: str
    peers: tuple[int, ...] = ()
    group: str = ""
    number: int = 0
    tag: int = 0
    place: str = ""
    source: int | None = None
    bytes: int = 0
    dtype: str = ""


@dataclass(frozen=True)
class Remembered:
    """The last `calls` of a rank in its cell; `turns` are their places among these, in its own order.

    A call has a turn when it is made, and another when the rank begins to wait for it. `forgotten`: there
    were more before.
    """

    calls: tuple[Called, ...] = ()
    turns: tuple[int, ...] = ()
    forgotten: bool = False

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Remembered":
        """The same again from what `asdict` made of it, after a journey as JSON."""
        calls = (Called(**{**call, "peers": tuple(call["peers"])}) for call in told["calls"])
        return cls(tuple(calls), tuple(told["turns"]), told["forgotten"])


@dataclass(frozen=True)
class Left:
    """What a rank tells at the end of a cell: what it leaves, and what it has made.

    `dropped` are operations for which it has not waited, `groups` its calls of `new_group`: what, and where.
    `notes` are sentences for the learner.
    """

    under_way: bool = False
    destroyed: bool = False
    dropped: tuple[tuple[str, str], ...] = ()
    groups: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    totals: Totals = Totals()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "Left":
        """The same again from what `asdict` made of it, after a journey as JSON; of nothing, nothing."""
        if not told:
            return cls()
        listed = {name: tuple(map(tuple, told[name])) for name in ("dropped", "groups")}
        return cls(**{**told, **listed, "notes": tuple(told["notes"]), "totals": Totals.of(told["totals"])})


@dataclass(frozen=True)
class Leftover:
    """An operation of a cell for which nobody waited: `what` it was, `place` its line if known.

    `fate` says why it could not end, and is `discarded`, or how it failed; empty if it has ended well. It may
    have been `waited` for, and have gone wrong all the same. `of_mpi4py`: no process group knows of it.
    """

    rank: int
    what: str
    place: str = ""
    fate: str = ""
    discarded: bool = False
    waited: bool = False
    of_mpi4py: bool = False

    def is_message(self) -> bool:
        return self.what.startswith(SENDS + RECEIVES)


@dataclass(frozen=True)
class Asked:
    """What a copy of a rank asks for in `%%px --orders`: a message, or its part in a collective.

    `peers` are those who can meet it: of a message one rank, or all from whom it may come; of a collective
    all members, itself included. `root` is a rank, or None. All ranks of a collective must have the `same`.
    `what` and `place` are the call in words, and its line; `turns` how many it has in Remembered, before it.
    """

    verb: str
    peers: tuple[int, ...]
    group: str
    tag: int = 0
    root: int | None = None
    same: str = ""
    what: str = ""
    place: str = ""
    turns: int = 0

    def is_collective(self) -> bool:
        return self.verb not in SENDS + RECEIVES
