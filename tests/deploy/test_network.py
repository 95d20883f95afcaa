"""NetworkPolicies: nobody reaches anything that the services do not need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shared.redis.rights import CONSOLE, SERVICES
from tests.support.texts.documents import documents

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
OBJECTS = [one for file in sorted(FOLDER.glob("*.yaml")) for one in documents(file)]
POLICIES = [one for one in OBJECTS if one["kind"] == "NetworkPolicy"]
PODS = {
    one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"]
    for one in OBJECTS
    if one["kind"] == "Deployment"
}
AWS = {"launcher", "terminator", "interruption"}
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """As a label selector does; the operators that the policies use."""
    exact = selector.get("matchLabels", {}).items() <= labels.items()
    expressions = selector.get("matchExpressions", [])
    assert {one["operator"] for one in expressions} <= {"In"}
    return exact and all(labels.get(one["key"]) in one["values"] for one in expressions)


def rules(component: str, direction: str) -> list[dict[str, Any]]:
    """Of all policies that select its pods."""
    labels = PODS[component]["metadata"]["labels"]
    return [
        rule
        for policy in POLICIES
        if selects(policy["spec"]["podSelector"], labels)
        for rule in policy["spec"].get(direction, [])
    ]


def reached_from(
    component: str, labels: dict[str, str], *, same_namespace: bool = True
) -> set[Any]:
    """Ports of this component that pods with these labels may come to."""
    return {
        port["port"]
        for rule in rules(component, "ingress")
        for peer in rule["from"]
        if selects(peer["podSelector"], labels)
        if same_namespace or "namespaceSelector" in peer
        for port in rule["ports"]
    }


def test_what_no_policy_allows_is_refused() -> None:
    (everything,) = [one for one in POLICIES if one["spec"]["podSelector"] == {}]
    assert everything["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert everything["spec"].keys() == {"podSelector", "policyTypes"}
    assert {one["metadata"]["namespace"] for one in POLICIES} == {"dovetail"}
    assert {*PODS} == {*SERVICES, CONSOLE, "redis"}


@pytest.mark.parametrize("service", [*SERVICES, CONSOLE])
def test_redis_hears_the_services(service: str) -> None:
    assert reached_from("redis", PODS[service]["metadata"]["labels"]) == {"redis"}


@pytest.mark.parametrize(
    "labels",
    [
        {"app": "web"},
        PROMETHEUS,
        {"app.kubernetes.io/name": "dovetail"},
        {"app.kubernetes.io/component": "scheduler"},
    ],
    ids=str,
)
def test_redis_hears_nobody_else(labels: dict[str, str]) -> None:
    assert reached_from("redis", labels) == set()


def test_not_even_from_another_namespace_with_the_same_labels() -> None:
    labels = PODS["scheduler"]["metadata"]["labels"]
    assert reached_from("redis", labels, same_namespace=False) == set()


def test_redis_calls_nobody() -> None:
    assert rules("redis", "egress") == []


@pytest.mark.parametrize("service", SERVICES)
def test_prometheus_alone_comes_to_a_status_port(service: str) -> None:
    assert reached_from(service, PROMETHEUS, same_namespace=False) == {"status"}
    for other in ({"app": "web"}, PODS["redis"]["metadata"]["labels"]):
        assert reached_from(service, other) == set()


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_calls_names_redis_and_https_and_only_some_the_credentials(service: str) -> None:
    found = {
        (str(rule.get("to", "anywhere")), port["port"])
        for rule in rules(service, "egress")
        for port in rule["ports"]
    }
    anywhere = {port for to, port in found if to == "anywhere"}
    assert anywhere == {53, 443, 6443}
    assert len([port for to, port in found if "redis" in to]) == 1
    assert bool([to for to, _ in found if "169.254.170.23" in to]) == (service in AWS)


def test_named_ports_are_there() -> None:
    for component, template in PODS.items():
        named = {port["name"] for one in template["spec"]["containers"] for port in one["ports"]}
        for rule in rules(component, "ingress"):
            assert {port["port"] for port in rule["ports"]} <= named


@pytest.mark.parametrize("service", SERVICES)
def test_the_console_comes_to_the_status_ports(service: str) -> None:
    console = PODS[CONSOLE]["metadata"]["labels"]
    assert reached_from(service, console) == {"status"}
    assert reached_from(service, console, same_namespace=False) == set()


def test_nobody_but_prometheus_comes_to_the_console_from_inside() -> None:
    """People reach it through the API server: kubectl port-forward comes from the node itself."""
    assert reached_from(CONSOLE, PROMETHEUS, same_namespace=False) == {"status"}
    assert reached_from(CONSOLE, PODS["scheduler"]["metadata"]["labels"]) == set()
