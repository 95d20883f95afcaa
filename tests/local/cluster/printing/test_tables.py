"""The rows of ``kubectl get``: the cells that the real server computes for the same objects."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from local.cluster.builtin.resources import Resource
from local.cluster.printing.columns import human_duration
from local.cluster.printing.jsonpath import compile_path
from local.cluster.printing.rendering import renderer
from local.cluster.storage.store import Store
from local.cluster.storage.watches import Stored
from shared.concurrency.clock import rfc3339
from tests.support.clock.fake import FakeClock

TABLE, METADATA = (
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata",
)
NOW = FakeClock().now()
LABELS = {"matchLabels": {"app": "web"}}
TEMPLATE = {
    "spec": {"containers": [{"name": "main", "image": "app:1"}], "nodeSelector": {"disk": "ssd"}}
}


def row(plural: str, document: dict[str, Any], group: str = "", *, wide: bool = False) -> list[Any]:
    """The cells that kubectl shows, of an object that is three minutes old."""
    store = Store(FakeClock(), random.Random(1))
    metadata = {
        "name": "one",
        "creationTimestamp": rfc3339(NOW - 180),
        **document.pop("metadata", {}),
    }
    stored = Stored({"metadata": metadata, **document})
    table = json.loads(renderer(store, store.resource(plural, group), TABLE, "None").one(stored))
    columns = table["columnDefinitions"]
    shown = zip(columns, table["rows"][0]["cells"], strict=True)
    return [cell for column, cell in shown if wide or not column["priority"]]


@pytest.mark.parametrize(
    ("document", "cells"),
    [
        (
            {
                "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
                "status": {
                    "phase": "Running",
                    "containerStatuses": [{"ready": True, "restartCount": 2}, {"ready": False, "restartCount": 1}],
                },
            },
            ["one", "1/2", "Running", "3", "3m"],
        ),
        ({"spec": {}, "metadata": {"deletionTimestamp": rfc3339(NOW)}}, ["one", "0/0", "Terminating", "0", "3m"]),
        (
            {
                "spec": {"containers": [{}]},
                "status": {
                    "phase": "Pending",
                    "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}],
                },
            },
            ["one", "0/1", "ContainerCreating", "0", "3m"],
        ),
        (
            {"spec": {}, "status": {"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
            ["one", "0/0", "SchedulingGated", "0", "3m"],
        ),
    ],
)  # fmt: skip
def test_a_pod(document: dict[str, Any], cells: list[Any]) -> None:
    assert row("pods", document) == cells


def test_a_wide_row_of_a_pod_shows_its_place() -> None:
    gates = [{"conditionType": "target-health"}]
    pod = {
        "spec": {"nodeName": "n1", "readinessGates": gates},
        "status": {"podIP": "10.64.0.2", "phase": "Running"},
    }
    assert row("pods", pod, wide=True)[5:] == ["10.64.0.2", "n1", "<none>", "0/1"]


def test_a_node() -> None:
    node = {
        "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.32.4-eks"},
        },
    }
    assert row("nodes", node) == ["one", "Ready,SchedulingDisabled", "worker", "3m", "v1.32.4-eks"]


@pytest.mark.parametrize(
    ("plural", "status", "cells"),
    [
        (
            "deployments",
            {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
            ["one", "2/3", 3, 1, "3m", "main", "app:1", "app=web"],
        ),
        ("replicasets", {"replicas": 3, "readyReplicas": 2}, ["one", 3, 3, 2, "3m", "main", "app:1", "app=web"]),
        ("statefulsets", {"readyReplicas": 2}, ["one", "2/3", "3m", "main", "app:1"]),
        (
            "daemonsets",
            {"desiredNumberScheduled": 3, "numberReady": 2},
            ["one", 3, 0, 2, 0, 0, "disk=ssd", "3m", "main", "app:1", "app=web"],
        ),
    ],
)  # fmt: skip
def test_a_workload(plural: str, status: dict[str, Any], cells: list[Any]) -> None:
    spec = {"replicas": 3, "selector": LABELS, "template": TEMPLATE}
    assert row(plural, {"spec": spec, "status": status}, "apps", wide=True) == cells


@pytest.mark.parametrize(
    ("status", "cells"),
    [
        ({}, ["one", "Running", "0/2", "", "3m"]),
        (
            {
                "startTime": rfc3339(NOW - 100),
                "completionTime": rfc3339(NOW - 40),
                "succeeded": 2,
                "conditions": [{"type": "Complete", "status": "True"}],
            },
            ["one", "Complete", "2/2", "60s", "3m"],
        ),
    ],
)
def test_a_job(status: dict[str, Any], cells: list[Any]) -> None:
    assert row("jobs", {"spec": {"completions": 2}, "status": status}, "batch") == cells


def test_a_cron_job() -> None:
    status = {"lastScheduleTime": rfc3339(NOW - 7_200)}
    cells = row("cronjobs", {"spec": {"schedule": "0 * * * *"}, "status": status}, "batch")
    assert cells == ["one", "0 * * * *", "<none>", "False", "120m", "3m"]


def test_a_service() -> None:
    spec: dict[str, Any] = {
        "type": "ClusterIP",
        "clusterIP": "10.96.0.2",
        "selector": {"app": "web"},
    }
    spec["ports"] = [{"port": 80}]
    cells = ["one", "ClusterIP", "10.96.0.2", "<none>", "80/TCP", "3m", "app=web"]
    assert row("services", {"spec": spec}, wide=True) == cells


def test_a_volume_and_its_claim() -> None:
    modes = ["ReadWriteOnce", "ReadOnlyMany"]
    claim = {"spec": {"volumeName": "pv-1", "accessModes": modes}, "status": {"phase": "Bound"}}
    assert row("persistentvolumeclaims", claim) == ["one", "Bound", "pv-1", "", "RWO,ROX", "", "3m"]
    volume = {"spec": {"accessModes": modes, "claimRef": {"namespace": "shop", "name": "data"}}}
    cells = ["one", "", "RWO,ROX", "", "Pending", "shop/data", "", "3m"]
    assert row("persistentvolumes", volume) == cells


def test_metadata_alone_has_no_spec() -> None:
    store = Store(FakeClock(), random.Random(1))
    pods: Resource = store.resource("pods")
    stored = Stored({"metadata": {"name": "one"}, "spec": {}})
    found = json.loads(renderer(store, pods, METADATA, "").many([stored], {"resourceVersion": "7"}))
    assert found["kind"] == "PartialObjectMetadataList"
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    assert found["items"] == [{**partial, "metadata": {"name": "one"}}]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (150, "2m30s"), (7_000, "116m"), (20_000, "5h33m"), (100_000, "27h"),
     (500_000, "5d18h"), (90 * 86_400, "90d"), (3 * 31_536_000, "3y"), (9 * 31_536_000, "9y")],
)  # fmt: skip
def test_ages_have_the_units_of_kubectl(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".spec.items[1].name", "b"), (".spec.items[*].name", "a"), (".spec['a/b']", 1), (".spec.items[9].name", None),
        ('.status.conditions[?(@.type=="Ready")].status', "True"), ("{.spec.a\\.b}", 2), ("no path", None),
    ],
)  # fmt: skip
def test_columns_of_custom_kinds_follow_their_path(path: str, value: Any) -> None:
    ready = [{"type": "Ready", "status": "True"}]
    spec = {"items": [{"name": "a"}, {"name": "b"}], "a/b": 1, "a.b": 2}
    assert compile_path(path)({"spec": spec, "status": {"conditions": ready}}) == value
