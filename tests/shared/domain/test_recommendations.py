"""What pods request when they are created anew, as VerticalPodAutoscalers recommend (POD-12)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.core.autoscaling.vertical_autoscalers import parse_vertical_autoscaler, with_parts
from shared.domain.workloads.pods import Owner, Pod
from shared.domain.workloads.recommendations import (
    Recommendation,
    Recommendations,
    controllers_of,
    created_anew,
)
from tests.support.planning.builders import make_pod

GIB = 1024**3
MIB = 1024**2


def autoscaler(
    mode: str | None = "Recreate", policies: list[dict[str, Any]] | None = None, **target: str
) -> dict[str, Any]:
    policy = {} if mode is None else {"updatePolicy": {"updateMode": mode}}
    shown = target or {"cpu": "2", "memory": "4Gi"}
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "resourcePolicy": {"containerPolicies": policies or []},
            **policy,
        },
        "status": {
            "recommendation": {
                "containerRecommendations": [{"containerName": "main", "target": shown}]
            }
        },
    }


def spec(**more: Any) -> dict[str, Any]:
    requests = {"cpu": "500m", "memory": "1Gi"}
    sidecar = {"cpu": "100m", "memory": "64Mi"}
    return {
        "containers": [
            {"name": "main", "resources": {"requests": requests}},
            {"name": "proxy", "resources": {"requests": sidecar}},
        ],
        **more,
    }


def pod(kind: str = "ReplicaSet", owner: str = "web-5d9", **more: Any) -> Pod:
    made = make_pod(
        cpu="600m",
        memory="1088Mi",
        owner=Owner(kind, owner, "u"),
        labels={"pod-template-hash": "5d9"},
    )
    return with_parts(made, spec(**more))


def recommended(raw: dict[str, Any]) -> Recommendations:
    parsed = parse_vertical_autoscaler(raw)
    assert parsed.faults == ()
    return Recommendations([parsed.record] if parsed.record else [])


def after(raw: dict[str, Any], one: Pod) -> tuple[int, int]:
    """(milli-CPU, MiB) of the pod when it is created again."""
    found = created_anew(recommended(raw).of_pod(one)).requests
    return found["cpu"], found["memory"] // MIB


@pytest.mark.parametrize("mode", ["Initial", "Recreate", "Auto", "InPlaceOrRecreate", None])
def test_the_recommendation_replaces_the_requests_of_its_container(mode: str | None) -> None:
    assert after(autoscaler(mode), pod()) == (2100, 4096 + 64)


def test_an_autoscaler_that_only_recommends_changes_nothing() -> None:
    assert after(autoscaler("Off"), pod()) == (600, 1088)


def test_what_is_not_controlled_stays() -> None:
    only_cpu = [{"containerName": "*", "controlledResources": ["cpu"]}]
    assert after(autoscaler(policies=only_cpu), pod()) == (2100, 1088)
    off = [{"containerName": "main", "mode": "Off"}, {"containerName": "*"}]
    assert after(autoscaler(policies=off), pod()) == (600, 1088)


def test_init_containers_and_overhead_count_as_before() -> None:
    start = {"name": "start", "resources": {"requests": {"cpu": "3"}}}
    more: dict[str, Any] = {"initContainers": [start], "overhead": {"cpu": "250m"}}
    assert after(autoscaler(cpu="1"), pod(**more))[0] == 3250
    assert after(autoscaler(cpu="4"), pod(**more))[0] == 4350


def test_a_pod_whose_requests_stand_for_the_whole_pod_stays_as_it_is() -> None:
    whole: dict[str, Any] = {"resources": {"requests": {"cpu": "1"}}}
    assert after(autoscaler(), pod(**whole)) == (600, 1088)


def test_a_pod_that_has_the_recommendation_already_has_no_other_requests() -> None:
    one = pod()
    found = recommended(autoscaler(cpu="500m", memory="1Gi")).of_pod(one)
    assert found is one


@pytest.mark.parametrize(
    ("kind", "name", "labels", "found"),
    [
        ("StatefulSet", "db", {}, [("StatefulSet", "db")]),
        (
            "ReplicaSet", "web-5d9", {"pod-template-hash": "5d9"},
            [("ReplicaSet", "web-5d9"), ("Deployment", "web")],
        ),
        ("ReplicaSet", "web-5d9", {}, [("ReplicaSet", "web-5d9")]),
        ("Job", "night-29100", {}, [("Job", "night-29100"), ("CronJob", "night")]),
        ("Job", "train", {}, [("Job", "train")]),
    ],
)  # fmt: skip
def test_the_controllers_of_a_pod(
    kind: str, name: str, labels: dict[str, str], found: list[tuple[str, str]]
) -> None:
    one = make_pod(owner=Owner(kind, name, "u"), labels=labels)
    assert [*controllers_of(one)] == found
    assert [*controllers_of(make_pod())] == []


def test_of_two_for_one_controller_the_first_by_name_counts() -> None:
    small, large = (
        Recommendation("default", name, "Deployment", "web", {"main": {"cpu": cpu}})
        for name, cpu in (("a", 1000), ("b", 9000))
    )
    found = Recommendations([large, small]).of_pod(pod())
    assert found.next_requests["cpu"] == 1100


def test_a_wrong_amount_is_a_fault_that_names_its_field() -> None:
    (fault,) = parse_vertical_autoscaler(autoscaler(cpu="much")).faults
    assert fault.path == ("status.recommendation.containerRecommendations[0].target.cpu",)
