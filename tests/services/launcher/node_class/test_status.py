"""What a node class's status says (T-12, EC-15..17)."""

from __future__ import annotations

from typing import Any

import pytest

from services.launcher.node_class.discovery import problems_of
from services.launcher.node_class.images import boot_images
from services.launcher.node_class.published_images import NVIDIA
from services.launcher.node_class.status import (
    LONGEST_MESSAGE,
    Findings,
    Part,
    Problem,
    found_status,
    invalid_status,
)
from services.watcher.status.pools import class_refusal
from shared.api.conditions import condition_objects, known_conditions
from shared.api.faults import Fault, texts_of
from shared.cloud.ec2.records import Image, SecurityGroup, Subnet
from shared.cloud.eks import EksCluster
from shared.domain.machines.machine import Condition
from shared.domain.pools.generations import GENERATIONS, V1, V1ALPHA5
from tests.support.planning.builders import make_node_class

NOW = 1_700_000_000.0
RAW: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default", "generation": 3},
}
FINDINGS = Findings(
    (Subnet("subnet-1", "us-west-2a", "usw2-az1", 100),),
    (SecurityGroup("sg-1", "nodes"),),
    boot_images(
        (
            Image("ami-1", "amd", "x86_64", "", "amazon", False),
            Image("ami-2", "arm", "arm64", "", "amazon", True),
        ),
        {},
    ),
    "Profile",
)
TWO_PROBLEMS = (
    Problem(Part("AMIsReady"), "AMINotFound", "no image"),
    Problem(Part("SubnetsReady"), "SubnetsNotFound", "no subnet"),
)


def conditions(status: dict[str, Any]) -> dict[str, Condition]:
    return known_conditions(status)


def test_a_v1_class_shows_all_that_was_found() -> None:
    """EC-15: status of a node class."""
    status = found_status(GENERATIONS[V1], FINDINGS, RAW, NOW)
    arch = {"key": "kubernetes.io/arch", "operator": "In"}
    assert status["subnets"] == [{"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az1"}]
    assert status["securityGroups"] == [{"id": "sg-1", "name": "nodes"}]
    assert status["amis"] == [
        {"id": "ami-1", "name": "amd", "requirements": [{**arch, "values": ["amd64"]}]},
        {
            "id": "ami-2",
            "name": "arm",
            "requirements": [{**arch, "values": ["arm64"]}],
            "deprecated": True,
        },
    ]
    assert status["instanceProfile"] == "Profile"
    found = conditions(status)
    assert set(found) == {*Part, "Ready"}
    assert {(c.status, c.generation) for c in found.values()} == {("True", 3)}


def test_a_v1alpha1_class_shows_what_its_schema_knows() -> None:
    """T-12: status of a node template."""
    status = found_status(GENERATIONS[V1ALPHA5], FINDINGS, RAW, NOW)
    assert status["subnets"] == [{"id": "subnet-1", "zone": "us-west-2a"}]
    assert status["securityGroups"] == [{"id": "sg-1"}]
    assert [set(one) for one in status["amis"]] == [{"id", "name", "requirements"}] * 2
    assert set(status) == {"subnets", "securityGroups", "amis", "conditions"}
    assert set(conditions(status)) == {"Ready"}


def test_every_failing_part_is_named_at_once() -> None:
    """EC-16, EC-17: each in its own condition, all of them in Ready."""
    found = conditions(found_status(GENERATIONS[V1], Findings(problems=TWO_PROBLEMS), RAW, NOW))
    assert {name for name, c in found.items() if c.status == "False"} == {
        "AMIsReady",
        "SubnetsReady",
        "Ready",
    }
    waiting = found["ValidationSucceeded"]
    assert (waiting.status, waiting.reason) == ("Unknown", "DependenciesNotReady")
    assert (found["AMIsReady"].reason, found["AMIsReady"].message) == ("AMINotFound", "no image")
    assert found["Ready"].message == "no image; no subnet"
    old = conditions(found_status(GENERATIONS[V1ALPHA5], Findings(problems=TWO_PROBLEMS), RAW, NOW))
    assert old["Ready"].message == "no image; no subnet"


def test_a_profile_that_is_gone_is_taken_out_of_the_status() -> None:
    """None is how a merge patch removes a field."""
    assert (
        found_status(GENERATIONS[V1], Findings(problems=TWO_PROBLEMS), RAW, NOW)["instanceProfile"]
        is None
    )


def test_an_unchanged_condition_keeps_its_time_and_others_stay() -> None:
    before = {"Ready": Condition("True", since=5.0), "Theirs": Condition("False", "Why", since=6.0)}
    raw = {**RAW, "status": {"conditions": condition_objects(before)}}
    found = conditions(found_status(GENERATIONS[V1], FINDINGS, raw, NOW))
    assert (found["Ready"].since, found["SubnetsReady"].since) == (5.0, NOW)
    assert (found["Theirs"].status, found["Theirs"].generation) == ("False", 0)


def test_a_status_that_is_rubbish_is_replaced() -> None:
    """F27: faulty objects."""
    for rubbish in (7, {"conditions": 7}, {"conditions": [{"type": 1}]}):
        status = found_status(GENERATIONS[V1], FINDINGS, {**RAW, "status": rubbish}, NOW)
        assert conditions(status)["Ready"].status == "True"


FAULTS = (
    Fault(("spec", "role"), "give a role or an instanceProfile, not both"),
    Fault(("spec", "tags", "eks:eks-cluster-name"), "x" * 2000),
)


def test_an_unreadable_class_shows_its_faults_and_that_nothing_was_looked_up() -> None:
    """EC-17 DependenciesNotReady."""
    found = conditions(invalid_status(FAULTS, RAW, NOW))
    assert found["ValidationSucceeded"].status == found["Ready"].status == "False"
    assert found["Ready"].message.startswith("spec.role: give a role")
    assert len(found["Ready"].message) == LONGEST_MESSAGE
    waiting = {name for name, c in found.items() if c.status == "Unknown"}
    assert waiting == set(Part) - {"ValidationSucceeded"}


TAG = Fault(("spec", "tags", "eks:eks-cluster-name"), "this tag is set by the autoscaler")
KUBELET = Fault(("spec", "kubelet", "maxPods"), "must be a number")


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ((TAG,), "TagValidationFailed"),
        ((Fault(("spec", "tags"), "has too many"),), "TagValidationFailed"),
        ((KUBELET, KUBELET), "InvalidKubeletConfiguration"),
        ((TAG, KUBELET), "ValidationFailed"),
        ((TAG, *FAULTS), "ValidationFailed"),
        ((Fault(("spec", "tagsOfMine"), "unknown field"),), "ValidationFailed"),
    ],
)
def test_launcher_and_watcher_say_the_same_of_an_unreadable_class(
    faults: tuple[Fault, ...], reason: str
) -> None:
    """EC-17: by the part that is wrong, if it is one; else they would overwrite each other for ever."""
    ours = invalid_status(faults, RAW, NOW)
    assert conditions(ours)["Ready"].reason == reason
    assert conditions(ours)["ValidationSucceeded"].reason == reason
    assert class_refusal({**RAW, "status": ours}, texts_of(faults), now=NOW + 60) == ours
    theirs = class_refusal(RAW, texts_of(faults), now=NOW)
    after = conditions(invalid_status(faults, {**RAW, "status": theirs}, NOW + 60))
    assert conditions(theirs).items() <= after.items()


def test_a_v1alpha1_class_is_refused_in_one_way() -> None:
    """The reasons of EC-17 are v1's."""
    old = {**RAW, "kind": "AWSNodeTemplate"}
    refused = conditions(class_refusal(old, texts_of((TAG,)), now=NOW))
    assert {name: c.reason for name, c in refused.items()} == {"Ready": "ValidationFailed"}


def test_what_no_machine_could_be_started_with_is_said_whatever_aws_holds() -> None:
    """LCH-36: size of user data."""
    assert problems_of(make_node_class(generation_api=V1, ami_family="AL2023")) == []
    bad = make_node_class(user_data="x" * 16_385, ami_family="Custom")
    (problem,) = problems_of(bad)
    assert problem.condition == "ValidationSucceeded"
    assert problem.reason == "UserDataSizeLimitExceeded"
    assert "spec.userData" in problem.message
    assert problems_of(make_node_class(user_data="x" * 16_384, ami_family="Custom")) == []


def test_an_image_for_gpus_says_so() -> None:
    """LCH-08: the newest image that suits; EC-15: status of a node class."""
    images = boot_images(
        (Image("ami-1", "gpu", "x86_64", "", "amazon", False),), {"ami-1": (NVIDIA,)}
    )
    for generation in (V1, V1ALPHA5):
        (shown,) = found_status(GENERATIONS[generation], Findings(images=images), RAW, NOW)["amis"]
        assert shown["requirements"] == [
            {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Exists"},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        ]


@pytest.mark.parametrize(
    ("family", "user_data", "named"),
    [
        ("Bottlerocket", "echo hello", "not TOML"),
        ("AL2", "MIME-Version: 1.0\n\nx", "has no parts"),
        ("Windows2022", "</powershell>", "PowerShell lines"),
    ],
)
def test_user_data_that_its_family_cannot_boot_is_said_on_the_class(
    family: str, user_data: str, named: str
) -> None:
    """LCH-31: user data that is not MIME (LCH-33, LCH-34, EC-16)."""
    (problem,) = problems_of(make_node_class(ami_family=family, user_data=user_data))
    assert (problem.condition, problem.reason) == ("ValidationSucceeded", "UserDataInvalid")
    assert "spec.userData" in problem.message
    assert named in problem.message


def test_what_the_cluster_adds_counts_for_the_limit() -> None:
    """LCH-36: size of user data."""
    cluster = EksCluster("1.32", "https://demo.example", "Q" * 1500, "10.100.0.0/16")
    fits = make_node_class(ami_family="AL2023", user_data="#" + "x" * 15_000)
    assert problems_of(fits) == []
    (problem,) = problems_of(fits, cluster)
    assert problem.reason == "UserDataSizeLimitExceeded"
