"""What a CapacityBuffer comes to: how many virtual pods, of which shape, or why none (GAT-02)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.workloads.capacity_buffers import CapacityBuffer, PodTemplate
from shared.domain.workloads.pods import is_provisionable
from shared.domain.workloads.virtual_pods import (
    MOST_REPLICAS,
    MOST_VIRTUAL_PODS,
    replicas_of,
    resolved,
    virtual_pods,
)
from tests.support.planning.builders import amounts, make_bound_pod, make_pod


def template(kind: str = "PodTemplate", replicas: int = 0, **pod: Any) -> PodTemplate:
    return PodTemplate(kind, "default", "web", make_pod("web", cpu="500m", **pod), 3, replicas)


def buffer(name: str = "spare", **changes: Any) -> CapacityBuffer:
    return CapacityBuffer(f"uid-{name}", "default", name, template="web", **changes)


WORKLOAD = {"kind": "Deployment"}


@pytest.mark.parametrize(
    ("spec", "there", "expected"),
    [
        ({"replicas": 3}, 0, 3),
        ({"replicas": 0}, 0, 0),
        ({**WORKLOAD, "percentage": 20}, 10, 2),
        ({**WORKLOAD, "percentage": 20}, 11, 3),
        ({**WORKLOAD, "percentage": 1}, 1, 1),
        ({**WORKLOAD, "percentage": 50}, 0, 0),
        ({**WORKLOAD, "percentage": 0}, 10, 0),
        ({**WORKLOAD, "percentage": 20, "replicas": 5}, 10, 5),
        ({**WORKLOAD, "percentage": 80, "replicas": 5}, 10, 8),
        ({"limits": amounts(cpu="2")}, 0, 4),
        ({"limits": amounts(cpu="2", memory="256Mi")}, 0, 2),
        ({"limits": amounts(cpu="2"), "replicas": 3}, 0, 3),
        ({"limits": amounts(cpu="1"), "replicas": 3}, 0, 2),
        ({"limits": {"nvidia.com/gpu": 1}, "replicas": 3}, 0, 3),
        (WORKLOAD, 10, 0),
    ],
)
def test_replicas_and_percentage_within_the_limits(
    spec: dict[str, Any], there: int, expected: int
) -> None:
    """The greater of both counts, rounded up; limits cut it, and alone they decide."""
    assert replicas_of(buffer(**spec), template(replicas=there)) == expected


@given(
    replicas=st.none() | st.integers(0, 50),
    percentage=st.none() | st.integers(0, 300),
    there=st.integers(0, 40),
    cpu=st.none() | st.integers(0, 20_000),
)
def test_limits_hold_and_a_share_is_never_less_than_was_asked(
    replicas: int | None, percentage: int | None, there: int, cpu: int | None
) -> None:
    limits = None if cpu is None else {"cpu": cpu}
    asked = buffer(kind="Deployment", replicas=replicas, percentage=percentage, limits=limits)
    found = replicas_of(asked, template("Deployment", there))
    assert limits is None or found * 500 <= limits["cpu"]
    if limits is None:
        assert found >= (replicas or 0)
        assert found * 100 >= there * (percentage or 0)


def test_virtual_pods_wait_and_are_the_same_in_every_process() -> None:
    """They have the template's shape, no volumes, and block no disruption."""
    made = template(volume_claims=("data",), do_not_disrupt="true", labels={"app": "web"})
    first, second = (virtual_pods([buffer(replicas=2)], {made.key: made}) for _ in range(2))
    assert first == second
    assert [pod.name for pod in first] == ["capacity-buffer-spare-1", "capacity-buffer-spare-2"]
    assert len({pod.uid for pod in first}) == 2
    for pod in first:
        assert is_provisionable(pod)
        assert pod.virtual
        assert pod.labels == {"app": "web"}
        assert (pod.volume_claims, pod.do_not_disrupt, pod.requests["cpu"]) == ((), "", 500)
        assert pod.owner is not None
        assert (pod.owner.kind, pod.owner.name) == ("CapacityBuffer", "spare")


def test_a_template_of_a_running_pod_makes_pods_that_wait() -> None:
    made = PodTemplate("PodTemplate", "default", "web", make_bound_pod("web", "node-1"))
    (pod,) = virtual_pods([buffer(replicas=1)], {made.key: made})
    assert is_provisionable(pod)


def test_everything_is_bounded() -> None:
    """One buffer, and all together; the condition says what was cut."""
    made = template()
    found = resolved(buffer(replicas=10**6), {made.key: made})
    assert found.replicas == MOST_REPLICAS
    assert "1000000 were asked for, 1000 is the most" in found.message
    many = [buffer(f"b{number:02d}", replicas=MOST_REPLICAS) for number in range(12)]
    assert len(virtual_pods(many, {made.key: made})) == MOST_VIRTUAL_PODS


@pytest.mark.parametrize(
    ("changes", "reason", "says"),
    [
        ({"template": "gone"}, "PodTemplateNotFound", "PodTemplate default/gone does not exist"),
        (
            {"kind": "Deployment", "template": "gone"},
            "ScalableRefNotFound",
            "Deployment default/gone does not exist",
        ),
        (
            {"kind": "Job", "group": "batch"},
            "ResolutionFailed",
            "spec.scalableRef.kind: batch/Job is not supported; use Deployment, ReplicaSet, StatefulSet of apps",
        ),
        ({"faults": ("spec.replicas: is required",)}, "ResolutionFailed", "spec.replicas"),
    ],
)
def test_what_cannot_be_resolved_says_why_and_keeps_nothing(
    changes: dict[str, Any], reason: str, says: str
) -> None:
    """Karpenter's reasons; the message names the field or object and the fix."""
    made = template()
    asked = CapacityBuffer("u", "default", "spare", **{"template": "web", "replicas": 2, **changes})
    found = resolved(asked, {made.key: made})
    assert (found.reason, found.is_ready, found.replicas) == (reason, False, 0)
    assert says in found.message
    assert virtual_pods([asked], {made.key: made}) == []


def test_a_faulty_template_keeps_nothing() -> None:
    made = template(faults=("spec.overhead.cpu: 'x' is not a quantity",))
    found = resolved(buffer(replicas=1), {made.key: made})
    assert found.reason == "ResolutionFailed"
    assert "spec.overhead.cpu" in found.message


def test_objects_of_another_strategy_are_another_autoscaler_s() -> None:
    made = template()
    assert virtual_pods([buffer(replicas=1, is_active=False)], {made.key: made}) == []
