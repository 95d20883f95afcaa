"""Metrics under the names and labels that dashboards match on (MET-01, MET-02, MET-12)."""

from __future__ import annotations

import pytest

from shared.domain.nodepools import V1, V1ALPHA5
from shared.metrics import EVENTUAL, MACHINE_EVENTS, Metrics
from tests.support.builders import make_machine

SPOT = {"karpenter.sh/capacity-type": "spot"}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


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
    assert value(metrics, "karpenter_nodeclaims_disrupted_total", **labels) == 1
    old = value(metrics, "karpenter_machines_disrupted", reason="drifted", provisioner="default")
    assert old == (1 if generation_api == V1ALPHA5 else None)


@pytest.mark.parametrize(("relaxed", "text"), [(True, "true"), (False, "false")])
def test_a_machine_of_too_few_kinds_is_counted_apart(relaxed: bool, text: str) -> None:
    """MET-01."""
    metrics = Metrics("test")
    metrics.count_created("provisioned", "default", V1ALPHA5, relaxed=relaxed)
    labels = {"reason": "provisioned", "nodepool": "default", "min_values_relaxed": text}
    assert value(metrics, "karpenter_nodeclaims_created_total", **labels) == 1
    old = {"reason": "provisioned", "provisioner": "default"}
    assert value(metrics, "karpenter_machines_created", **old) == 1


@pytest.mark.parametrize(
    "event", [one for one in MACHINE_EVENTS if one not in ("created", "disrupted")]
)
def test_steps_of_machines_keep_the_names_of_v0_31(event: str) -> None:
    """MET-12; NodeClaims have status conditions instead."""
    metrics = Metrics("test")
    metrics.count_event(make_machine(), event)
    metrics.count_event(make_machine(generation_api=V1), event)
    assert value(metrics, f"karpenter_machines_{event}", provisioner="default") == 1
