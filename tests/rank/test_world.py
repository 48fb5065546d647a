"""What a rank's world is made of."""

FIND = """
from torch.distributed.distributed_c10d import _get_default_store
store = _get_default_store()
while hasattr(store, "underlying_store"):
    store = store.underlying_store
"""


def test_ranks_meet_in_a_file_of_their_own(labs, ask):
    assert ask(labs(2)[:], "type(store).__name__", FIND) == ["FileStore"] * 2
