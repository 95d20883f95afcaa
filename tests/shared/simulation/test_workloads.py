"""Controllers are expanded into exactly the pods that they would make."""

from __future__ import annotations

from typing import Any

import pytest

from shared.simulation.objects import Objects, collect
from shared.simulation.workloads import expand
from tests.shared.simulation.documents import controller, pod

SCRATCH = {
    "name": "scratch",
    "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}},
}


def expanded(*documents: Any, most_pods: int = 1000) -> Objects:
    objects = collect(documents)
    expand(objects, most_pods)
    return objects


def names(objects: Objects, kind: str = "Pod") -> list[str]:
    return [one.metadata["name"] for one in objects.of(kind)]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "ReplicationController"])
def test_replicas_become_pods_with_the_templates_labels(kind: str) -> None:
    found = expanded(controller(kind, replicas=2))
    assert names(found) == ["web-00000", "web-00001"]
    assert found.of("Pod")[0].metadata["labels"]["app"] == "web"
    assert found.of("Pod")[0].metadata["ownerReferences"][0]["kind"] == kind


def test_one_replica_when_nothing_is_said_and_none_for_zero() -> None:
    assert len(names(expanded(controller("Deployment")))) == 1
    assert names(expanded(controller("Deployment", replicas=0))) == []


def test_pods_of_a_deployment_share_a_template_hash_for_match_label_keys() -> None:
    pods = expanded(controller("Deployment", replicas=2), controller("Deployment", "api")).of("Pod")
    hashes = [one.metadata["labels"]["pod-template-hash"] for one in pods]
    assert hashes[0] == hashes[1] != hashes[2]


def test_stateful_pods_are_numbered_and_bring_their_claims() -> None:
    template = {"metadata": {"name": "data"}, "spec": {"storageClassName": "gp3"}}
    found = expanded(controller("StatefulSet", "db", replicas=2, volumeClaimTemplates=[template]))
    assert names(found) == ["db-0", "db-1"]
    assert names(found, "PersistentVolumeClaim") == ["data-db-0", "data-db-1"]
    volume = found.of("Pod")[1].raw["spec"]["volumes"][0]
    assert volume == {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}


def test_stateful_pods_are_numbered_from_where_the_set_says() -> None:
    found = expanded(controller("StatefulSet", "db", replicas=2, ordinals={"start": 5}))
    assert names(found) == ["db-5", "db-6"]


def test_a_claim_that_is_given_is_not_made_again() -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-db-0"},
        "spec": {"volumeName": "v"},
    }
    template = {"metadata": {"name": "data"}, "spec": {}}
    found = expanded(claim, controller("StatefulSet", "db", volumeClaimTemplates=[template]))
    assert [one.raw["spec"] for one in found.of("PersistentVolumeClaim")] == [{"volumeName": "v"}]
    assert found.faults == []


def test_a_pods_own_volumes_bring_their_claims() -> None:
    """POD-07: a cluster makes ``<pod>-<volume>`` for a generic ephemeral volume."""
    found = expanded(pod("web", volumes=[SCRATCH]), controller("StatefulSet", "db"))
    claims = found.of("PersistentVolumeClaim")
    assert [one.name for one in claims] == ["default/web-scratch"]
    assert claims[0].raw["spec"] == {"storageClassName": "gp3"}


def test_the_claim_of_a_pods_own_volume_is_not_made_twice() -> None:
    given = {"kind": "PersistentVolumeClaim", "metadata": {"name": "web-scratch"}, "spec": {}}
    found = expanded(given, pod("web", volumes=[SCRATCH, {"name": "other", "ephemeral": 7}]))
    assert names(found, "PersistentVolumeClaim") == ["web-scratch"]
    assert [(one.name, one.field) for one in found.faults] == [
        ("default/web", "spec.volumes[1].ephemeral")
    ]


@pytest.mark.parametrize(
    ("made", "field"),
    [
        ({"volumeClaimTemplates": [{}] * 65}, "spec.volumeClaimTemplates"),
        ({"template": {"spec": {"volumes": [SCRATCH] * 65}}}, "spec.template.spec.volumes"),
    ],
)
def test_claims_that_no_machine_could_attach_are_not_made(made: dict[str, Any], field: str) -> None:
    """A small file must not exhaust memory."""
    found = expanded(controller("StatefulSet", replicas=3, **made))
    assert [(one.kind, one.field) for one in found.faults] == [("StatefulSet", field)]
    assert names(found, "PersistentVolumeClaim") == []


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 1),
        ({"parallelism": 3}, 3),
        ({"parallelism": 3, "completions": 2}, 2),
        ({"parallelism": 3, "suspend": True}, 0),
    ],
)
def test_a_job_stands_for_the_pods_that_it_runs_at_once(spec: dict[str, Any], count: int) -> None:
    assert len(names(expanded(controller("Job", **spec)))) == count


def test_pods_that_are_given_are_not_made_again() -> None:
    owner = {"kind": "StatefulSet", "name": "web", "controller": True}
    given = pod("web-0", meta={"ownerReferences": [owner]})
    assert names(expanded(given, controller("StatefulSet", replicas=2))) == ["web-0", "web-1"]


def test_a_deployment_whose_replica_sets_are_given_leaves_the_pods_to_them() -> None:
    replica_set = controller("ReplicaSet", "web-abc", replicas=1)
    replica_set["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": "web"}]
    found = expanded(replica_set, controller("Deployment", replicas=5))
    assert names(found) == ["web-abc-00000"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"replicas": 1001}, "spec.replicas"),
        ({"replicas": -1}, "spec.replicas"),
        ({"replicas": "two"}, "spec.replicas"),
        ({"template": {}}, "spec.template.spec"),
        ({"ordinals": {"start": -1}}, "spec.ordinals.start"),
        (
            {"template": {"metadata": {"labels": 1}, "spec": {"a": 1}}},
            "spec.template.metadata.labels",
        ),
    ],
)
def test_a_wrong_controller_makes_no_pods_and_says_why(spec: dict[str, Any], field: str) -> None:
    found = expanded(controller("Deployment", **spec), controller("Deployment", "good"))
    assert [one.field for one in found.faults] == [field]
    assert names(found) == ["good-00000"]
