"""Every verb of torch.distributed at 2, 3 and 4 ranks, checked mode off, and at 3 ranks on.

Each case is a function in `cases_*.py`. All cases of a world size share one launch of ranks; each is a
test of its own here. `make test` runs every other case once, at one size or in one mode after the other,
`make test-all` the other cases likewise, `make nightly` all at all sizes. `tests/seed.py` draws their data.
"""

import inspect
import re
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable

from labkit.mpi import torch_internals

from .launches import selects
from .table import MODULES, load

MODES = ((2, False), (3, False), (4, False), (3, True))


def rows():
    for place, case in enumerate(load().values()):
        possible = [(size, checked) for size, checked in MODES if selects(size, checked)(case)]
        by_day = _by_day(possible)
        for size, checked in possible:
            mode = "-checked" if checked else ""
            if case.nightly or (size, checked) != by_day[place // 2 % len(by_day)]:
                marks = [pytest.mark.nightly]
            else:
                marks = [pytest.mark.slow] * (place % 2)
            if case.since > torch_internals.RELEASE:
                marks.append(pytest.mark.skip(reason="PyTorch {}.{} and newer".format(*case.since)))
            yield pytest.param(case.name, size, checked, id=f"{size}{mode}-{case.name}", marks=marks)


def _by_day(possible):
    """Each launch takes seconds: by day there is none of 3 ranks unchecked, unless a case needs it."""
    return [mode for mode in possible if mode != (3, False)] or possible


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("case_name", "size", "checked"), list(rows()))
def test_case(launches, case_name, size, checked):
    verdict = launches[size, checked][case_name]
    assert verdict.passed, verdict.text


def test_every_file_of_cases_is_in_the_table():
    assert {path.stem for path in Path(__file__).parent.glob("cases_*.py")} == set(MODULES)


UNTRIED = {
    "get_pg_count": "asks torch", "is_mpi_available": "asks torch", "get_backend_config": "asks torch",
    "get_default_backend_for_device": "asks torch", "supports_complex": "asks torch",
    "is_backend_available": "asks torch", "is_gloo_available": "asks torch",
    "is_nccl_available": "asks torch", "is_ucc_available": "asks torch", "is_xccl_available": "asks torch",
    "is_torchelastic_launched": "asks the environment", "record_comm": "for NCCL",
    "isend_inplace": "for the compiler", "irecv_inplace": "for the compiler",
    "batch_p2p_ops_inplace": "for the compiler",
    "allow_inflight_collective_as_graph_input_ctx": "for the compiler",
}  # fmt: skip
"""What is in no case, and why."""


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="the names are those of PyTorch 2.13")
def test_every_public_function_of_torch_distributed_is_in_some_case():
    cases = "".join(path.read_text() for path in Path(__file__).parent.glob("cases_*.py"))
    names = {name for name in dist.distributed_c10d.__all__ if inspect.isfunction(getattr(dist, name, None))}
    for module in functional, differentiable:
        own = (
            n for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__
        )
        names |= {n for n in own if not re.search("^_|_backward$|_setup_context$", n)}
    assert {name for name in names if not re.search(rf"\b{name}\b", cases)} == UNTRIED.keys()
