"""Every configuration is ranked or rejected with its reason; the best of a shape speaks for it."""

import time
from dataclasses import replace

import pytest

import labkit
from labkit.simulate.planner import Budget, Configuration, Model, a100, plan, predict
from labkit.simulate.planner.configuration import EXACT

GPT = Model.transformer(layers=36, hidden=4096, heads=32, name="7.5 B")


def reasons(plans):
    return {str(p.configuration).partition(", microbatch")[0]: p.rejected for p in plans.rejected}


def test_it_is_the_public_one():
    assert labkit.plan is plan


@pytest.mark.parametrize("devices", (1, 2, 3, 4, 8, 24, 64))
def test_all_devices_are_used_and_all_keep_to_the_budget(devices):
    found = plan(GPT, a100(devices), Budget(batch=48, exact=False))
    every = [*found.ranked, *found.rejected]
    assert {p.configuration.devices for p in every} == {devices}
    shapes = {replace(p.configuration, microbatch=1, pieces=1, recompute=False) for p in every}
    assert len(shapes) == len(every)
    assert all(p.bytes <= 80e9 for p in found.ranked)
    assert [p.step for p in found.ranked] == sorted(p.step for p in found.ranked)
    assert all(p.rejected for p in found.rejected)


def test_what_does_not_fit_is_told_in_bytes():
    found = reasons(plan(GPT, a100(2), Budget(batch=32)))
    assert found["data 2"] == "does not fit: 121 GB of 80"
    assert plan(GPT, a100(2, memory=640e9), Budget(batch=32)).ranked


def test_what_is_too_slow_or_not_exact_is_told():
    found = reasons(plan(GPT, a100(8, memory=1e12), Budget(batch=56, seconds=0.1)))
    assert found["tensor 8"].startswith("too slow: ") and found["tensor 8"].endswith(" s of 0.1")
    assert found["data 8, local steps"] == "not exact: local steps"
    assert found["data 7, asynchronous"] == "not exact: asynchronous"


def test_what_cannot_be_cut_is_told():
    found = reasons(plan(GPT, a100(5), Budget(batch=40)))
    assert found["tensor 5"] == "32 parts of a layer are not shared by 5 ranks alike"
    assert found["pipeline 5"] == "36 layers make no 5 equal stages"
    assert predict(GPT, a100(3), Configuration(data=3), 8).rejected == (
        "8 samples are not 3 x equally many microbatches of 1"
    )


def test_the_best_of_a_shape_speaks_for_it():
    best = plan(GPT, a100(16), Budget(batch=64)).ranked[0]
    for change in {"microbatch": 1}, {"microbatch": 4}, {"recompute": True}, {"recompute": False}:
        other = predict(GPT, a100(16), replace(best.configuration, **change), 64)
        assert other.rejected or other.bytes > 80e9 or other.step >= best.step


def test_a_budget_can_be_tighter_than_the_devices():
    wide, tight = (plan(GPT, a100(16), Budget(batch=64, memory=m)) for m in (80e9, 30e9))
    assert {str(p.configuration) for p in tight.ranked} != {str(p.configuration) for p in wide.ranked}
    assert all(p.bytes <= 30e9 for p in tight.ranked)


@pytest.mark.parametrize("devices", (1, 64, 512, 4096))
def test_thousands_of_devices_are_planned_in_seconds(devices):
    began = time.process_time()
    found = plan(Model.transformer(96, 12288, 96), a100(devices), Budget(batch=4096))
    assert time.process_time() - began < 10  # half a second of a fast core
    assert bool(found.ranked) == (devices > 1)
    assert all(p.configuration.agree in EXACT for p in found.ranked)


def test_more_devices_of_a_kind_are_never_slower():
    steps = [plan(GPT, a100(n), Budget(batch=512)).ranked[0].step for n in (8, 16, 32, 64, 128)]
    assert steps == sorted(steps, reverse=True)


def test_the_configurations_of_the_lessons_have_their_names():
    names = {
        "single": Configuration(),
        "synchronous": Configuration(data=4),
        "server": Configuration(data=3, agree="server"),
        "asynchronous": Configuration(data=1, agree="asynchronous"),
        "sharded": Configuration(data=2, agree="sharded"),
        "tensor": Configuration(tensor=2),
        "pipeline": Configuration(pipeline=2),
        "hybrid": Configuration(data=2, pipeline=2),
    }
    assert {name: one.strategy for name, one in names.items()} == {name: name for name in names}
