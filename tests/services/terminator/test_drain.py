"""Which pods a drain evicts, passes by and waits for (TRM-06, TRM-07, TRM-09)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.terminator.drain import next_evictions, stays
from shared.domain.expressions import Toleration
from shared.domain.pods import Owner, Pod
from tests.support.builders import make_bound_pod

CRITICAL = "system-cluster-critical"
CORDON = "node.kubernetes.io/unschedulable"
ORDINARY = make_bound_pod("ordinary", "n")


@pytest.mark.parametrize(
    ("pod", "passed_by"),
    [
        (ORDINARY, False),
        (replace(ORDINARY, phase="Succeeded"), True),
        (replace(ORDINARY, owner=Owner("Node", "n", "u")), True),
        (replace(ORDINARY, tolerations=(Toleration("", "Exists"),)), True),
        (replace(ORDINARY, tolerations=(Toleration(CORDON, "Exists"),)), True),
        (replace(ORDINARY, tolerations=(Toleration(CORDON, "Exists", "", "NoExecute"),)), False),
        (replace(ORDINARY, tolerations=(Toleration("other", "Exists"),)), False),
        (replace(ORDINARY, owner=Owner("DaemonSet", "d", "u")), False),
    ],
)
def test_a_drain_passes_by_what_would_come_back_or_is_over(pod: Pod, passed_by: bool) -> None:
    """TRM-06."""
    assert stays(pod) is passed_by


def test_critical_pods_wait_until_all_others_are_gone() -> None:
    """TRM-07 [5]."""
    critical = make_bound_pod("dns", "n", priority_class=CRITICAL)
    node_critical = make_bound_pod("cni", "n", priority_class="system-node-critical")
    first = next_evictions([critical, ORDINARY, node_critical])
    assert (first.evict, first.left) == ((ORDINARY,), 3)
    leaving = next_evictions([critical, replace(ORDINARY, terminating=True)])
    assert (leaving.evict, leaving.left) == ((), 2)
    assert next_evictions([critical, node_critical]).evict == (critical, node_critical)
    assert next_evictions([]).left == 0


def test_a_pod_that_must_not_be_evicted_holds_the_drain() -> None:
    """TRM-09; also for the critical pods that come after it."""
    held = make_bound_pod("held", "n", do_not_disrupt="true")
    critical = make_bound_pod("dns", "n", priority_class=CRITICAL)
    step = next_evictions([held, ORDINARY, critical])
    assert (step.evict, step.held, step.left) == ((ORDINARY,), (held,), 3)
    step = next_evictions([held, critical])
    assert (step.evict, step.held, step.left) == ((), (held,), 2)


def test_a_held_pod_that_leaves_by_itself_is_waited_for() -> None:
    leaving = make_bound_pod("held", "n", do_not_disrupt="true", terminating=True)
    step = next_evictions([leaving])
    assert (step.evict, step.held, step.left) == ((), (), 1)


PODS = st.builds(
    lambda i, over, leaving, held, critical: make_bound_pod(
        f"p{i}", "n", terminating=leaving, do_not_disrupt="true" if held else "",
        priority_class=CRITICAL if critical else "", **({"tolerations": (Toleration("", "Exists"),)} if over else {}),
    ),
    st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip


@given(st.lists(PODS, max_size=12, unique_by=lambda pod: pod.uid))
def test_a_drain_ends_exactly_when_nothing_is_left(pods: list[Pod]) -> None:
    """TRM-05: no tier starves, nobody is evicted twice or against the annotation."""
    step = next_evictions(pods)
    assert step.left == sum(not stays(pod) for pod in pods)
    assert not any(pod.terminating or pod.do_not_disrupt for pod in step.evict)
    waiting = [pod for pod in pods if not stays(pod) and pod.terminating]
    assert step.left == 0 or step.evict or step.held or waiting
