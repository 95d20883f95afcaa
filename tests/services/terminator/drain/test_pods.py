"""Which pods a drain evicts, deletes, passes by and waits for (TRM-06, TRM-07, TRM-09, TRM-11)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.terminator.drain.pods import Deletion, DrainStep, next_step, stays
from shared.domain.expressions import Toleration
from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5, Generation
from shared.domain.workloads.pods import Owner, Pod
from tests.support.planning.builders import make_bound_pod

CRITICAL = "system-cluster-critical"
CORDON = "node.kubernetes.io/unschedulable"
ORDINARY = make_bound_pod("ordinary", "n")


NOW = 10_000.0
DAEMON = Owner("DaemonSet", "d", "u")
TOLERATES_ALL = (Toleration("", "Exists"),)


def step_of(*pods: Pod, api: str = V1, **how: Any) -> DrainStep:
    return next_step(pods, GENERATIONS[api], **{"now": NOW, **how})


def names(pods: Iterable[Pod]) -> list[str]:
    return [pod.name for pod in pods]


@pytest.mark.parametrize(
    ("changes", "passed_by"),
    [
        ({}, (False, False)),
        ({"phase": "Succeeded"}, (True, True)),
        ({"owner": Owner("Node", "n", "u")}, (True, True)),
        ({"tolerations": TOLERATES_ALL}, (True, True)),
        ({"tolerations": (Toleration(CORDON, "Exists"),)}, (True, False)),
        ({"tolerations": (Toleration("karpenter.sh/disrupted", "Exists"),)}, (False, True)),
        ({"tolerations": (Toleration(CORDON, "Exists", "", "NoExecute"),)}, (False, False)),
        ({"tolerations": (Toleration("other", "Exists"),)}, (False, False)),
        ({"owner": DAEMON}, (False, False)),
        ({"terminating": True, "terminate_at": NOW - 61}, (True, True)),
        ({"terminating": True, "terminate_at": NOW - 59}, (False, False)),
    ],
)
def test_a_drain_passes_by_what_would_come_back_is_over_or_stuck(
    changes: dict[str, Any], passed_by: tuple[bool, bool]
) -> None:
    """TRM-06: by the cordon in v1alpha5, by the disrupted taint in v1."""
    pod = make_bound_pod("p", "n", **changes)
    assert tuple(stays(pod, api, now=NOW) for api in GENERATIONS.values()) == passed_by


def test_each_tier_waits_for_the_one_before() -> None:
    """TRM-07: ordinary pods, daemons, critical pods, critical daemons; leaving pods still count."""
    tiers = [
        make_bound_pod("ordinary", "n"),
        make_bound_pod("daemon", "n", owner=DAEMON),
        make_bound_pod("critical", "n", priority_class=CRITICAL),
        make_bound_pod("critical-daemon", "n", priority_class="system-node-critical", owner=DAEMON),
    ]
    for index, pod in enumerate(tiers):
        assert names(step_of(*reversed(tiers[index:])).evict) == [pod.name]
        leaving = replace(pod, terminating=True, terminate_at=NOW + 5)
        step = step_of(leaving, *tiers[index + 1 :])
        assert (step.evict, step.left) == ((), len(tiers) - index)
    assert step_of().left == 0


def test_v1alpha5_has_two_tiers() -> None:
    """TRM-07 [5]: daemons go with the others."""
    daemon = make_bound_pod("daemon", "n", owner=DAEMON)
    critical = make_bound_pod("critical", "n", priority_class=CRITICAL)
    assert names(step_of(ORDINARY, daemon, critical, api=V1ALPHA5).evict) == ["ordinary", "daemon"]


@pytest.mark.parametrize(
    ("annotation", "is_held"), [("true", True), ("30m", True), ("1s", False), ("nonsense", False)]
)
def test_a_pod_that_must_not_be_disrupted_holds_the_drain(annotation: str, is_held: bool) -> None:
    """TRM-09, DIS-11; also for the critical pods that come after it."""
    held = make_bound_pod("held", "n", do_not_disrupt=annotation, started_at=NOW - 60)
    critical = make_bound_pod("dns", "n", priority_class=CRITICAL)
    step = step_of(held, ORDINARY, critical)
    assert (held in step.held, held in step.evict) == (is_held, not is_held)
    assert step.left == 3


def test_a_held_pod_that_leaves_by_itself_is_waited_for() -> None:
    leaving = make_bound_pod(
        "held", "n", do_not_disrupt="true", terminating=True, terminate_at=NOW + 9
    )
    step = step_of(leaving)
    assert (step.evict, step.held, step.left) == ((), (), 1)


def test_under_a_deadline_each_pod_goes_early_enough_for_its_own_grace() -> None:
    """TRM-11, ACC-75: T - 60 s with 60 s of grace, whatever the annotation or the tier."""
    held = make_bound_pod("held", "n", do_not_disrupt="true", grace_seconds=60)
    late = make_bound_pod("late", "n", grace_seconds=10, priority_class=CRITICAL)
    before = step_of(held, late, deadline=NOW + 61)
    assert (before.delete, before.held) == ((), (held,))
    at = step_of(held, late, deadline=NOW + 60)
    assert at.delete == (Deletion(held, 60),)
    assert at.held == ()
    after = step_of(held, late, deadline=NOW + 5)
    assert after.delete == (Deletion(held, 5), Deletion(late, 5))
    assert step_of(held, deadline=NOW - 5).delete == (Deletion(held, 1),)


def test_a_pod_that_would_outlive_the_machine_is_hurried() -> None:
    """TRM-11: one that leaves in time is left alone."""
    slow = replace(ORDINARY, terminating=True, terminate_at=NOW + 600)
    in_time = replace(ORDINARY, uid="u2", terminating=True, terminate_at=NOW + 20)
    step = step_of(slow, in_time, deadline=NOW + 20)
    assert step.delete == (Deletion(slow, 20),)


PODS = st.builds(
    lambda i, over, leaving, held, critical: make_bound_pod(
        f"p{i}", "n", terminating=leaving, do_not_disrupt="true" if held else "",
        priority_class=CRITICAL if critical else "", **({"tolerations": (Toleration("", "Exists"),)} if over else {}),
    ),
    st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip


@given(
    st.lists(PODS, max_size=12, unique_by=lambda pod: pod.uid),
    st.sampled_from(list(GENERATIONS.values())),
    st.none() | st.floats(NOW - 100, NOW + 100),
)
def test_a_drain_ends_exactly_when_nothing_is_left(
    pods: list[Pod], api: Generation, deadline: float | None
) -> None:
    """TRM-05: no tier starves, nobody is asked twice, and before the deadline nobody against the annotation."""
    step = next_step(pods, api, now=NOW, deadline=deadline)
    assert step.left == sum(not stays(pod, api, now=NOW) for pod in pods)
    assert not any(pod.terminating or pod.do_not_disrupt for pod in step.evict)
    deleted = [deletion.pod for deletion in step.delete]
    assert not {pod.uid for pod in deleted} & {pod.uid for pod in step.evict}
    assert all(deletion.grace_seconds >= 1 for deletion in step.delete)
    assert bool(step.left) >= bool(step.evict or deleted or step.held)
