"""``kubectl create`` and ``autoscale``: typed clients, which send Protocol Buffers."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.local.cluster.api.conftest import Api
from tests.support.cluster.kubectl import Kubectl

RBAC = "rbac.authorization.k8s.io"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "group", "plural", "name", "part"),
    [
        (
            "deployment web --image=nginx --replicas=0 --port=80",
            "apps",
            "deployments",
            "web",
            {"replicas": 0},
        ),
        ("namespace web", "", "namespaces", "web", {"finalizers": ["kubernetes"]}),
        ("quota web --hard=cpu=1", "", "resourcequotas", "web", {"hard": {"cpu": "1"}}),
        (
            "service nodeport web --tcp=80:8080",
            "",
            "services",
            "web",
            {"type": "NodePort", "selector": {"app": "web"}},
        ),
        ("job web --image=busybox -- sleep 5", "batch", "jobs", "web", {"parallelism": 1}),
        (
            "cronjob web --image=busybox --schedule='*/1 * * * *'",
            "batch",
            "cronjobs",
            "web",
            {"schedule": "*/1 * * * *"},
        ),
        (
            "ingress web --rule=example.org/a=web:80",
            "networking.k8s.io",
            "ingresses",
            "web",
            {},
        ),
        (
            "poddisruptionbudget web --selector=app=web --min-available=50%",
            "policy",
            "poddisruptionbudgets",
            "web",
            {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
        ),
    ],
)
async def test_a_spec_arrives_as_it_was_meant(
    kubectl: Kubectl,
    api: Api,
    command: str,
    group: str,
    plural: str,
    name: str,
    part: dict[str, Any],
) -> None:
    if plural in ("poddisruptionbudgets", "cronjobs"):
        kubectl.needs_today("it creates them as v1beta1, which servers have not had since 1.25")
    code, text = await kubectl("create", *shlex.split(command))
    assert (code, " created" in text) == (0, True), text
    namespace = None if plural == "namespaces" else "default"
    stored = api.store.get(plural, name, group=group, namespace=namespace)
    assert {key: stored["spec"].get(key) for key in part} == part


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "group", "plural", "part"),
    [
        ("configmap web --from-literal=a=b", "", "configmaps", {"data": {"a": "b"}}),
        ("secret generic web --from-literal=a=b", "", "secrets", {"data": {"a": "Yg=="}}),
        ("serviceaccount web", "", "serviceaccounts", {}),
        (
            "priorityclass web --value=0 --description=none",
            "scheduling.k8s.io",
            "priorityclasses",
            {"value": 0, "description": "none", "preemptionPolicy": "PreemptLowerPriority"},
        ),
        (
            "role web --verb=get --resource=pods,pods/status --resource-name=a",
            RBAC,
            "roles",
            {
                "rules": [
                    {
                        "verbs": ["get"],
                        "apiGroups": [""],
                        "resources": ["pods", "pods/status"],
                        "resourceNames": ["a"],
                    }
                ]
            },
        ),
        (
            "clusterrole web --verb=get --non-resource-url=/logs/*",
            RBAC,
            "clusterroles",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}]},
        ),
        (
            "rolebinding web --clusterrole=view --serviceaccount=default:web",
            RBAC,
            "rolebindings",
            {"subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": "default"}]},
        ),
        (
            "clusterrolebinding web --clusterrole=view --group=readers",
            RBAC,
            "clusterrolebindings",
            {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}},
        ),
    ],
)
async def test_an_object_without_spec_arrives_too(
    kubectl: Kubectl, api: Api, command: str, group: Any, plural: str, part: dict[str, Any]
) -> None:
    code, text = await kubectl("create", *shlex.split(command))
    assert (code, " created" in text) == (0, True), text
    cluster_wide = plural.startswith("cluster") or plural == "priorityclasses"
    namespace = None if cluster_wide else "default"
    stored = api.store.get(plural, "web", group=group, namespace=namespace)
    assert {key: stored.get(key) for key in part} == part


async def test_what_is_empty_in_protobuf_is_absent_in_the_object(
    kubectl: Kubectl, api: Api
) -> None:
    """Go writes every empty text and number; a real server does not show them."""
    kubectl.needs_today("it sends JSON")
    await kubectl("create", "deployment", "web", "--image=nginx")
    stored = api.store.get("deployments", "web", group="apps", namespace="default")
    text = json.dumps({key: stored[key] for key in ("metadata", "spec")})
    assert '""' not in text
    assert "null" not in text
    (container,) = stored["spec"]["template"]["spec"]["containers"]
    assert (container["name"], container["image"]) == ("nginx", "nginx")


async def test_an_autoscaler_is_created_in_either_version(kubectl: Kubectl, api: Api) -> None:
    await kubectl("create", "deployment", "web", "--image=nginx")
    words = ("autoscale", "deployment", "web", "--max=3", "--cpu-percent=50")
    code, text = await kubectl(*words)
    assert (code, "autoscaled" in text) == (0, True), text
    path = "namespaces/default/horizontalpodautoscalers/web"
    first = (await api.get(f"/apis/autoscaling/v1/{path}"))[1]
    assert first["apiVersion"] == "autoscaling/v1"
    assert first["spec"]["targetCPUUtilizationPercentage"] == 50
    second = (await api.get(f"/apis/autoscaling/v2/{path}"))[1]
    assert second["spec"]["maxReplicas"] == 3
    assert second["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50
    change = {"spec": {"targetCPUUtilizationPercentage": 70}}
    assert (await api.merge(f"/apis/autoscaling/v1/{path}", change))[0] == 200
    second = (await api.get(f"/apis/autoscaling/v2/{path}"))[1]
    assert second["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70


async def test_a_kind_that_cannot_be_decoded_is_refused_with_what_would_do(api: Api) -> None:
    envelope = b"k8s\x00" + b"\x0a\x12\x0a\x0aexample/v1\x12\x04Pool"
    code, status = await api.call(
        "POST", "/api/v1/namespaces", envelope, media="application/vnd.kubernetes.protobuf"
    )
    assert (code, status["reason"]) == (415, "UnsupportedMediaType")
    assert "Pool in example/v1 cannot be decoded; send JSON" in status["message"]
