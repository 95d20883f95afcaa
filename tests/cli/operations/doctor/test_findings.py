"""What single findings say, from values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cli.operations.doctor.classes import class_finding
from cli.operations.doctor.clocks import skew_finding
from cli.operations.doctor.cloud import launch_requests, launch_tags
from cli.operations.doctor.cluster import definition_problem, version_finding
from cli.operations.doctor.redis import findings_of
from cli.operations.doctor.rights import accounts_of
from shared.kube.resources import AWS_NODE_TEMPLATES, EC2_NODE_CLASSES, Resource
from shared.redis.inspection import ServerFacts

FACTS = ServerFacts("7.2.1", "noeviction", 10, 100, True, False, 0.0)


@pytest.mark.parametrize(
    ("minor", "state"), [("25", "failed"), ("26", "ok"), ("31+", "ok"), ("36", "ok"), ("37", "failed")]
)  # fmt: skip
def test_supported_versions(minor: str, state: str) -> None:
    assert version_finding("1", minor).state == state


@pytest.mark.parametrize(
    ("begun", "ended", "seen", "state"),
    [
        (100.2, 100.4, 100.0, "ok"),
        # A whole second is cut off: 94 may have been 94.9.
        (100.2, 100.4, 94.3, "ok"),
        (100.2, 100.4, 94.1, "failed"),
        (100.2, 100.4, 105.5, "failed"),
        # A slow answer says nothing against the other clock.
        (100.0, 140.0, 120.0, "ok"),
        (100.0, 100.1, None, "not checked"),
    ],
)
def test_clocks(begun: float, ended: float, seen: float | None, state: str) -> None:
    assert skew_finding("clock", begun, ended, seen).state == state


@pytest.mark.parametrize(
    ("facts", "on_loopback", "wrong"),
    [
        (FACTS, False, []),
        (replace(FACTS, version="6.0.16"), False, ["Redis version"]),
        (replace(FACTS, policy="volatile-lru"), False, ["Redis evicts nothing"]),
        (replace(FACTS, used=91), False, ["Redis memory"]),
        (replace(FACTS, used=91, limit=0), False, []),
        (replace(FACTS, persistent=False), False, ["Redis keeps its data"]),
        (replace(FACTS, persistent=False), True, []),
        (replace(FACTS, writes_fail=True), True, ["Redis keeps its data"]),
    ],
)
def test_redis(facts: ServerFacts, on_loopback: bool, wrong: list[str]) -> None:
    found = findings_of(facts, on_loopback=on_loopback)
    assert [one.check for one in found if one.state == "failed"] == wrong


def definition(**version: Any) -> dict[str, Any]:
    made = {"name": "v1", "served": True, "schema": {"a": [1, {"b": 2}]}, **version}
    return {"spec": {"versions": [made]}}


@pytest.mark.parametrize(
    ("installed", "told"),
    [
        (definition(), ""),
        (definition(schema={"a": [1, {"b": 3}]}), "another one at v1.a[1].b"),
        (definition(schema={"a": [1]}), "another one at v1.a"),
        (definition(served=False), "v1 is not served"),
        (definition(name="v1beta1"), "v1 is not served"),
    ],
)
def test_definitions(installed: dict[str, Any], told: str) -> None:
    assert told in definition_problem(definition(), installed)
    assert bool(definition_problem(definition(), installed)) == bool(told)


def test_another_version_beside_ours_does_no_harm() -> None:
    both = {"spec": {"versions": [*definition(name="v1beta1", schema={})["spec"]["versions"],
                                  *definition()["spec"]["versions"]]}}  # fmt: skip
    assert definition_problem(definition(), both) == ""


def test_a_class_that_found_nothing_is_not_well() -> None:
    status = {"subnets": [{"id": "s"}], "securityGroups": []}
    found = class_finding("AWSNodeTemplate default", {"status": status})
    assert (found.state, found.found) == ("failed", "it has found no security groups, images")
    assert found.mend.startswith("kubectl edit awsnodetemplate default")


@pytest.mark.parametrize(
    ("resource", "owner"),
    [
        (EC2_NODE_CLASSES, "karpenter.sh/nodepool"),
        (AWS_NODE_TEMPLATES, "karpenter.sh/provisioner-name"),
    ],
)
def test_dry_runs_have_the_tags_that_the_policies_ask_for(resource: Resource, owner: str) -> None:
    status = {
        "amis": [{"id": "ami-1", "requirements": [{"key": "kubernetes.io/arch", "values": ["arm64"]}]}],
        "subnets": [{"id": "subnet-1"}], "securityGroups": [{"id": "sg-1"}],
    }  # fmt: skip
    found = launch_requests(status, launch_tags(resource, "default", "production"))
    assert found["RunInstances"]["InstanceType"] == "m6g.large"
    for request in found.values():
        for specification in request["TagSpecifications"]:
            tags = {tag["Key"]: tag["Value"] for tag in specification["Tags"]}
            assert tags["kubernetes.io/cluster/production"] == "owned"
            assert tags[owner]


def test_every_service_has_rights_in_the_manifests() -> None:
    found = {one.name: one for one in accounts_of("elsewhere")}
    assert {
        f"dovetail-{name}"
        for name in ("watcher", "scheduler", "launcher", "terminator", "interruption")
    } <= {*found}
    leases = [one for one in found["dovetail-scheduler"].rights if one.resource == "leases"]
    assert {one.namespace for one in leases} == {"elsewhere"}
