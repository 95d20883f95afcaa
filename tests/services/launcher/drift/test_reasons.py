"""Is a machine still what its pool and class say (DRF-02..05, DRF-08)?"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from services.launcher.drift.reasons import Facts, drift_of
from services.launcher.node_class.images import boot_images
from services.launcher.resolved_class import BootImages, Resolved
from shared.api.hashes import class_hash_annotations, pool_hash_annotations
from shared.api.v1.ec2_node_classes import parse_ec2_node_class
from shared.api.v1.node_pools import parse_node_pool
from shared.api.v1alpha5.node_templates import parse_node_template
from shared.api.v1alpha5.provisioners import parse_provisioner
from shared.cloud.ec2.records import Image, Instance, SecurityGroup, Subnet
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import NodeClass, NodePool
from tests.support.planning.builders import make_machine, make_type

NOW = 10_000.0
TYPES = {"m5.large": make_type("m5.large")}
OTHER_TYPES = {"c5.large": make_type("c5.large")}
TERMS = [{"tags": {"team": "a"}}]
POOL: dict[str, Any] = {
    "kind": "NodePool",
    "metadata": {"name": "default", "uid": "p"},
    "spec": {
        "template": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {
                "requirements": [
                    {"key": keys.CAPACITY_TYPE, "operator": "In", "values": ["on-demand", "spot"]},
                    {"key": keys.AWS_PREFIX + "instance-tenancy", "operator": "In", "values": ["default"]},
                ],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            },
        }
    },
}  # fmt: skip
CLASS: dict[str, Any] = {
    "kind": "EC2NodeClass",
    "metadata": {"name": "default", "uid": "c"},
    "spec": {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": TERMS,
        "securityGroupSelectorTerms": TERMS,
        "role": "r",
    },
}


def image(name: str, arch: str = "x86_64") -> Image:
    return Image(name, name, arch, "2026", "amazon", False)


def changed(raw: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with ``spec.`` + path set."""
    copy = deepcopy(raw)
    at = copy["spec"]
    *way, last = path.split(".")
    for name in way:
        at = at.setdefault(name, {})
    at[last] = value
    return copy


def pool_of(raw: dict[str, Any] = POOL) -> NodePool:
    return parse_node_pool(raw).require("NodePool/default")


def class_of(raw: dict[str, Any] = CLASS) -> NodeClass:
    return parse_ec2_node_class(raw).require("EC2NodeClass/default")


def resolved(node_class: NodeClass, **changes: Any) -> Resolved:
    fields: dict[str, Any] = {
        "subnets": (Subnet("subnet-a", "us-west-2a", "", 9), Subnet("subnet-b", "us-west-2b", "", 9)),
        "security_groups": (SecurityGroup("sg-1", "one"), SecurityGroup("sg-2", "two")),
        "images": BootImages(boot_images((image("ami-new"), image("ami-arm", "arm64")), {})),
    }  # fmt: skip
    return Resolved(node_class, **{**fields, **changes})


INSTANCE = Instance(
    "i-1", "m5.large", "us-west-2a", "on-demand", "ami-new", "running", 0.0, "", {}, "subnet-a",
    ("sg-2", "sg-1"),
)  # fmt: skip


def machine_of(pool: NodePool, node_class: NodeClass, **changes: Any) -> Machine:
    """As it was launched from these."""
    labels = {
        keys.CAPACITY_TYPE: "on-demand",
        keys.INSTANCE_TYPE: "m5.large",
        pool.label_key: pool.name,
    }
    annotations = {
        **pool_hash_annotations(pool.kind, pool.hash),
        **class_hash_annotations(node_class.kind, node_class.hash),
    }
    fields: dict[str, Any] = {
        "generation_api": pool.generation_api,
        "labels": labels,
        "annotations": annotations,
        "requirements": pool.requirements,
        "node_class": "default",
        "created_at": NOW - 60,
    }
    return make_machine("m", **{**fields, **changes})


MACHINE = machine_of(pool_of(), class_of())
FACTS = Facts(pool_of(), class_of(), resolved(class_of()), INSTANCE, TYPES)


def verdict(facts: Facts = FACTS, machine: Machine = MACHINE, now: float = NOW) -> str | None:
    return drift_of(machine, facts, now=now)


def test_a_machine_that_is_as_it_was_made_did_not_drift() -> None:
    """DRF-02: order of the checks for drift; DRF-03: reasons for drift of the cloud."""
    assert verdict() == ""


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("template.metadata.labels", {"team": "b"}, "NodePoolDrifted"),
        ("template.spec.expireAfter", "10h", "NodePoolDrifted"),
        ("template.spec.taints", [{"key": "a", "effect": "NoSchedule"}], "NodePoolDrifted"),
        ("limits", {"cpu": "7"}, ""),
        ("weight", 9, ""),
        ("replicas", 3, ""),
        ("disruption", {"consolidateAfter": "5m", "budgets": [{"nodes": "1"}]}, ""),
        ("template.spec.requirements", [], ""),
    ],
)
def test_a_pool_drifts_by_its_template_only(path: str, value: Any, expected: str) -> None:
    """ACC-79: drift by a label, not by limits; NP-19: fields that the hash covers; DRF-05: what never is drift."""
    assert verdict(replace(FACTS, pool=pool_of(changed(POOL, path, value)))) == expected


def requiring(*said: Expression) -> Facts:
    return replace(FACTS, pool=replace(pool_of(), requirements=said))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (Expression(keys.CAPACITY_TYPE, "In", ("spot",)), "RequirementsDrifted"),
        (Expression(keys.CAPACITY_TYPE, "NotIn", ("on-demand",)), "RequirementsDrifted"),
        (Expression("team", "Exists"), "RequirementsDrifted"),
        (Expression("team", "DoesNotExist"), ""),
        # Neither is a label of the machine: its type and what it asked for answer.
        (Expression(keys.AWS_PREFIX + "instance-cpu", "In", ("2",)), ""),
        (Expression(keys.AWS_PREFIX + "instance-cpu", "Gt", ("2",)), "RequirementsDrifted"),
        (Expression(keys.AWS_PREFIX + "instance-tenancy", "In", ("dedicated",)), "RequirementsDrifted"),
    ],
)  # fmt: skip
def test_requirements_drift_by_what_the_machine_is(said: Expression, expected: str) -> None:
    """DRF-02: the labels against the pool's requirements of today."""
    assert verdict(requiring(said)) == expected


def test_a_type_that_is_no_longer_offered_is_drift_after_an_hour() -> None:
    """DRF-02. A catalogue without any type says nothing."""
    gone = Facts(FACTS.pool, FACTS.node_class, FACTS.resolved, INSTANCE, OTHER_TYPES)
    later = MACHINE.created_at + 3601
    assert verdict(gone, now=later) == "InstanceTypeNotFound"
    assert verdict(gone) is None  # no image can be told for a type that nobody knows
    assert verdict(replace(gone, types={}), now=later) is None
    assert verdict(replace(gone, type_seen=True), now=later) is None


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("userData", "#!/bin/sh", "NodeClassDrift"),
        ("tags", {"a": "b"}, "NodeClassDrift"),
        ("kubelet", {"maxPods": 9}, "NodeClassDrift"),
        ("subnetSelectorTerms", [{"id": "subnet-1"}], ""),
        ("securityGroupSelectorTerms", [{"id": "sg-1"}], ""),
        ("capacityReservationSelectorTerms", [{"id": "cr-1"}], ""),
    ],
)
def test_a_class_drifts_by_what_it_selects_not_by_how(path: str, value: Any, expected: str) -> None:
    """EC-22: hash of a node class; DRF-04: fields that the hash covers."""
    assert verdict(replace(FACTS, node_class=class_of(changed(CLASS, path, value)))) == expected


@pytest.mark.parametrize(
    ("held", "now", "expected"),
    [("a", "a", ""), ("a", "b", "NodeClassDrift"), ("a", "", ""), ("", "b", "")],
)
def test_a_new_certificate_authority_of_the_cluster_is_drift(
    held: str, now: str, expected: str
) -> None:
    """EC-22: what a node was told at boot. One that says nothing was made by an older build (NP-20)."""
    annotations = MACHINE.annotations | ({keys.AUTHORITY_ANNOTATION: held} if held else {})
    machine = replace(MACHINE, annotations=annotations)
    assert verdict(replace(FACTS, authority=now), machine) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"image_id": "ami-old"}, "AMIDrift"),
        ({"image_id": "ami-arm"}, "AMIDrift"),
        ({"security_group_ids": ("sg-1",)}, "SecurityGroupDrift"),
        ({"security_group_ids": ("sg-1", "sg-2", "sg-3")}, "SecurityGroupDrift"),
        ({"subnet_id": "subnet-c"}, "SubnetDrift"),
        ({"placement_group": "rack"}, "PlacementGroupDrift"),
        ({"image_id": ""}, None),
        ({"security_group_ids": ()}, None),
        ({"subnet_id": ""}, None),
        ({"subnet_id": "", "image_id": "ami-old"}, "AMIDrift"),
    ],
)
def test_an_instance_drifts_from_what_its_class_selects(
    change: dict[str, Any], expected: str | None
) -> None:
    """DRF-03; ACC-79: a new image."""
    assert verdict(replace(FACTS, instance=replace(INSTANCE, **change))) == expected


@pytest.mark.parametrize(
    ("selector", "held", "expected"),
    [
        ({"name": "rack"}, ("rack", "pg-1"), ""),
        ({"name": "rack"}, ("shelf", "pg-2"), "PlacementGroupDrift"),
        ({"name": "rack"}, ("", ""), "PlacementGroupDrift"),
        ({"id": "pg-1"}, ("rack", ""), ""),
        ({"id": "pg-1"}, ("shelf", "pg-2"), "PlacementGroupDrift"),
    ],
)
def test_a_machine_belongs_into_the_placement_group_of_its_class(
    selector: dict[str, str], held: tuple[str, str], expected: str
) -> None:
    """DRF-03, EC-06. EC2 may tell the group's name only."""
    instance = replace(INSTANCE, placement_group=held[0], placement_group_id=held[1])
    node_class = class_of(changed(CLASS, "placementGroupSelector", selector))
    assert verdict(replace(FACTS, node_class=node_class, instance=instance)) == expected


@pytest.mark.parametrize(
    "unknown",
    [
        {"pool": None},
        {"node_class": None},
        {"resolved": None},
        {"instance": None},
        {"types": {}},
        {"resolved": resolved(class_of(), images=BootImages())},
        {"resolved": resolved(class_of(), images=BootImages(boot_images((image("a", "arm64"),), {})))},
        {"resolved": resolved(class_of(), security_groups=())},
        {"resolved": resolved(class_of(), subnets=())},
    ],
)  # fmt: skip
def test_what_is_not_known_is_no_drift(unknown: dict[str, Any]) -> None:
    """F23: an empty or failed list says nothing; what is known is still told."""
    assert verdict(replace(FACTS, **unknown)) is None
    if "pool" not in unknown:
        edited = pool_of(changed(POOL, "template.metadata.labels", {}))
        assert verdict(replace(FACTS, **{**unknown, "pool": edited})) == "NodePoolDrifted"


@pytest.mark.parametrize(
    "annotations",
    [
        {keys.POOL_HASH: "1", keys.POOL_HASH_VERSION: "v2"},
        {keys.POOL_HASH: "1", keys.HASHED_BY: "dovetail-0"},
        {keys.CLASS_HASH: "1", keys.CLASS_HASH_VERSION: "v5"},
    ],
)
def test_a_hash_of_another_version_is_no_drift(annotations: dict[str, str]) -> None:
    """ACC-79, NP-20: after an upgrade nothing is known until the watcher wrote today's hash."""
    machine = replace(MACHINE, annotations={**MACHINE.annotations, **annotations})
    assert verdict(machine=machine) is None
    assert verdict(machine=replace(MACHINE, annotations={})) is None
    same = {**MACHINE.annotations, keys.POOL_HASH: "1"}
    assert verdict(machine=replace(MACHINE, annotations=same)) == "NodePoolDrifted"


OLD_POOL: dict[str, Any] = {
    "kind": "Provisioner",
    "metadata": {"name": "default", "uid": "p"},
    "spec": {"providerRef": {"name": "default"}, "ttlSecondsAfterEmpty": 30, "labels": {"a": "b"}},
}
OLD_CLASS: dict[str, Any] = {
    "kind": "AWSNodeTemplate",
    "metadata": {"name": "default", "uid": "c"},
    "spec": {"subnetSelector": {"team": "a"}, "securityGroupSelector": {"team": "a"}},
}


@pytest.mark.parametrize(
    ("pool", "node_class", "instance", "expected"),
    [
        ({}, {}, {}, ""),
        ({"labels": {"a": "c"}}, {}, {}, "ProvisionerDrifted"),
        ({"weight": 5, "limits": {"resources": {"cpu": "1"}}, "ttlSecondsAfterEmpty": 9}, {}, {}, ""),
        ({}, {"tags": {"a": "b"}}, {}, "NodeTemplateDrift"),
        ({}, {}, {"image_id": "ami-old"}, "AMIDrift"),
        ({}, {}, {"security_group_ids": ("sg-1",)}, "SecurityGroupDrift"),
        ({}, {}, {"subnet_id": "subnet-c"}, "SubnetDrift"),
        ({}, {}, {"placement_group": "rack"}, ""),
    ],
)  # fmt: skip
def test_v1alpha5_machines_drift_in_their_own_words(
    pool: dict[str, Any], node_class: dict[str, Any], instance: dict[str, Any], expected: str
) -> None:
    """DRF-08: drift of v1alpha5."""

    def read(pool: dict[str, Any], node_class: dict[str, Any]) -> tuple[NodePool, NodeClass]:
        raw = {**OLD_POOL, "spec": {**OLD_POOL["spec"], **pool}}
        raw_class = {**OLD_CLASS, "spec": {**OLD_CLASS["spec"], **node_class}}
        return parse_provisioner(raw).require("p"), parse_node_template(raw_class).require("c")

    def labelled(machine: Machine) -> Machine:
        category = {keys.AWS_PREFIX + "instance-category": "m"}
        return replace(machine, labels={**machine.labels, **category})

    machine = labelled(machine_of(*read({}, {})))
    edited_pool, edited_class = read(pool, node_class)
    facts = Facts(
        edited_pool, edited_class, resolved(edited_class), replace(INSTANCE, **instance), TYPES
    )
    assert machine.generation_api != V1
    assert verdict(facts, machine) == expected


def test_a_template_of_the_users_own_decides_over_image_and_groups() -> None:
    """T-07: only the subnets are the class's."""
    node_class = replace(class_of(), launch_template="mine")
    instance = replace(INSTANCE, image_id="ami-x", security_group_ids=("sg-x",))
    facts = replace(FACTS, node_class=node_class, instance=instance)
    assert verdict(facts) == ""
    assert verdict(replace(facts, instance=replace(instance, subnet_id="s"))) == "SubnetDrift"
