"""Every order once, and every deadlock: held against all interleavings, tried one step at a time."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.lab.orders.board import Board
from labkit.lab.orders.explore import Unrepeatable, explore
from labkit.lab.orders.play import Calls, Ends, Waits, play
from labkit.lab.orders.unbuffered import deadlocks
from labkit.rank.protocol import Asked

ANY = None


class Programs:
    """Ranks without ranks: a generator each, which is told from whom a receive got its message."""

    def __init__(self, programs):
        self.size = len(programs)
        self._running = [program(rank, self.size) for rank, program in enumerate(programs)]
        self._answers = [None] * self.size

    def hear(self, rank):
        answer, self._answers[rank] = self._answers[rank], None
        try:
            return self._running[rank].send(answer)
        except StopIteration:
            return Ends(None)

    def go_on(self, rank, name, board):
        self._answers[rank] = board.met.get(name, (None,))[0]

    def leave(self, rank):
        pass

    def refuse(self, rank, why):
        raise AssertionError(why)


def send(to, tag=0):
    return Asked("send", (to,), "world", tag)


def recv(rank, size, source=ANY, tag=0):
    peers = tuple(r for r in range(size) if r != rank) if source is ANY else (source,)
    return Asked("recv", peers, "world", tag)


def together(size, verb="all_reduce", root=None):
    return Asked(verb, tuple(range(size)), "world", root=root)


def straight(calls):
    """A rank that makes these calls, (asked, waited for at once), and waits for the others at the end."""

    def program(rank, size):
        later = []
        for number, (make, at_once) in enumerate(calls):
            yield Calls(make(rank, size))
            if at_once:
                yield Waits(number)
            else:
                later.append(number)
        for number in later:
            yield Waits(number)

    return program


def sends(to, tag=0, at_once=True):
    return lambda rank, size: send(to, tag), at_once


def receives(source=ANY, tag=0, at_once=True):
    return lambda rank, size: recv(rank, size, source, tag), at_once


def joins(verb="all_reduce", root=None, at_once=True):
    return lambda rank, size: together(size, verb, root), at_once


def orders(programs):
    return list(explore(lambda decided: play(Programs(programs), decided)))


def ends(programs):
    """How a program can end: all that met, and which ranks wait for ever in which of their requests."""
    found = set()
    for order in orders(programs):
        if not order.stuck:
            found.add((frozenset(order.board.met.items()), None))
        found |= {(end.met, end.stopped) for end in deadlocks(order)}
    return found


def ends_by_brute_force(programs):
    """The same: in each state every single step that MPI allows, until nothing new is found."""
    found, seen, to_do = set(), set(), [()]
    while to_do:
        steps = to_do.pop()
        ranks, board, at, waits, buffered, over = _replayed(programs, steps)
        key = (tuple(at), frozenset(waits), frozenset(board.met.items()), frozenset(buffered))
        if key in seen:
            continue
        seen.add(key)
        possible = [("run", r) for r in range(ranks.size) if r not in waits and r not in over]
        possible += [
            ("run", r) for r, name in waits.items() if board.is_over(name, buffered=name in buffered)
        ]
        possible += [("meet", (r, s)) for r in board.receives() for s in board.candidates(r).values()]
        if not possible:
            found.add((frozenset(board.met.items()), tuple(at) if waits else None))
        may = [n for n in waits.values() if board.is_over(n, buffered=True) and n not in buffered]
        to_do += [(*steps, step) for step in [*possible, *(("buffer", n) for n in may)]]
    return found


def _replayed(programs, steps):
    ranks = Programs(programs)
    board, at, waits, buffered, over = Board(ranks.size), [0] * ranks.size, {}, set(), set()
    for kind, what in steps:
        match kind:
            case "meet":
                board.meet(*what)
            case "buffer":
                buffered.add(what)
            case "run":
                if what in waits:
                    at[what] += 1
                    name = waits.pop(what)
                    board.waited(name)
                    ranks.go_on(what, name, board)
                match ranks.hear(what):
                    case Calls(asked):
                        at[what] += 1
                        board.ask(what, asked)
                    case Waits(number):
                        waits[what] = what, number
                    case Ends():
                        at[what] += 1
                        over.add(what)
    return ranks, board, at, waits, buffered, over


@st.composite
def programs(draw):
    """2 or 3 ranks, up to 4 messages and collectives that mostly fit; receives from one or anybody."""
    size = draw(st.integers(2, 3))
    calls = [[] for _ in range(size)]
    for kind in draw(st.lists(st.sampled_from("mmmmch"), max_size=4)):
        source, to = draw(st.permutations(range(size)))[:2]
        tag, at_once = draw(st.integers(0, 1)), draw(st.booleans())
        if kind == "c":
            verb, root = draw(st.sampled_from([("all_reduce", None), ("broadcast", 0), ("reduce", 1)]))
            for mine in calls:
                mine.append(joins(verb, root))
        else:
            calls[source].append(sends(to, tag, at_once))
            if kind == "m":
                there = receives(draw(st.sampled_from([source, ANY])), tag, draw(st.booleans()))
                calls[to].insert(draw(st.integers(0, len(calls[to]))), there)
    return [straight(mine) for mine in calls]


@settings(max_examples=15)  # a search through all interleavings takes its time
@given(programs())
def test_all_ends_are_found_that_a_search_of_every_interleaving_finds(programs):
    assert ends(programs) == ends_by_brute_force(programs)


@given(programs())
def test_every_order_is_played_once(programs):
    met = [frozenset(order.board.met.items()) for order in orders(programs)]
    assert len(met) == len(set(met))


def workers(n):
    return [straight([receives()] * n), *[straight([sends(0)])] * n]


@pytest.mark.parametrize("n, count", [(1, 1), (2, 2), (3, 6), (4, 24)])
def test_messages_of_n_workers_come_in_n_factorial_orders(n, count):
    assert len(orders(workers(n))) == count


def test_two_messages_of_each_of_two_workers_keep_their_order():
    program = [straight([receives()] * 4), straight([sends(0)] * 2), straight([sends(0)] * 2)]
    assert len(orders(program)) == 6  # 4 over 2


def test_receives_on_different_ranks_multiply():
    both = [straight([receives(), receives()])] * 2
    senders = [straight([sends(0), sends(1)])] * 2
    assert len(orders([*both, *senders])) == 4


def test_a_message_that_hangs_on_the_receive_cannot_come_first():
    def second(rank, size):
        yield Calls(recv(rank, size, 0, tag=1))
        yield Waits(0)
        yield Calls(send(0))
        yield Waits(1)

    def server(rank, size):
        yield Calls(recv(rank, size))
        yield Waits(0)
        yield Calls(send(2, tag=1))
        yield Waits(1)
        yield Calls(recv(rank, size))
        yield Waits(2)

    assert len(orders([server, straight([sends(0)]), second])) == 1


def test_sends_to_each_other_deadlock_only_if_they_are_not_buffered():
    program = [straight([sends(1 - r), receives(1 - r)]) for r in range(2)]
    (order,) = orders(program)
    assert not order.stuck
    assert [end.waiting for end in deadlocks(order)] == [((0, 0), (1, 0))]


def test_a_deadlock_that_needs_one_send_buffered_and_another_not():
    # With rank 1's first send buffered, it can send to rank 2, which then answers rank 0's wildcard first.
    one = straight([sends(0, 1), sends(2), receives(0, 2)])
    two = straight([receives(1), sends(0)])
    zero = straight([receives(), receives(1, 1), sends(1, 2)])
    ends_found = ends([zero, one, two])
    assert ends_found == ends_by_brute_force([zero, one, two])


def test_ranks_that_do_not_do_the_same_each_time_are_told():
    turn = count()

    def fickle(rank, size):
        if next(turn) < 1:  # and never again
            yield Calls(send(0))
            yield Waits(0)

    with pytest.raises(Unrepeatable):
        orders([straight([receives()] * 3), fickle, straight([sends(0)]), straight([sends(0)])])
