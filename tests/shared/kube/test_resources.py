"""REST paths (Kubernetes API conventions)."""

from __future__ import annotations

import pytest

from shared.kube.resources import MACHINES, NODES, PODS


def test_core_resources_live_under_api_and_others_under_apis() -> None:
    assert PODS.path("default", "web", "eviction") == "/api/v1/namespaces/default/pods/web/eviction"
    assert MACHINES.path(name="m", subresource="status") == (
        "/apis/karpenter.sh/v1alpha5/machines/m/status"
    )
    assert MACHINES.api_version == "karpenter.sh/v1alpha5"


def test_no_namespace_means_all_namespaces() -> None:
    assert PODS.path() == "/api/v1/pods"


def test_a_name_cannot_leave_its_path_segment() -> None:
    assert NODES.path(name="../pods?x=1") == "/api/v1/nodes/..%2Fpods%3Fx%3D1"


def test_one_namespaced_object_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        PODS.path(name="web")


def test_a_cluster_scoped_resource_takes_no_namespace() -> None:
    with pytest.raises(ValueError, match="cluster-scoped"):
        NODES.path("default")
