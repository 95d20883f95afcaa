"""Metrics of machines under the names and labels that dashboards match on (MET-01, MET-02, MET-12)."""

from __future__ import annotations

import pytest

from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5
from shared.metrics import EVENTUAL, Metrics
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import make_machine

SPOT = {"karpenter.sh/capacity-type": "spot"}


@pytest.mark.parametrize("generation_api", [V1, V1ALPHA5])
def test_an_end_is_counted_with_its_policy_and_its_mode(generation_api: str) -> None:
    """MET-01, MET-02; of a Provisioner's Machine also by the name of v0.31 (MET-12)."""
    metrics = Metrics("test")
    machine = make_machine(generation_api=generation_api, labels=SPOT)
    metrics.count_disrupted(machine, "drifted", EVENTUAL, policy="WhenEmpty")
    labels = {
        "reason": "drifted",
        "nodepool": "default",
        "capacity_type": "spot",
        "consolidation_policy": "WhenEmpty",
        "termination_mode": "eventual",
    }
    scraped = Scraped(metrics.text())
    assert scraped.value("karpenter_nodeclaims_disrupted_total", **labels) == 1
    old = scraped.value("karpenter_machines_disrupted", reason="drifted", provisioner="default")
    assert old == (1 if generation_api == V1ALPHA5 else None)


@pytest.mark.parametrize(("relaxed", "text"), [(True, "true"), (False, "false")])
def test_a_machine_of_too_few_kinds_is_counted_apart(relaxed: bool, text: str) -> None:
    """MET-01: metrics of machines."""
    metrics = Metrics("test")
    metrics.count_created("provisioned", "default", GENERATIONS[V1ALPHA5], relaxed=relaxed)
    labels = {"reason": "provisioned", "nodepool": "default", "min_values_relaxed": text}
    scraped = Scraped(metrics.text())
    assert scraped.value("karpenter_nodeclaims_created_total", **labels) == 1
    old = {"reason": "provisioned", "provisioner": "default"}
    assert scraped.value("karpenter_machines_created", **old) == 1


@pytest.mark.parametrize("event", ["terminated", "launched", "registered", "initialized"])
def test_steps_of_machines_keep_the_names_of_v0_31(event: str) -> None:
    """MET-12; NodeClaims have status conditions instead."""
    metrics = Metrics("test")
    metrics.count_event(make_machine(), event)
    metrics.count_event(make_machine(generation_api=V1), event)
    scraped = Scraped(metrics.text())
    assert scraped.value(f"karpenter_machines_{event}", provisioner="default") == 1


def test_drift_is_counted_under_both_names() -> None:
    """DRF-03: reasons for drift of the cloud; MET-12: names of v0.31."""
    metrics = Metrics("test")
    for generation_api in (V1, V1ALPHA5):
        metrics.count_drifted(make_machine(generation_api=generation_api), "AMIDrift")
    scraped = Scraped(metrics.text())
    new = {"reason": "AMIDrift", "nodepool": "default"}
    assert scraped.value("karpenter_machines_drifted_total", **new) == 2
    old = {"reason": "AMIDrift", "provisioner": "default"}
    assert scraped.value("karpenter_machines_drifted", **old) == 1
