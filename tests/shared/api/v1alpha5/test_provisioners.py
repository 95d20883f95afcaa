"""What a Provisioner may say, and what it is told when it says something else (P-01..P-24)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.v1alpha5.provisioners import (
    parse_provisioner,
    with_defaults,
)
from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.pools.nodepools import (
    WHEN_EMPTY,
    WHEN_UNDERUTILIZED,
)
from tests.shared.api.conftest import document
from tests.shared.api.documents.provisioners import (
    FAMILY,
    INLINE,
    faults_of,
    pool_of,
    provisioner,
    texts,
)


def test_a_provisioner_that_says_everything_arrives_complete() -> None:
    """P-01..P-13: every field of a Provisioner."""
    raw = provisioner(
        annotations={"note": "x"},
        labels={"billing-team": "my-team"},
        taints=[{"key": "example.com/special", "effect": "NoSchedule"}],
        startupTaints=[{"key": "example.com/boot", "value": "a", "effect": "NoExecute"}],
        requirements=[{"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]}],
        kubeletConfiguration={"maxPods": 20},
        limits={"resources": {"cpu": "1000", "memory": "1000Gi"}},
        ttlSecondsAfterEmpty=30,
        ttlSecondsUntilExpired=2592000,
        weight=10,
    )
    raw["status"] = {"resources": {"cpu": "4"}}
    pool = parse_provisioner(raw).require("Provisioner/one")
    assert (pool.key, pool.label_key) == ("Provisioner/one", keys.PROVISIONER_NAME)
    assert pool.annotations == {"note": "x"}
    assert pool.labels == {"billing-team": "my-team"}
    assert pool.taints == (Taint("example.com/special", "NoSchedule"),)
    assert pool.startup_taints == (Taint("example.com/boot", "NoExecute", "a"),)
    assert pool.requirements[0] == Expression(keys.ARCH, "In", ("arm64",))  # SCH-03
    assert pool.kubelet == {"maxPods": 20}
    assert pool.limits == {"cpu": 1_000_000, "memory": 1000 * 1024**3}
    assert (pool.empty_ttl_seconds, pool.expire_seconds, pool.weight) == (30, 2592000, 10)
    assert (pool.node_class, pool.usage) == ("default", {"cpu": 4000})


def test_three_incomplete_taints_are_three_faults() -> None:
    """ACC-11: the seed lists key, value and effect as items of their own."""
    faults = faults_of(
        taints=[{"key": "dotori/server"}, {"value": "true"}, {"effect": "PreferNoSchedule"}]
    )
    assert {fault.partition(":")[0].partition("]")[0] for fault in faults} == {
        "spec.taints[0",
        "spec.taints[1",
        "spec.taints[2",
    }
    whole = [fault for fault in faults if "a taint needs key and effect" in fault]
    assert len(whole) == 3


def test_an_unknown_operator_names_the_field_and_the_allowed_ones() -> None:
    """P-05: requirements; P-16: rules for requirements."""
    (fault,) = faults_of(requirements=[{"key": keys.ZONE, "operator": "Near", "values": ["a"]}])
    assert fault.startswith("spec.requirements[0].operator: 'Near' is not one of")
    for operator in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
        assert operator in fault


def test_all_faults_are_told_at_once() -> None:
    """F27: a user mends a file once."""
    faults = texts(
        document(
            {
                "labels": {"kubernetes.io/hostname": "x", "ok": "not a value!"},
                "requirements": [
                    {"key": "a", "operator": "In", "values": []},
                    None,
                    {"key": "b", "operator": "Gt", "values": ["many"]},
                ],
                "taints": "none",
                "limits": {"resources": {"cpu": "lots"}},
                "weight": 101,
                "ttlSecondsAfterEmpty": -1,
                "consolidation": {"enabled": True},
            }
        )
    )
    fields = sorted(fault.split(": ")[0] for fault in faults)
    assert fields == [
        "spec.consolidation",
        "spec.labels.ok",
        "spec.labels[kubernetes.io/hostname]",
        "spec.limits.resources.cpu",
        "spec.providerRef.name",
        "spec.requirements[0].values",
        "spec.requirements[1]",
        "spec.requirements[2].values",
        "spec.taints",
        "spec.ttlSecondsAfterEmpty",
        "spec.weight",
    ]


@pytest.mark.parametrize(
    ("operator", "values", "good"),
    [
        ("In", ["a"], True),
        ("In", [], False),
        ("NotIn", [], True),
        ("Exists", [], True),
        ("Exists", ["a"], False),
        ("DoesNotExist", ["a"], False),
        ("Gt", ["3"], True),
        ("Gt", ["-3"], False),
        ("Gt", ["1.5"], False),
        ("Lt", ["3", "4"], False),
        ("Lt", ["٣"], False),
    ],
)
def test_each_operator_takes_its_values(operator: str, values: list[str], good: bool) -> None:
    """P-16: rules for requirements."""
    faults = faults_of(requirements=[{"key": "team", "operator": operator, "values": values}])
    assert (faults == []) is good


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("team", True),
        ("example.com/team", True),
        (keys.ZONE, True),
        (keys.INSTANCE_TYPE, True),
        (keys.AWS_PREFIX + "instance-cpu", True),
        ("kops.k8s.io/instancegroup", True),
        ("node.kubernetes.io/thing", True),
        ("a.node-restriction.kubernetes.io/thing", True),
        ("kubernetes.io/thing", False),
        ("sub.k8s.io/thing", False),
        ("karpenter.sh/thing", False),
        (keys.AWS_PREFIX + "thing", False),
        (keys.PROVISIONER_NAME, False),
        (keys.HOSTNAME, False),
        ("karpenter.sh/emptiness-timestamp", False),
        ("-bad", False),
        ("bad\n", False),
        ("a" * 64, False),
    ],
)
def test_label_domains_of_kubernetes_and_karpenter_are_kept(key: str, good: bool) -> None:
    """P-15, P-17, for labels and requirements alike."""
    assert (faults_of(labels={key: "v"}) == []) is good
    assert (faults_of(requirements=[{"key": key, "operator": "Exists"}]) == []) is good


@pytest.mark.parametrize("value", ["has space", "x\n", "-x", "a" * 64, "'; reboot"])
def test_values_that_are_no_label_values_are_refused(value: str) -> None:
    """P-15, P-18: labels, taints and requirements; they end up in a boot script."""
    taint = {"key": "k", "value": value, "effect": "NoSchedule"}
    requirement = {"key": "k", "operator": "In", "values": [value]}
    assert len(faults_of(labels={"k": value})) == 1
    assert faults_of(taints=[taint])[0].startswith("spec.taints[0].value")
    assert faults_of(requirements=[requirement])[0].startswith("spec.requirements[0].values")


def test_one_taint_per_key_and_effect_over_both_lists() -> None:
    """P-18: rules for taints."""
    taint = {"key": "k", "effect": "NoSchedule"}
    assert "k:NoSchedule is a duplicate" in faults_of(taints=[taint], startupTaints=[taint])[0]
    assert faults_of(taints=[taint], startupTaints=[{**taint, "effect": "NoExecute"}]) == []


def test_consolidation_and_the_emptiness_ttl_exclude_each_other() -> None:
    """P-12; a ttl of null is no ttl."""
    assert faults_of(consolidation={"enabled": True}, ttlSecondsAfterEmpty=30)
    assert faults_of(consolidation={"enabled": True}, ttlSecondsAfterEmpty=None) == []
    assert faults_of(consolidation={"enabled": False}, ttlSecondsAfterEmpty=30) == []


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, "spec.providerRef.name: is required: the name of an AWSNodeTemplate"),
        ({"provider": INLINE, "providerRef": {"name": "a"}}, "spec.provider: cannot be combined"),
        ({"provider": None, "providerRef": None}, "spec.providerRef.name: is required"),
        ({"providerRef": {"name": 5}}, "spec.providerRef.name: must be a string"),
        ({"providerRef": {"name": ""}}, "spec.providerRef.name: has fewer than 1"),
        ({"providerRef": {"name": "a", "kind": "EC2NodeClass"}}, "spec.providerRef.kind:"),
    ],
)
def test_aws_settings_come_from_exactly_one_place(spec: dict[str, Any], fault: str) -> None:
    """P-07: provider or providerRef."""
    (found,) = texts(document(spec))
    assert found.startswith(fault)


def test_what_is_not_said_gets_the_defaults_of_the_webhook() -> None:
    """P-19: defaults of the webhook."""
    assert with_defaults((), {}) == (
        Expression(keys.OS, "In", ("linux",)),
        Expression(keys.ARCH, "In", ("amd64",)),
        Expression(keys.CAPACITY_TYPE, "In", ("on-demand",)),
        Expression(FAMILY, "In", ("c", "m", "r")),
        Expression(keys.AWS_PREFIX + "instance-generation", "Gt", ("2",)),
    )


def test_what_is_said_in_labels_or_requirements_is_not_defaulted() -> None:
    """P-19: defaults of the webhook."""
    said = (
        Expression(keys.INSTANCE_TYPE, "In", ("m5.large",)),
        Expression(keys.CAPACITY_TYPE, "Exists"),
    )
    assert with_defaults(said, {keys.ARCH: "arm64"}) == (
        *said,
        Expression(keys.OS, "In", ("linux",)),
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"labels": ["a"]},
        {"taints": "key=value:NoSchedule"},
        {"requirements": [None]},
        {"requirements": {"key": "a"}},
        {"kubeletConfiguration": 5},
        {"annotations": {"a": 1}},
        {"limits": 3},
        {"limits": {"resources": [1]}},
        {"providerRef": "default"},
        {"consolidation": True},
        {"weight": "10"},
        {"weight": True},
        {"taints": [{"key": ["k"], "effect": "NoSchedule"}]},
    ],
)
def test_a_wrong_json_type_is_a_fault(spec: dict[str, Any]) -> None:
    """F27: not every server has our schema."""
    assert faults_of(**spec)


@pytest.mark.parametrize(
    ("spec", "policy", "after"),
    [
        ({}, WHEN_EMPTY, None),
        ({"ttlSecondsAfterEmpty": 0}, WHEN_EMPTY, 0.0),
        ({"ttlSecondsAfterEmpty": 30}, WHEN_EMPTY, 30.0),
        ({"consolidation": {"enabled": True}}, WHEN_UNDERUTILIZED, 0.0),
        ({"consolidation": {"enabled": False}, "ttlSecondsAfterEmpty": 5}, WHEN_EMPTY, 5.0),
        ({"consolidation": {}}, WHEN_EMPTY, None),
    ],
)
def test_consolidation_is_told_in_the_words_of_v1(
    spec: dict[str, Any], policy: str, after: float | None
) -> None:
    """MAP-04: from v1alpha5 to v1; ACC-52: consolidation excludes a time after empty."""
    pool = pool_of(**spec)
    assert (pool.consolidation_policy, pool.consolidate_after_seconds) == (policy, after)


def test_both_times_to_live_are_kept() -> None:
    """ACC-31: a node past its age is replaced."""
    pool = pool_of(ttlSecondsAfterEmpty=60, ttlSecondsUntilExpired=2592000)
    assert (pool.empty_ttl_seconds, pool.expire_seconds) == (60.0, 2592000.0)


def test_the_sample_of_the_seed_is_read() -> None:
    """ACC-27: the Provisioner with taint, label and types."""
    pool = pool_of(
        labels={"billing-team": "my-team"},
        taints=[{"key": "example.com/special-taint", "effect": "NoSchedule"}],
        requirements=[
            {"key": keys.INSTANCE_TYPE, "operator": "In", "values": ["m5.large", "m5.2xlarge"]},
            {"key": keys.ZONE, "operator": "In", "values": ["us-west-2a", "us-west-2b"]},
            {"key": keys.ARCH, "operator": "In", "values": ["arm64", "amd64"]},
            {"key": keys.CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]},
        ],
    )
    assert [one.key for one in pool.requirements] == [
        keys.INSTANCE_TYPE, keys.ZONE, keys.ARCH, keys.CAPACITY_TYPE, keys.OS,
    ]  # fmt: skip


def test_a_provisioner_whose_categories_were_lost_gets_the_defaults() -> None:
    """ACC-16: of a doubled key YAML keeps the last, without category and generation."""
    last = [{"key": keys.OS, "operator": "In", "values": ["linux"]}]
    found = {one.key: one.values for one in pool_of(requirements=last).requirements}
    assert found[FAMILY] == ("c", "m", "r")
    assert found[keys.AWS_PREFIX + "instance-generation"] == ("2",)
