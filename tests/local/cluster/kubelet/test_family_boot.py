"""A node of every family joins the local cluster as its user data says (LCH-30..34, LCH-37, LCH-38)."""

from __future__ import annotations

import base64
import math

import pytest

from local.cluster.kubelet.instances import Instance
from local.cluster.kubelet.node_objects import node_object
from local.cluster.kubelet.user_data import KubeletConfiguration, parse_user_data
from shared.cloud.user_data.bootstrap import boot_taints
from shared.cloud.user_data.rendering import render
from tests.support.aws.boot_data import bootstrap

LABELS = {"team": "a", "karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot"}
TAINTS = boot_taints([("dedicated", "gpu", "NoSchedule"), ("dedicated", "", "NoExecute")])
TAINT_OBJECTS = [
    {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "effect": "NoExecute"},
    {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
]
USERS = {
    "AL2": "#!/bin/sh\n/etc/eks/bootstrap.sh other --kubelet-extra-args '--max-pods=1'\n",
    "AL2023": "kind: NodeConfig\nspec:\n  kubelet:\n    config: {maxPods: 1}\n",
    "Bottlerocket": "[settings.kubernetes]\nmax-pods = 1\n[settings.kubernetes.node-labels]\nteam = 'x'\n",
    "Ubuntu": "",
    "Windows2019": "& $Script -EKSClusterName 'other' -KubeletExtraArgs '--max-pods=1'",
    "Windows2022": "",
    "Windows2025": "",
}
NOW = "2026-01-01T00:00:00Z"
GIB = 1024**3
INSTANCE = Instance(
    instance_id="i-1",
    instance_type="m5.large",
    zone="us-west-2a",
    region="us-west-2",
    state="running",
    launched_at=0.0,
    private_dns_name="ip-10-0-0-7.us-west-2.compute.internal",
    vcpus=2,
    memory_mib=8192,
    max_pods=29,
)


def booted(family: str) -> KubeletConfiguration:
    asked = bootstrap(labels=LABELS, taints=TAINTS, max_pods=17, user_data=USERS[family])
    return parse_user_data(base64.b64encode(render(family, asked).encode()).decode())


@pytest.mark.parametrize("family", USERS)
def test_a_node_has_the_labels_taints_and_pods_it_was_given(family: str) -> None:
    """Independent of the user's own part."""
    found = booted(family)
    assert (found.cluster, found.max_pods, found.labels) == ("demo", 17, LABELS)
    node = node_object(INSTANCE, found, NOW)
    assert node["spec"]["taints"][:-1] == TAINT_OBJECTS
    assert node["status"]["capacity"]["pods"] == "17"


@pytest.mark.parametrize("family", USERS)
def test_a_node_reserves_what_its_settings_say(family: str) -> None:
    """P-22: what is reserved; the rest is as EKS' images have it: 70m of CPU, 574Mi of memory."""
    reserved = {"kubeReserved": {"cpu": "200m"}, "systemReserved": {"memory": "1Gi"}}
    asked = bootstrap(kubelet=reserved, user_data=USERS[family])
    found = parse_user_data(base64.b64encode(render(family, asked).encode()).decode())
    room = node_object(INSTANCE, found, NOW)["status"]["allocatable"]
    assert room["cpu"] == "1800m"
    assert room["memory"] == f"{8192 - math.ceil(8192 * 0.075) - 574 - 100 - 1024}Mi"


@pytest.mark.parametrize("family", USERS)
def test_a_node_has_the_storage_of_its_largest_volume(family: str) -> None:
    """IT-15, IT-33: less the gibibyte that EKS reserves, and a tenth below which the kubelet evicts."""
    node = node_object(INSTANCE.model_copy(update={"largest_volume_gib": 100}), booted(family), NOW)
    assert node["status"]["capacity"]["ephemeral-storage"] == str(100 * GIB)
    assert node["status"]["allocatable"]["ephemeral-storage"] == str(89 * GIB)


@pytest.mark.parametrize("family", ["AL2", "AL2023", "Bottlerocket"])
def test_a_node_has_the_storage_of_its_combined_local_disks(family: str) -> None:
    """EC-08 RAID0; a type without local disks has its volume."""
    asked = bootstrap(raid0_instance_store=True, user_data=USERS[family])
    found = parse_user_data(base64.b64encode(render(family, asked).encode()).decode())
    with_disks = INSTANCE.model_copy(update={"instance_store_gb": 475})
    for instance, size in ((with_disks, 475 * 10**9), (INSTANCE, 20 * GIB)):
        capacity = node_object(instance, found, NOW)["status"]["capacity"]
        assert capacity["ephemeral-storage"] == str(size)
    usual = node_object(with_disks, booted(family), NOW)["status"]["capacity"]
    assert usual["ephemeral-storage"] == str(20 * GIB), "the policy decides, not the type"


@pytest.mark.parametrize("family", USERS)
def test_a_node_evicts_below_the_thresholds_of_its_settings(family: str) -> None:
    """IT-33; 100% switches a threshold off."""
    hard = {"memory.available": "1Gi", "nodefs.available": "100%"}
    asked = bootstrap(kubelet={"evictionHard": hard}, user_data=USERS[family])
    found = parse_user_data(base64.b64encode(render(family, asked).encode()).decode())
    room = node_object(INSTANCE, found, NOW)["status"]["allocatable"]
    assert room["memory"] == f"{8192 - math.ceil(8192 * 0.075) - 574 - 1024}Mi"
    assert room["ephemeral-storage"] == str(19 * GIB)


def test_a_threshold_in_percent_is_of_the_capacity() -> None:
    asked = bootstrap(kubelet={"evictionHard": {"memory.available": "10%"}})
    found = parse_user_data(base64.b64encode(render("AL2023", asked).encode()).decode())
    status = node_object(INSTANCE, found, NOW)["status"]
    capacity = int(status["capacity"]["memory"].removesuffix("Mi"))
    assert status["allocatable"]["memory"] == f"{capacity - math.ceil(574 + capacity / 10)}Mi"


@pytest.mark.parametrize("wrong", ["much", "much%", "101%", "nan%", "5Gi%"])
def test_a_kubelet_does_not_start_with_a_threshold_that_is_none(wrong: str) -> None:
    asked = bootstrap(kubelet={"evictionHard": {"memory.available": "7%"}})
    text = render("AL2023", asked).replace("7%", wrong)
    with pytest.raises(ValueError, match="is no amount, nor 0% to 100%"):
        parse_user_data(base64.b64encode(text.encode()).decode())


def test_a_kubelet_does_not_start_with_a_reservation_that_is_no_quantity() -> None:
    asked = bootstrap(kubelet={"kubeReserved": {"cpu": "200m"}}, user_data=USERS["Bottlerocket"])
    text = render("Bottlerocket", asked).replace("200m", "much")
    with pytest.raises(ValueError, match=r"kubeReserved\.cpu: 'much' is not a quantity"):
        parse_user_data(base64.b64encode(text.encode()).decode())


@pytest.mark.parametrize("family", USERS)
def test_a_node_reports_its_operating_system(family: str) -> None:
    """IT-40: labels of Kubernetes."""
    system = "windows" if family.startswith("Windows") else "linux"
    node = node_object(INSTANCE, booted(family), NOW)
    assert node["metadata"]["labels"]["kubernetes.io/os"] == system
    assert node["status"]["nodeInfo"]["operatingSystem"] == system


def test_invalid_settings_are_reported() -> None:
    text = base64.b64encode(b"[settings.kubernetes\n").decode()
    with pytest.raises(ValueError, match="not TOML"):
        parse_user_data(text)


def test_windows_without_a_call_joins_without_labels() -> None:
    text = base64.b64encode(b"<powershell>\nWrite-Host 'hi'\n</powershell>").decode()
    assert parse_user_data(text) == KubeletConfiguration(operating_system="windows")
