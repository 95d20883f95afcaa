"""A context that looks like a cluster of a cloud is refused, one on this machine or its network is not."""

from __future__ import annotations

from typing import Any

import pytest

from local.foreign.guard import sign_in_kubeconfig, sign_in_nodes
from local.foreign.kubeconfig import KubeContext


def picked(server: str, context: str = "some", user: dict[str, Any] | None = None) -> KubeContext:
    return KubeContext(context, {"server": server}, user or {})


@pytest.mark.parametrize(
    "server",
    [
        "https://127.0.0.1:6443",
        "https://[::1]:6443",
        "https://localhost:8443",
        "https://192.168.1.7:6443",
        "https://10.0.0.2:6443",
        "https://kubernetes.docker.internal:6443",
        "https://k3s.local:6443",
        "http://127.0.0.1:8001",
    ],
)
def test_clusters_on_this_machine_or_its_network_pass(server: str) -> None:
    assert sign_in_kubeconfig(picked(server)) == ""


@pytest.mark.parametrize(
    ("found", "sign"),
    [
        (picked("https://0123456789abcdef.gr7.us-west-2.eks.amazonaws.com"), "its server is 0123"),
        (picked("https://x.hcp.westeurope.azmk8s.io:443"), "its server is x.hcp"),
        (picked("https://34.118.1.2"), "the public address 34.118.1.2"),
        (picked("https://10.0.0.2", user={"exec": {"command": "/opt/bin/aws"}}), "program aws"),
        (
            picked("https://10.0.0.2", user={"exec": {"command": "gke-gcloud-auth-plugin"}}),
            "program gke-gcloud-auth-plugin",
        ),
        (
            picked("https://127.0.0.1:9443", "gke_project_zone_name"),
            "its name has the form of a cloud's context",
        ),
        (
            picked("https://127.0.0.1", "arn:aws:eks:us-west-2:1:cluster/a"),
            "its name has the form of a cloud's context",
        ),
    ],
)
def test_each_sign_of_a_cloud_is_named(found: KubeContext, sign: str) -> None:
    assert sign in sign_in_kubeconfig(found)


def node(provider_id: str | None) -> dict[str, Any]:
    return {"metadata": {"name": "one"}, "spec": {"providerID": provider_id} if provider_id else {}}


@pytest.mark.parametrize("provider_id", ["kind://docker/kind/kind-worker", "k3s://host", None])
def test_nodes_of_test_clusters_pass(provider_id: str | None) -> None:
    assert sign_in_nodes([node(provider_id)]) == ""


@pytest.mark.parametrize("provider_id", ["aws:///us-west-2a/i-0", "gce://p/z/n", "azure:///x"])
def test_a_machine_of_a_cloud_behind_a_tunnel_is_a_sign(provider_id: str) -> None:
    assert "its node one is a machine of" in sign_in_nodes([node(None), node(provider_id)])
