"""The store of the default group: all ranks share it, and where it can be a file nobody else does."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch.distributed as dist

from labkit.mpi.wire import store


def met(ranks: int, several_hosts: bool) -> list[dist.Store]:
    """What each of so many ranks gets, which are threads here."""
    meeting, said = threading.Barrier(ranks), [""] * ranks

    def join(rank):
        def all_gather(text):
            meeting.wait(20)
            said[rank] = text
            meeting.wait(20)
            return list(said)

        return store.shared(rank, ranks, several_hosts, all_gather)

    with ThreadPoolExecutor(ranks) as pool:
        return list(pool.map(join, range(ranks)))


def require_shared(stores: list[dist.Store]) -> None:
    for rank, own in enumerate(stores):
        own.set(f"from {rank}", str(rank))
    for own in stores:
        assert [own.get(f"from {rank}") for rank in range(len(stores))] == [b"0", b"1", b"2"][: len(stores)]


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has files without a name")
@pytest.mark.parametrize("ranks", [1, 3])
def test_on_one_machine_it_is_a_file_without_a_name(ranks):
    stores = met(ranks, several_hosts=False)
    assert {type(own) for own in stores} == {dist.FileStore}
    assert not any(os.path.exists(own.path) and os.stat(own.path).st_nlink for own in stores)
    require_shared(stores)


def test_on_several_hosts_it_is_a_file_in_the_labs_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(store.FOLDER, str(tmp_path))
    first, second = met(3, several_hosts=True), met(3, several_hosts=True)
    files = [{own.path for own in stores} for stores in (first, second)]
    assert [len(paths) for paths in files] == [1, 1] and files[0] != files[1], "each store has its own"
    for path in map(Path, files[0] | files[1]):
        assert path.parent == tmp_path and path.stat().st_mode & 0o077 == 0
    require_shared(first)
    require_shared(second)


@pytest.mark.parametrize("lost", ["no folder", "a file that the others do not see", "locks that do not hold"])
def test_where_there_can_be_no_file_a_port_takes_its_place(tmp_path, monkeypatch, lost):
    monkeypatch.delenv(store.FOLDER, raising=False)
    if lost != "no folder":
        monkeypatch.setenv(store.FOLDER, str(tmp_path))
        opened = store._opened

        def own_view(place, all_gather):
            if lost == "locks that do not hold":
                place += f"-{threading.get_ident()}"
                open(place, "w").close()
            else:
                place += "-elsewhere"
            return opened(place, all_gather)

        monkeypatch.setattr(store, "_opened", own_view)
    stores = met(2, several_hosts=True)
    assert {type(own) for own in stores} == {dist.TCPStore}
    require_shared(stores)
