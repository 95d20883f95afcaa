"""Machines to and from the API server (M-01..M-07), and the rules of conditions."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given

from shared.api.conditions import condition_objects, parse_conditions, with_condition
from shared.api.hashes import METHOD
from shared.api.v1.node_claims import parse_node_claim, planned_object
from shared.api.v1alpha5.machines import machine_conditions, parse_machine, with_readiness
from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint, Toleration
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED, Condition
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.records import decode_record
from shared.errors import InvalidObject
from tests.shared.api.conftest import META, document, json_values, objects
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    make_node_class,
    make_pod,
    make_pool,
    make_snapshot,
)
from tests.support.planning.snapshots import plan_for

WORDS = (
    "requirements", "resources", "requests", "taints", "startupTaints", "kubelet", "key", "value",
    "effect", "operator", "values", "In", "machineTemplateRef", "nodeClassRef", "expireAfter",
    "lastPodEventTime", "720h", "name", "providerID", "nodeName", "capacity", "allocatable",
    "conditions", "type", "status", "lastTransitionTime", "cpu",
)  # fmt: skip


PARSERS = {V1ALPHA5: parse_machine, V1: parse_node_claim}
generations = pytest.mark.parametrize("api", [V1ALPHA5, V1])


@generations
def test_a_planned_machine_reads_back_the_same(api: str) -> None:
    """M-01, M-05, NC-05..NC-07: owner, finalizer, labels, requirements, requests, taints and hashes."""
    pool = make_pool(
        generation_api=api,
        hash="17",
        labels={"team": "blue"},
        annotations={"note": "x"},
        taints=(Taint("special", "NoSchedule", "v"),),
        startup_taints=(Taint("boot", "NoExecute"),),
        kubelet={"maxPods": 20} if api == V1ALPHA5 else {},
        expire_seconds=600.0 if api == V1 else None,
        termination_grace_seconds=90.0 if api == V1 else None,
    )
    node_class = make_node_class(generation_api=api, hash="18")
    tolerant = make_pod(tolerations=(Toleration("", "Exists"),))
    plan = plan_for(make_snapshot(tolerant, pools=(pool,), node_classes=(node_class,)))
    (planned,) = plan.machines
    body = planned_object(planned, pool, node_class, plan=plan.id)
    stored = {**body, "metadata": {**META, **body["metadata"]}}
    machine = PARSERS[api](stored)
    assert machine.key == f"{body['kind']}/{planned.name}"
    assert (machine.pool_key, machine.node_class_key) == (pool.key, node_class.key)
    assert machine.labels == planned.labels
    assert machine.requirements == planned.requirements
    assert machine.requests == planned.requests
    assert machine.taints == planned.taints == pool.taints
    assert machine.startup_taints == pool.startup_taints
    assert machine.kubelet == pool.kubelet
    assert machine.expire_seconds == pool.expire_seconds
    assert machine.termination_grace_seconds == pool.termination_grace_seconds
    expected = {"note": "x", keys.PLAN_ANNOTATION: plan.id, keys.HASHED_BY: METHOD}
    assert expected.items() <= machine.annotations.items()
    assert {"17", "18"} <= set(machine.annotations.values())
    assert machine.finalizers == (keys.FINALIZER,)
    (owner,) = stored["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == (pool.kind, pool.name, pool.uid)
    assert owner["blockOwnerDeletion"] is True


@pytest.mark.parametrize(("policy", "said"), [("Strict", "false"), ("BestEffort", "true")])
def test_a_node_claim_says_whether_min_values_were_lowered(policy: str, said: str) -> None:
    """NC-07: annotations of a NodeClaim; SCH-12: minValues."""
    least = 8 if policy == "BestEffort" else 7
    choosy = Expression(keys.INSTANCE_TYPE, "Exists", (), least)
    pool = make_pool(generation_api=V1, requirements=(*DEFAULT_REQUIREMENTS, choosy))
    node_class = make_node_class(generation_api=V1)
    snapshot = make_snapshot(make_pod(), pools=(pool,), node_classes=(node_class,))
    (planned,) = plan_for(snapshot, min_values_policy=policy).machines
    body = planned_object(planned, pool, node_class, plan="p")
    assert body["metadata"]["annotations"][keys.MIN_VALUES_RELAXED] == said


def test_conditions_have_the_names_of_their_generation() -> None:
    """M-03, NC-03: MachineLaunched and Launched are one thing to the rest of the product."""
    said = {LAUNCHED: Condition("True", "x", "", 1.0), "Mine": Condition("True", "x", "", 1.0)}
    for api, names in ((V1ALPHA5, {"MachineLaunched", "Mine"}), (V1, {"Launched", "Mine"})):
        written = machine_conditions(said, api)
        assert {one["type"] for one in written} == names
        assert PARSERS[api](document({}, {"conditions": written})).conditions == said


def test_a_node_claim_written_by_hand_needs_no_pool() -> None:
    """NC-10: a NodeClaim without pool."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
    status = {"imageID": "ami-1", "lastPodEventTime": "2026-01-01T00:00:00Z"}
    spec = {"nodeClassRef": reference, "expireAfter": "Never"}
    claim = parse_node_claim(document(spec, status))
    assert (claim.pool, claim.pool_key) == ("", "")
    assert claim.node_class_key == "EC2NodeClass/gpu"
    assert claim.expire_seconds is None
    assert (claim.image_id, claim.last_pod_event_at) == ("ami-1", 1_767_225_600.0)


def test_conditions_read_back_the_same() -> None:
    """M-03: conditions of a Machine."""
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
    """F27: faulty objects."""
    with pytest.raises(InvalidObject) as refused:
        parse_machine(document(spec))
    assert refused.value.field == field


@generations
@given(objects(*WORDS), json_values(*WORDS))
def test_a_machine_is_read_or_refused(api: str, spec: dict[str, Any], status: object) -> None:
    """F27: nothing but InvalidObject, and what is read survives the mirror."""
    with contextlib.suppress(InvalidObject):
        machine = PARSERS[api](document(spec, status))
        assert decode_record("machines", msgspec.json.encode(machine)) == machine
