"""Cases that go wrong on purpose: the tests of the runner itself."""

import os
import threading

from .table import case


@case(deadline=5)
def passes(w):
    assert w.size == 2


@case(deadline=5)
def fails_on_one_rank(w):
    assert w.rank == 0, "wrong on purpose"


@case(deadline=2)
def hangs_on_one_rank(w):
    if w.rank == 1:
        threading.Event().wait()


@case(deadline=5)
def dies_on_one_rank(w):
    if w.rank == 1:
        os._exit(7)


@case(deadline=5)
def passes_after_all_that(w):
    assert w.rank in (0, 1)
