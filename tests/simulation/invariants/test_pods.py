"""Pods that plainly fit must run; what is not plain is not judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from shared.domain import labels
from shared.redis.bus import Bus
from simulation.invariants.picture import Picture
from simulation.invariants.pods import PodsRun, labels_of
from tests.simulation.invariants.builders import CLUSTER, History, condition

TYPES = {
    "m5.large": SimpleNamespace(
        name="m5.large", vcpus=2, memory_mib=8192, architecture="x86_64", supports_spot=True
    ),
    "m6g.xlarge": SimpleNamespace(
        name="m6g.xlarge", vcpus=4, memory_mib=16384, architecture="arm64", supports_spot=True
    ),
}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [*values]}


def small(history: History, requirements: list[dict[str, Any]], **spec: Any) -> None:
    """A pool with a ready class, and a catalogue of two types."""
    history.emulator.catalogue = SimpleNamespace(  # type: ignore[assignment]
        types=TYPES, offered=lambda _: [(name, "us-west-2a") for name in sorted(TYPES)]
    )
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "main"}
    template = {"spec": {"nodeClassRef": reference, "requirements": requirements}}
    history.pool(template=template, **spec)
    history.ready_class()


def check(history: History) -> list[str]:
    history.wait(120)
    world: Any = history
    return PodsRun(Picture()).check(world)


WAITS = ["pod default/web-1 waits although NodePool/main could run it"]
FITS = [expression(labels.ARCH, "In", "amd64")]


def test_a_pod_that_fits_and_waits_is_found(history: History) -> None:
    # I5
    small(history, FITS)
    history.pod("web-1")
    assert check(history) == WAITS


def test_a_pod_that_runs_is_sound(history: History) -> None:
    small(history, FITS)
    history.node("i-1")
    history.pod("web-1", "node-i-1")
    assert check(history) == []


@pytest.mark.parametrize(
    ("requirements", "is_found"),
    [
        ([expression(labels.ARCH, "In", "arm64")], True),
        ([expression(labels.ZONE, "In", "nowhere-1a")], False),
        ([expression(f"{labels.AWS_PREFIX}instance-cpu", "Lt", "3")], False),
        ([expression(f"{labels.AWS_PREFIX}instance-cpu", "Gt", "3")], True),
        ([expression(f"{labels.AWS_PREFIX}instance-category", "NotIn", "m")], False),
        ([expression("example.com/other", "In", "x")], False),
    ],
)
def test_the_requirements_of_the_pool_count(
    history: History, requirements: list[dict[str, Any]], is_found: bool
) -> None:
    """A pod of one CPU needs the larger type, when the smaller is not clearly large enough."""
    small(history, requirements)
    history.pod("web-1", spec={"nodeSelector": {labels.CAPACITY_TYPE: "spot"}, **cpu("1500m")})
    assert check(history) == (WAITS if is_found else [])


def cpu(amount: str) -> dict[str, Any]:
    requests = {"cpu": amount, "memory": "1Gi"}
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"example.com/undefined": "true"}},
        {"nodeSelector": {labels.ZONE: "us-west-2c"}},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": labels.ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}]}}},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": labels.ZONE, "labelSelector": {"matchLabels": {"app": "other"}}}]}}},
        cpu("100"),
    ],
)  # fmt: skip
def test_pods_that_fit_nowhere_or_are_not_judged_may_wait(
    history: History, spec: dict[str, Any]
) -> None:
    small(history, FITS)
    history.pod("web-1", spec=spec)
    assert check(history) == []


@pytest.mark.parametrize(
    ("limits", "is_found"),
    [
        ({"cpu": "6"}, True),
        ({"cpu": "5"}, False),
        ({"nodes": "1"}, False),
        ({"memory": "24Gi"}, True),
        ({"memory": "23Gi"}, False),
        ({"nvidia.com/gpu": "1"}, False),
    ],
)
def test_a_pool_without_room_need_not_run_it(
    history: History, limits: dict[str, str], is_found: bool
) -> None:
    """One machine of 4 CPUs and 16 GiB runs, and the pod needs one of 2 and 8. Other limits are not judged."""
    small(history, FITS, limits=limits)
    history.start("i-1")
    history.pod("web-1", spec=cpu("500m"))
    assert check(history) == (WAITS if is_found else [])


def test_a_class_that_is_not_ready_runs_nothing(history: History) -> None:
    small(history, FITS)
    group = "karpenter.k8s.aws"
    status = {"status": {"conditions": [condition("Ready", history.clock.now(), "False")]}}
    history.store.patch("ec2nodeclasses", "main", status, group=group, subresource="status")
    history.pod("web-1")
    assert check(history) == []


async def test_a_pool_whose_machines_do_not_register_may_wait(history: History, bus: Bus) -> None:
    # F25
    small(history, FITS)
    history.pod("web-1")
    body = msgspec.json.encode({"until": history.clock.now() + 900})
    key = f"dovetail:{{{CLUSTER}}}:launch-backoff:NodePool/main"
    await bus.redis.set(key, body)
    assert check(history) == []
    history.wait(900)
    assert check(history) == WAITS


def test_a_young_pod_is_on_its_way(history: History) -> None:
    small(history, FITS)
    history.wait(120)
    history.pod("web-1")
    world: Any = history
    assert PodsRun(Picture()).check(world) == []


def test_the_labels_of_a_type() -> None:
    known = labels_of(TYPES["m6g.xlarge"], "us-west-2a", "spot")
    assert known[f"{labels.AWS_PREFIX}instance-category"] == "m"
    assert known[f"{labels.AWS_PREFIX}instance-generation"] == "6"
    assert (known[labels.ARCH], known[f"{labels.AWS_PREFIX}instance-cpu"]) == ("arm64", "4")


OTHERS = {"labelSelector": {"matchLabels": {"app": "web"}}}
TOGETHER = {"topologyKey": labels.ZONE, **OTHERS}
APART = {"topologyKey": labels.HOSTNAME, **OTHERS}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
EVEN = {"maxSkew": 1, "topologyKey": labels.ZONE, "whenUnsatisfiable": "DoNotSchedule", **OTHERS}


def runs_in(history: History, zone: str) -> None:
    """Another pod of the workload runs in this zone."""
    node = history.node("i-9", labels={labels.ZONE: zone})
    history.pod("web-9", node)


@pytest.mark.parametrize(
    ("rule", "zone", "is_found"),
    [
        ({"affinity": {"podAntiAffinity": {REQUIRED: [APART]}}}, "us-west-2a", True),
        ({"affinity": {"podAffinity": {REQUIRED: [TOGETHER]}}}, "us-west-2a", True),
        ({"affinity": {"podAffinity": {REQUIRED: [TOGETHER]}}}, "us-west-2b", False),
        ({"affinity": {"podAffinity": {REQUIRED: [APART]}}}, "us-west-2a", False),
        ({"topologySpreadConstraints": [EVEN]}, "us-west-2b", True),
        ({"topologySpreadConstraints": [{**EVEN, "minDomains": 2}]}, "us-west-2b", False),
    ],
)
def test_a_pod_waits_only_where_its_rules_leave_no_zone_that_is_for_sale(
    history: History, rule: dict[str, Any], zone: str, is_found: bool
) -> None:
    """The pool sells in us-west-2a alone."""
    small(history, FITS)
    runs_in(history, zone)
    history.pod("web-1", spec=rule)
    assert check(history) == (WAITS if is_found else [])


def test_the_first_of_pods_that_are_to_be_together_may_go_anywhere(history: History) -> None:
    small(history, FITS)
    history.pod("web-1", spec={"affinity": {"podAffinity": {REQUIRED: [TOGETHER]}}})
    assert check(history) == WAITS


def test_a_pod_of_a_gang_is_not_judged_alone(history: History) -> None:
    """All of a gang find a place or none: that one of them would fit says nothing."""
    small(history, [])
    history.pod("web-1", annotations={labels.GANG: "web", labels.GANG_SIZE: "9"})
    assert check(history) == []


@pytest.mark.parametrize(("zone", "found"), [("us-west-2a", WAITS), ("us-west-2b", [])])
def test_a_pod_with_a_volume_goes_to_its_zone_or_nowhere(
    history: History, zone: str, found: list[str]
) -> None:
    small(history, FITS)
    place = [{"matchExpressions": [{"key": labels.ZONE, "operator": "In", "values": [zone]}]}]
    volume = {"nodeAffinity": {"required": {"nodeSelectorTerms": place}}}
    history.store.create("persistentvolumes", {"metadata": {"name": "v"}, "spec": volume})
    claim = {"metadata": {"name": "data"}, "spec": {"volumeName": "v"}}
    history.store.create("persistentvolumeclaims", claim, namespace="default")
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    history.pod("web-1", spec={"volumes": [mounted]})
    assert check(history) == found


def test_a_pod_whose_claim_is_missing_is_not_judged(history: History) -> None:
    small(history, FITS)
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    history.pod("web-1", spec={"volumes": [mounted]})
    assert check(history) == []
