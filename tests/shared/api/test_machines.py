"""Machines to and from the API server (M-01..M-07), and the rules of conditions."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given

from shared.api.machines import (
    condition_objects,
    machine_object,
    parse_conditions,
    parse_machine,
    with_condition,
    with_readiness,
)
from shared.domain import labels as keys
from shared.domain.expressions import Taint, Toleration
from shared.domain.machines import INITIALIZED, LAUNCHED, REGISTERED, Condition
from shared.domain.records import decode_record
from shared.errors import InvalidObject
from tests.shared.api.conftest import META, document, json_values, objects
from tests.support.builders import make_pod, make_pool, make_snapshot
from tests.support.planning import plan_for

WORDS = (
    "requirements", "resources", "requests", "taints", "startupTaints", "kubelet", "key", "value",
    "effect", "operator", "values", "In", "machineTemplateRef", "name", "providerID", "nodeName",
    "capacity", "allocatable", "conditions", "type", "status", "lastTransitionTime", "cpu",
)  # fmt: skip


def test_a_planned_machine_reads_back_the_same() -> None:
    """M-01, M-05: owner, finalizer, labels, requirements, requests and taints."""
    pool = make_pool(
        labels={"team": "blue"},
        annotations={"note": "x"},
        taints=(Taint("special", "NoSchedule", "v"),),
        startup_taints=(Taint("boot", "NoExecute"),),
        kubelet={"maxPods": 20},
    )
    tolerant = make_pod(tolerations=(Toleration("", "Exists"),))
    plan = plan_for(make_snapshot(tolerant, pools=(pool,)))
    (planned,) = plan.machines
    body = machine_object(planned, pool, plan=plan.id)
    stored = {**body, "metadata": {**META, **body["metadata"]}}
    machine = parse_machine(stored)
    assert machine.name == planned.name
    assert machine.pool == pool.name
    assert machine.labels == planned.labels
    assert machine.requirements == planned.requirements
    assert machine.requests == planned.requests
    assert machine.taints == planned.taints == pool.taints
    assert machine.startup_taints == pool.startup_taints
    assert machine.kubelet == {"maxPods": 20}
    assert machine.node_class == planned.node_class
    assert machine.annotations == {"note": "x", keys.PLAN_ANNOTATION: plan.id}
    assert machine.finalizers == (keys.FINALIZER,)
    (owner,) = stored["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Provisioner", pool.name, pool.uid)
    assert owner["blockOwnerDeletion"] is True


def test_conditions_read_back_the_same() -> None:
    """M-03."""
    conditions = {
        LAUNCHED: Condition("True", "Launched", "", 1_700_000_000.0),
        REGISTERED: Condition("Unknown", "NodeNotFound", "waiting", 1_700_000_001.0),
    }
    assert parse_conditions(condition_objects(conditions)) == conditions


def test_an_unchanged_status_keeps_its_transition_time() -> None:
    """The emptiness clock and the launch timeout run from it (DIS-32, LCH-76)."""
    first = with_condition({}, LAUNCHED, Condition("Unknown", "A", "a", 1.0))
    second = with_condition(first, LAUNCHED, Condition("Unknown", "B", "b", 9.0))
    assert second[LAUNCHED] == Condition("Unknown", "B", "b", 1.0)
    third = with_condition(second, LAUNCHED, Condition("True", "C", "", 10.0))
    assert third[LAUNCHED].since == 10.0


def test_a_machine_is_ready_when_all_three_living_conditions_are_true() -> None:
    """M-03; the reason names the first that is missing."""
    conditions: dict[str, Condition] = {}
    for number, kind in enumerate((LAUNCHED, REGISTERED)):
        conditions = with_readiness(conditions, kind, Condition("True", since=float(number)))
    assert conditions["Ready"].status == "False"
    assert INITIALIZED in conditions["Ready"].message
    conditions = with_readiness(conditions, INITIALIZED, Condition("True", since=5.0))
    assert conditions["Ready"] == Condition("True", "Ready", "", 5.0)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"taints": [{"key": "k"}]}, "spec.taints[0]"),
        ({"taints": [{"key": "k", "effect": "NoSchedule", "value": "';"}]}, "spec.taints[0]"),
        ({"requirements": [{"key": "k", "operator": "Near"}]}, "spec.requirements[0].operator"),
        ({"resources": {"requests": {"cpu": "x"}}}, "spec.resources.requests.cpu"),
    ],
)
def test_a_machine_written_by_hand_is_refused_with_its_field(
    spec: dict[str, Any], field: str
) -> None:
    """F27."""
    with pytest.raises(InvalidObject) as refused:
        parse_machine(document(spec))
    assert refused.value.field == field


@given(objects(*WORDS), json_values(*WORDS))
def test_a_machine_is_read_or_refused(spec: dict[str, Any], status: object) -> None:
    """F27: nothing but InvalidObject, and what is read survives the mirror."""
    with contextlib.suppress(InvalidObject):
        machine = parse_machine(document(spec, status))
        assert decode_record("machines", msgspec.json.encode(machine)) == machine
