"""What labkit leans on in this PyTorch: each name is there, and what they do beyond that."""

import inspect
import re

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from labkit import LabError
from labkit.mpi import registration, torch_internals
from labkit.mpi.torch_internals import LEANS, PLUGINS, RELEASE, Lean, missing, require
from tests.environments import ROOT


@pytest.mark.parametrize("lean", LEANS, ids=lambda lean: lean.name)
def test_this_pytorch_has(lean):
    if not lean.concerns(RELEASE):
        pytest.skip(f"not leant on in PyTorch {torch.__version__}")
    assert not missing((lean,)), f"PyTorch {torch.__version__} has no {lean}"


def test_the_helper_that_makes_groups_takes_what_labkit_hands_it():
    named = list(inspect.signature(inspect.unwrap(c10d._new_process_group_helper)).parameters)
    assert named[:6] == [
        "group_size", "group_rank", "global_ranks_in_group", "backend", "store", "group_name",
    ]  # fmt: skip
    assert "timeout" in named


def test_since_2_14_a_plugin_takes_the_name_mpi_and_none_is_found_by_that_of_torchs_own():
    register = inspect.signature(dist.Backend.register_backend).parameters
    assert {"name", "func", "extended_api", "devices"} <= set(register)
    if PLUGINS:
        assert c10d.Backend._ensure_backend_registered  # which leaves alone what has registered itself


def test_a_pytorch_that_lacks_something_is_refused_in_one_sentence(monkeypatch):
    gone = (*LEANS, Lean("torch.distributed:gone", "a test"), Lean("torch.gone:too", "the same"))
    with pytest.raises(LabError) as refused:
        require(gone)
    said = str(refused.value)
    assert (
        f"PyTorch {torch.__version__}" in said
        and "has no torch.distributed.gone (a test), and 1 more" in said
    )
    assert "pip install" in said
    monkeypatch.setattr(torch_internals, "require", lambda: require(gone))
    with pytest.raises(LabError, match="gone"):
        registration.register()


def test_what_concerns_other_versions_is_not_asked_for():
    assert not missing((Lean("torch:gone", "", since=(99, 0)), Lean("torch:gone", "", until=(2, 13))))


PRIVATE = re.compile(r"\b(torch\._C|c10d\._|dist\._|c10d_logger)|\._(plugins|device_types)\b")


def test_nothing_else_in_labkit_names_torch_distributeds_internals():
    inside = {"labkit/mpi/torch_internals.py", "labkit/mpi/identity.py"}  # which answers for them
    leant = {"labkit/mpi/hazards/in_flight.py": "torch._C.DisableTorchFunctionSubclass"}
    for path in ROOT.glob("labkit/**/*.py"):
        name = str(path.relative_to(ROOT))
        code = "\n".join(line.partition("#")[0] for line in path.read_text().splitlines())
        code = code.replace(leant.get(name, "\0"), "")
        assert name in inside or not PRIVATE.search(code), f"{name}: {PRIVATE.search(code)}"
