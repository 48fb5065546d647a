"""Predicted times are those of published runs, of the simulator and of the closed forms."""

from dataclasses import replace

import pytest

from labkit.algorithms import interleaved, one_forward_one_backward
from labkit.schedule import pipeline_schedule
from labkit.simulate import ETHERNET_10G, Network, simulate
from labkit.simulate.planner import MEGATRON, ONE_DEVICE, Cluster, Configuration, Model, a100, predict
from labkit.simulate.planner.configuration import WAYS

SMALL = Model(
    layers=8, parameters=1000, flops=1e6, handed=100, stored=800, whole=0, parts=12, sums=1, itemsize=4,
    optimizer=0,
)  # fmt: skip
SLOW = Cluster(4, flops=1e9, memory=1e6, network=Network(alpha=1e-3, bandwidth=1e6))


def seconds(batch=24, **sizes):
    return predict(SMALL, SLOW, Configuration(**sizes), batch).seconds


def test_the_efficiency_is_that_of_one_device():
    """The one number that is fitted."""
    one = replace(a100(1), bandwidth=1.555e12)
    found = predict(ONE_DEVICE.model, one, ONE_DEVICE.configuration, ONE_DEVICE.batch).step
    assert found == pytest.approx(ONE_DEVICE.seconds(), rel=0.01)
    assert ONE_DEVICE.seconds() == pytest.approx(1.076, rel=0.01)  # as published


@pytest.mark.parametrize("run", MEGATRON, ids=lambda run: run.model.name)
def test_megatrons_runs_are_predicted(run):
    found = predict(run.model, a100(run.configuration.devices), run.configuration, run.batch)
    assert found.step == pytest.approx(run.seconds(), rel=0.08)
    assert found.bytes < 80e9  # they fitted
    assert run.model.size == pytest.approx(float(run.model.name.split()[0]) * 1e9, rel=0.03)


@pytest.mark.parametrize("message", (0.0, 0.02, 0.1))
@pytest.mark.parametrize("stages, microbatches, pieces", [(2, 6, 1), (4, 6, 1), (4, 12, 1), (4, 12, 2)])
def test_a_pipeline_takes_what_the_simulator_says(stages, microbatches, pieces, message):
    """`message`: as part of a slot, forward and backward."""
    slot = SMALL.layers / stages * 1e6 * 3 / SLOW.flops
    cluster = replace(SLOW, network=Network(alpha=message * slot, bandwidth=1e30))
    how = Configuration(pipeline=stages, pieces=pieces)
    slots = (
        interleaved(stages, microbatches, pieces)
        if pieces > 1
        else one_forward_one_backward(stages, microbatches)
    )
    schedule = pipeline_schedule(slots, slot / 3 / pieces, 2 * slot / 3 / pieces)
    expected = max(event.end for event in simulate(schedule, cluster.network, 4).events)
    assert predict(SMALL, cluster, how, microbatches).step == pytest.approx(expected, rel=0.05)


def test_one_device_only_computes():
    found = seconds()
    assert found.pop("computing") == pytest.approx(24 * 3 * 8 * 1e6 / 1e9)
    assert set(found.values()) == {0.0}


@pytest.mark.parametrize("agree", WAYS)
def test_replicas_share_the_computing_and_no_layer(agree):
    found = seconds(data=3, agree=agree)
    assert found["computing"] == pytest.approx(seconds()["computing"] / 3)
    assert found["replicas"] > 0
    assert sum(found.values()) == pytest.approx(found["computing"] + found["replicas"])


def test_how_replicas_agree_has_its_price():
    price = {agree: seconds(data=3, microbatch=8, agree=agree)["replicas"] for agree in WAYS}
    assert price["stage 1"] == price["synchronous"] == pytest.approx(4 * (1e-3 + 4 * 8000 / 3 * 1e-6))
    assert price["local steps"] == pytest.approx(price["synchronous"] / 4)
    assert price["server"] == pytest.approx(2 * 1e-3 + 2 * 3 * 4 * 8000 * 1e-6)
    assert price["asynchronous"] < price["server"]
    assert price["sharded"] > 1.5 * price["synchronous"] - 1e-9


def test_parts_of_layers_share_the_computing_and_pay_sums():
    whole, cut = seconds(), seconds(tensor=4)
    assert cut["computing"] == pytest.approx(whole["computing"] / 4)
    assert cut["sums inside layers"] == pytest.approx(24 * 8 * 2 * 6 * (1e-3 + 4 * 100 / 4 * 1e-6))


def test_recomputing_is_a_pass_more():
    plain, again = seconds(tensor=2), seconds(tensor=2, recompute=True)
    assert again["computing"] == pytest.approx(plain["computing"] * 4 / 3)
    assert again["sums inside layers"] == pytest.approx(plain["sums inside layers"] * 3 / 2)


def test_groups_share_what_they_meet_on():
    cluster, port = a100(64), a100(64).network.bandwidth / 8
    assert cluster.link(8).name == "NVLink 3"
    assert cluster.link(4, stride=2).name == "NVLink 3"
    assert cluster.link(16).bandwidth == 8 * port  # one ring through each host's link
    assert cluster.link(16, stride=2).bandwidth == 4 * port
    assert cluster.link(2, stride=32).bandwidth == port
    assert replace(cluster, network=ETHERNET_10G).link(4, stride=2).bandwidth == ETHERNET_10G.bandwidth
