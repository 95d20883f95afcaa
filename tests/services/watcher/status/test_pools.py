"""What pools and node classes should say about themselves (P-13, NP-14..16, NP-24)."""

from __future__ import annotations

from typing import Any

import pytest

from services.watcher.mirror.members import machine_member, node_member
from services.watcher.status.pools import (
    LONGEST_MESSAGE,
    Usage,
    class_refusal,
    class_verdict,
    differs,
    pool_status,
    registration_verdict,
    registrations_are_old,
    usage_by_pool,
    validation_verdict,
)
from shared.domain import labels as keys
from shared.domain.machines.machine import Condition
from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5
from tests.support.planning.builders import make_machine, make_node

FINE = Condition("True", "fine")
META: dict[str, Any] = {"name": "default", "generation": 7}


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


def status_of(
    api: str, validation: Condition, class_ready: Condition, **raw: Any
) -> dict[str, Any]:
    document = {"metadata": META, **raw}
    usage = Usage({"cpu": 4000}, 2)
    return pool_status(document, GENERATIONS[api], validation, class_ready, 3, usage, now=5.0)


def test_capacities_add_up_per_pool_without_those_that_go() -> None:
    """P-13, NP-24; MAP-01: namesakes of two generations are two pools."""
    capacity = {"cpu": 4000, "memory": 16}
    machines = [
        make_machine("a", capacity=capacity),
        make_machine("b", capacity={"cpu": 2000}),
        make_machine("c", capacity=capacity, generation_api=V1),
        make_machine("d", capacity=capacity, terminating=True),
        make_machine("e"),
        make_machine("hand-written", pool=""),
    ]
    assert usage_by_pool(map(machine_member, machines)) == {
        "Provisioner/default": Usage({"cpu": 6000, "memory": 16}, 3),
        "NodePool/default": Usage(capacity, 1),
    }
    assert usage_by_pool([]) == {}


def test_a_node_whose_machine_is_gone_still_counts_and_none_counts_twice() -> None:
    machine = make_machine("a", capacity={"cpu": 1000}, provider_id="aws:///z/i-1")
    labels = {keys.PROVISIONER_NAME: "default"}
    node = make_node("n", provider_id="aws:///z/i-1", labels=labels)
    alone = make_node("alone", provider_id="aws:///z/i-2", labels=labels)
    foreign = make_node("foreign")
    (usage,) = usage_by_pool(
        [machine_member(machine)], map(node_member, (node, alone, foreign))
    ).values()
    assert (usage.nodes, usage.resources["cpu"]) == (2, 5000)


def test_a_v1_pool_is_ready_when_it_is_valid_and_its_class_is_ready() -> None:
    """NP-15; NodeRegistrationHealthy is unknown until something was launched."""
    status = status_of(V1, FINE, FINE)
    assert conditions(status) == {
        "ValidationSucceeded": ("True", "fine"),
        "NodeClassReady": ("True", "fine"),
        "Ready": ("True", "Ready"),
        "NodeRegistrationHealthy": ("Unknown", "AwaitingReconciliation"),
    }
    assert {c["observedGeneration"] for c in status["conditions"]} == {7}
    assert (status["nodes"], status["nodeClassObservedGeneration"]) == (2, 3)
    assert status["resources"] == {"cpu": "4"}


@pytest.mark.parametrize(
    ("validation", "class_ready", "reason"),
    [
        (Condition("False", "NodePoolValidationFailed"), FINE, "NodePoolValidationFailed"),
        (FINE, Condition("False", "NodeClassNotFound"), "NodeClassNotFound"),
        (FINE, Condition("False", "NodeClassTerminating"), "NodeClassTerminating"),
    ],
)
def test_what_is_wrong_is_the_reason_in_both_generations(
    validation: Condition, class_ready: Condition, reason: str
) -> None:
    """NP-16: reasons of a pool's conditions."""
    assert conditions(status_of(V1, validation, class_ready))["Ready"] == ("False", reason)
    status = status_of(V1ALPHA5, validation, class_ready)
    assert conditions(status) == {"Active": ("False", reason)}
    assert "nodes" not in status, "the old generation has no such field"


def test_an_unchanged_status_keeps_its_time_and_other_conditions_stay() -> None:
    old = {"type": "Active", "status": "True", "reason": "x", "message": "",
           "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    foreign = {**old, "type": "Mine"}
    status = status_of(V1ALPHA5, FINE, FINE, status={"conditions": [old, foreign]})
    stamps = {c["type"]: c["lastTransitionTime"] for c in status["conditions"]}
    assert set(stamps) == {"Active", "Mine"}
    assert stamps["Active"].startswith("2026-01-01T00:00:00")


def test_a_resource_that_is_no_longer_there_is_zero() -> None:
    """P-13: a merge patch only adds keys."""
    raw = {"metadata": META, "status": {"resources": {"memory": "1Gi"}}}
    status = pool_status(raw, GENERATIONS[V1], FINE, FINE, 1, Usage({}, 0), now=1.0)
    assert status["resources"] == {"memory": "0"}
    assert differs(raw, status)
    assert not differs({"metadata": META, "status": status}, status)


def test_rubbish_in_a_status_counts_as_absent() -> None:
    for rubbish in ("x", {"conditions": "x", "resources": 3}, [1]):
        assert conditions(status_of(V1ALPHA5, FINE, FINE, status=rubbish)) == {
            "Active": ("True", "Active")
        }


@pytest.mark.parametrize(
    ("raw", "status", "reason"),
    [
        (None, "False", "NodeClassNotFound"),
        ({"metadata": {"deletionTimestamp": "now"}}, "False", "NodeClassTerminating"),
        ({"metadata": {}}, "Unknown", "NodeClassReadinessUnknown"),
        (
            {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            "False",
            "NodeClassNotReady",
        ),
        (
            {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            "True",
            "NodeClassReady",
        ),
    ],
)
def test_a_class_is_missing_terminating_unknown_unready_or_ready(
    raw: dict[str, Any] | None, status: str, reason: str
) -> None:
    """NP-16: reasons of a pool's conditions."""
    said = class_verdict("default", raw)
    assert (said.status, said.reason) == (status, reason)


def test_a_class_that_is_ours_to_make_is_awaited_not_missing() -> None:
    """T-13: the template of ``spec.provider`` is made before the watch shows it."""
    said = class_verdict("default-inline", None, ours=True)
    assert (said.status, said.reason) == ("Unknown", "NodeClassReadinessUnknown")


def test_faults_are_said_all_at_once_and_have_an_end() -> None:
    """F27: faulty objects."""
    said = validation_verdict(("spec.a: x", "spec.b: y"), "ValidationFailed")
    assert said == Condition("False", "ValidationFailed", "spec.a: x; spec.b: y")
    assert len(validation_verdict(("x" * 5000,), "r").message) == LONGEST_MESSAGE
    assert validation_verdict((), "r").status == "True"


def test_a_faulty_class_is_not_ready_in_its_own_words() -> None:
    """EC-16; v1alpha1 has Ready only."""
    status = class_refusal({"kind": "EC2NodeClass", "metadata": META}, ("spec.x: y",), now=1.0)
    assert conditions(status) == {
        "ValidationSucceeded": ("False", "ValidationFailed"),
        "Ready": ("False", "ValidationFailed"),
    }
    status = class_refusal({"kind": "AWSNodeTemplate", "metadata": META}, ("spec.x: y",), now=1.0)
    assert conditions(status) == {"Ready": ("False", "ValidationFailed")}


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ((), "Unknown"),
        ((True,), "True"),
        ((False,), "True"),
        ((False, False), "False"),
        ((True, False, True, False), "False"),
        ((True, True, True, False), "True"),
    ],
)
def test_two_failed_registrations_of_the_last_four_are_not_healthy(
    outcomes: tuple[bool, ...], status: str
) -> None:
    """NP-15: conditions of a pool; LCH-77: registrations count for the pool."""
    assert registration_verdict(outcomes).status == status


def test_registration_health_begins_anew_with_an_edit_of_pool_or_class() -> None:
    """NP-15: until then it stays, also while nobody remembers the outcomes."""

    def judged(raw: dict[str, Any], class_generation: int, *outcomes: bool) -> dict[str, Any]:
        usage = Usage({}, 0)
        return pool_status(
            raw,
            GENERATIONS[V1],
            FINE,
            FINE,
            class_generation,
            usage,
            now=5.0,
            registrations=outcomes,
        )

    failing = judged({"metadata": META, "status": status_of(V1, FINE, FINE)}, 3, False, False)
    assert conditions(failing)["NodeRegistrationHealthy"][0] == "False"
    same = {"metadata": META, "status": failing}
    assert not registrations_are_old(same, 3)
    assert conditions(judged(same, 3))["NodeRegistrationHealthy"][0] == "False"
    edited = {"metadata": {**META, "generation": 8}, "status": failing}
    for raw, class_generation in ((edited, 3), (same, 4)):
        assert registrations_are_old(raw, class_generation)
        after = judged(raw, class_generation)
        assert conditions(after)["NodeRegistrationHealthy"][0] == "Unknown"
        assert not registrations_are_old({**raw, "status": after}, class_generation)
