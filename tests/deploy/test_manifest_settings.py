"""The manifests start what is there, with settings that exist, where a cluster lets them run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pydantic_settings import BaseSettings

from cli.stack import secrets
from shared import settings
from shared.redis.rights import USERS
from tests.support.texts.documents import documents

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
OURS = ("watcher", "scheduler", "launcher", "terminator", "interruption")
HOST = "dovetail-redis.dovetail.svc:6379"
OBJECTS = [
    one for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")) for one in documents(file)
]
WORKLOADS = {
    one["metadata"]["name"].removeprefix("dovetail-"): one
    for one in OBJECTS
    if one["kind"] in {"Deployment", "DaemonSet"}
}
PYTHON = sorted(WORKLOADS.keys() - {"redis"})
ELSEWHERE = {"AWS_EC2_METADATA_DISABLED"}
"""A variable of botocore."""
SECRETS = {
    (one["metadata"]["namespace"], one["metadata"]["name"]): one["stringData"]
    for one in secrets.documents(
        "dovetail-local", dict.fromkeys(USERS, "a"), "k" * 16, secrets.RedisAddress(HOST)
    )
}
"""As `dovetail secrets` prints them."""


def container(workload: str) -> dict[str, Any]:
    (found,) = WORKLOADS[workload]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def variables(workload: str) -> dict[str, str]:
    """What its process sees: the ConfigMaps of its namespace first, then its own."""
    stated = container(workload)
    namespace = WORKLOADS[workload]["metadata"]["namespace"]
    found: dict[str, str] = {}
    for source in stated["envFrom"]:
        if "secretRef" in source:
            found |= SECRETS[namespace, source["secretRef"]["name"]]
        else:
            found |= config_map(namespace, source["configMapRef"]["name"])
    return found | {one["name"]: one.get("value", "a-node") for one in stated.get("env", [])}


def config_map(namespace: str, name: str) -> dict[str, str]:
    (found,) = [
        one
        for one in OBJECTS
        if one["kind"] == "ConfigMap"
        and (one["metadata"]["namespace"], one["metadata"]["name"]) == (namespace, name)
    ]
    return dict(found["data"])


def settings_of(workload: str) -> type[BaseSettings]:
    found: type[BaseSettings] = getattr(settings, f"{workload.split('-')[0].title()}Settings")
    return found


def known(*services: str) -> set[str]:
    return {name.upper() for one in services for name in settings_of(one).model_fields}


@pytest.mark.parametrize("workload", PYTHON)
def test_it_starts_a_module_of_the_image(workload: str) -> None:
    stated = container(workload)
    assert stated["command"] == ["python", "-m"]
    assert stated["args"][0] == f"services.{workload.split('-')[0]}"
    assert find_spec(f"{stated['args'][0]}.__main__") is not None


@pytest.mark.parametrize("workload", PYTHON)
def test_every_variable_is_a_setting_with_a_good_value(
    workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ConfigMap is for all five: a variable of one is no fault for another."""
    stated = variables(workload)
    own = {one["name"] for one in container(workload).get("env", [])}
    assert stated.keys() <= known(*OURS) | ELSEWHERE
    assert own <= known(workload)
    for name, value in stated.items():
        monkeypatch.setenv(name, value)
    settings_of(workload)()


@pytest.mark.parametrize("workload", OURS)
def test_its_probes_ask_where_it_listens(workload: str) -> None:
    stated = container(workload)
    told = variables(workload)
    assert stated["ports"] == [
        {"name": "status", "containerPort": int(told["STATUS_PORT"])},
        {"name": "probes", "containerPort": int(told["PROBE_PORT"])},
    ]
    assert told["STATUS_HOST"] == "0.0.0.0"
    assert told.get("PROBE_HOST", told["STATUS_HOST"]) == "0.0.0.0"
    assert stated["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "probes"}
    assert stated["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "probes"}


@pytest.mark.parametrize("workload", PYTHON)
def test_it_comes_to_redis_as_itself(workload: str) -> None:
    (reference,) = [
        one["secretRef"] for one in container(workload)["envFrom"] if "secretRef" in one
    ]
    assert reference["name"] == f"dovetail-redis-{workload}"
    address = variables(workload)["REDIS_URL"]
    assert address.startswith(f"redis://{workload}:")
    service = next(
        one
        for one in OBJECTS
        if one["kind"] == "Service" and one["metadata"]["name"] == "dovetail-redis"
    )["metadata"]
    assert f"@{service['name']}.{service['namespace']}.svc:6379/" in address


def test_no_configmap_has_a_secret_and_no_secret_is_shipped() -> None:
    assert not [one for one in OBJECTS if one["kind"] == "Secret"]
    for one in OBJECTS:
        if one["kind"] == "ConfigMap":
            assert not {"REDIS_URL", "MIRROR_KEY"} & one["data"].keys()


def test_agents_are_told_what_the_services_are_told() -> None:
    agents = config_map("dovetail-agents", "dovetail")
    services = config_map("dovetail", "dovetail")
    assert agents == {name: services[name] for name in agents}
    assert {"CLUSTER_NAME", "AWS_REGION", "SYSTEM_NAMESPACE"} <= agents.keys()


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_its_namespace_admits_its_pods(workload: str) -> None:
    """Pod Security Standards: the host's network is for privileged namespaces."""
    labels = {
        one["metadata"]["name"]: one["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for one in OBJECTS
        if one["kind"] == "Namespace"
    }
    on_host = WORKLOADS[workload]["spec"]["template"]["spec"].get("hostNetwork", False)
    level = labels[WORKLOADS[workload]["metadata"]["namespace"]]
    assert level == ("privileged" if on_host else "restricted")


def test_whoever_a_binding_names_is_there() -> None:
    accounts = {place(one["metadata"]) for one in OBJECTS if one["kind"] == "ServiceAccount"}
    bindings = [one for one in OBJECTS if one["kind"].endswith("Binding")]
    assert {place(subject) for one in bindings for subject in one["subjects"]} == accounts
    assert accounts == {
        (one["metadata"]["namespace"], one["spec"]["template"]["spec"]["serviceAccountName"])
        for name, one in WORKLOADS.items()
        if name != "redis"
    }


def place(named: dict[str, Any]) -> tuple[str, str]:
    return named["namespace"], named["name"]


def test_the_kustomization_has_every_file() -> None:
    (kustomization,) = documents(DEPLOY / "kustomization.yaml")
    files = [
        f"{folder}/{file.name}"
        for folder in ("crds", "kubernetes")
        for file in (DEPLOY / folder).iterdir()
        if file.is_file()  # a folder of its own is applied for itself, where it is wished
    ]
    assert sorted(kustomization["resources"]) == sorted(files)
