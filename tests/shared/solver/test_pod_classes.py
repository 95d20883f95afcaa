"""Classes of equivalent pods, and kinds of classes that differ only in requests."""

from __future__ import annotations

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Toleration
from shared.domain.workloads.pods import Pod, PreferredTerm, SpreadConstraint
from shared.solver.encode import ResourceAxis
from shared.solver.lowest_cost.rules import with_relaxations
from shared.solver.pod_classes import ClassRegistry

POD = Pod(
    uid="a",
    namespace="default",
    name="a",
    requests={"cpu": 100, "memory": 200},
    labels={"app": "web", "build": "1"},
)


def registry_of(*pods: Pod) -> ClassRegistry:
    """A registry for selectors that read ``app``."""
    return ClassRegistry(ResourceAxis(pod.requests for pod in pods), frozenset({"app"}))


def test_pods_that_differ_in_what_no_rule_reads_are_one_class() -> None:
    other = replace(POD, uid="b", name="b", labels={"app": "web", "build": "2"})
    registry = registry_of(POD, other)
    assert registry.intern(POD) is registry.intern(other)


def test_the_order_in_which_requests_are_written_makes_no_class() -> None:
    other = replace(POD, uid="b", requests={"memory": 200, "cpu": 100})
    registry = registry_of(POD, other)
    assert registry.intern(POD) is registry.intern(other)


def test_pods_of_other_sizes_are_another_class_of_the_same_kind() -> None:
    larger = replace(POD, uid="b", requests={"cpu": 300, "memory": 200})
    registry = registry_of(POD, larger)
    small, large = registry.intern(POD), registry.intern(larger)
    assert small is not large
    assert small.kind == large.kind
    assert large.amounts == (300, 200, 1)


def test_pods_with_other_rules_are_of_another_kind() -> None:
    others = [
        replace(POD, labels={"app": "api"}),
        replace(POD, namespace="other"),
        replace(POD, node_selector={keys.ZONE: "zone-a"}),
        replace(POD, tolerations=(Toleration("team", "Exists"),)),
        replace(POD, spread=(SpreadConstraint(1, keys.ZONE, match_labels={"app": "web"}),)),
    ]
    registry = registry_of(POD)
    kinds = {registry.intern(pod).kind for pod in (POD, *others)}
    assert len(kinds) == len(others) + 1


def test_what_a_class_may_relax_to_is_of_another_kind() -> None:
    """Rules are cached by kind, and a relaxation changes the kind (SCH-23)."""
    wishes = tuple(
        PreferredTerm(weight, (Expression(keys.ZONE, "In", (zone,)),))
        for weight, zone in ((1, "zone-a"), (2, "zone-b"))
    )
    pods = registry_of(POD).intern(replace(POD, preferred_terms=wishes))
    forms = with_relaxations(pods, tolerate_preferred=False)
    assert len(forms) == len({form.kind for form in forms}) == 3
